//! The balances that a request is paid from: its account's and its key's.
//!
//! The balance of a key is its spending cap minus what it has spent. With a cap, each hold and each payment
//! applies to both balances, so that neither is overspent. Without one, only payments are counted, so that
//! a cap that is set later covers them.

use std::sync::Arc;

use super::balance::{Balance, BalanceHold, Payment, WaitGuard};
use domain::money::Nanos;

/// The balances that a request may be paid from.
#[derive(Clone, Debug)]
pub(super) struct Funds {
    pub(super) account: Arc<Balance>,
    pub(super) key: KeyFunds<Arc<Balance>>,
}

/// The balance of a key, or money held in it.
#[derive(Clone, Debug)]
pub(super) enum KeyFunds<T> {
    /// The key has a spending cap.
    Capped(T),
    /// The key has no spending cap.
    Uncapped(Arc<Balance>),
}

/// Money held in each balance. Dropping it releases the money.
#[derive(Debug)]
pub(super) struct FundsHold {
    account: BalanceHold,
    key: KeyFunds<BalanceHold>,
}

/// A request that waits for money to be released.
#[derive(Debug)]
pub struct FundsWait {
    _account: WaitGuard,
    _spend_cap: Option<WaitGuard>,
}

/// Which balance is insufficient, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsufficientFunds {
    /// The account's balance does not cover the request.
    Spent,
    /// The account's balance would cover it, but other requests hold it.
    Held,
    /// The rest of the key's cap does not cover it.
    CapSpent,
    /// The rest of the key's cap would cover it, but other requests hold it.
    CapHeld,
    /// More was requested from the pools that this gateway shares with others.
    Requested,
    /// Another process keeps the balances now.
    HandedOver,
}

// === impl KeyFunds ===

impl<T> KeyFunds<T> {
    /// Returns what bounds the key's spending; `None` without a spending cap.
    fn cap(&self) -> Option<&T> {
        match self {
            Self::Capped(cap) => Some(cap),
            Self::Uncapped(_) => None,
        }
    }
}

// === impl Funds ===

impl Funds {
    /// Returns the amount that both balances cover beside all holds.
    pub(super) fn spendable(&self) -> Nanos {
        let account = self.account.spendable();
        self.key.cap().map_or(account, |cap| cap.spendable().min(account))
    }

    /// Holds `amount`, or returns `None` if there is less.
    pub(super) fn hold(&self, amount: Nanos) -> Option<FundsHold> {
        let account = self.account.hold(amount)?;
        let key = match &self.key {
            KeyFunds::Capped(cap) => KeyFunds::Capped(cap.hold(amount)?),
            KeyFunds::Uncapped(balance) => KeyFunds::Uncapped(balance.clone()),
        };
        Some(FundsHold { account, key })
    }

    /// Pays a cost without a hold, as far as all balances cover it.
    pub(super) fn pay(&self, cost: Nanos) -> Payment {
        let key = match &self.key {
            KeyFunds::Capped(cap) => KeyFunds::Capped(cap.hold_nothing()),
            KeyFunds::Uncapped(balance) => KeyFunds::Uncapped(balance.clone()),
        };
        FundsHold { account: self.account.hold_nothing(), key }.settle(cost)
    }

    /// Registers a request that waits for money. While the guard lives, requests that hold more than they need
    /// release the rest. Returns `None` if `max_waiters` wait already.
    pub(super) fn register_waiter(&self, max_waiters: usize) -> Option<FundsWait> {
        let account = self.account.register_waiter(max_waiters)?;
        let spend_cap = match self.key.cap() {
            Some(cap) => Some(cap.register_waiter(max_waiters)?),
            None => None,
        };
        Some(FundsWait { _account: account, _spend_cap: spend_cap })
    }

    /// Requests more from pools that are shared with other gateways, if less than `amount` is spendable. Returns
    /// whether more may be obtained, so that it is worth waiting.
    pub(super) fn request(&self, amount: Nanos) -> bool {
        let from_account = self.account.request(amount);
        let from_cap = self.key.cap().is_some_and(|cap| cap.request(amount));
        from_account || from_cap
    }

    /// Requests more ahead of need from pools that are shared with other gateways.
    pub(super) fn request_ahead(&self) {
        self.account.request_ahead();
        if let Some(cap) = self.key.cap() {
            cap.request_ahead();
        }
    }

    /// Returns which balance is insufficient; `suffices` returns whether an amount would cover the request.
    pub(super) fn insufficient_funds(&self, suffices: impl Fn(Nanos) -> bool) -> InsufficientFunds {
        if !suffices(self.account.total_of_pool()) {
            return InsufficientFunds::Spent;
        }
        match self.key.cap() {
            Some(cap) if !suffices(cap.total_of_pool()) => InsufficientFunds::CapSpent,
            Some(cap) if !suffices(cap.spendable()) => InsufficientFunds::CapHeld,
            _ => InsufficientFunds::Held,
        }
    }
}

// === impl FundsHold ===

impl FundsHold {
    /// Holds `more` in addition; all of it or nothing.
    pub(super) fn grow(&mut self, more: Nanos) -> bool {
        let KeyFunds::Capped(cap) = &mut self.key else { return self.account.grow(more) };
        if !cap.grow(more) {
            return false;
        }
        let grew = self.account.grow(more);
        if !grew {
            cap.shrink(more);
        }
        grew
    }

    /// Releases `less` of the hold.
    pub(super) fn shrink(&mut self, less: Nanos) {
        self.account.shrink(less);
        if let KeyFunds::Capped(cap) = &mut self.key {
            cap.shrink(less);
        }
    }

    /// Returns the amount that both balances cover beside all holds.
    pub(super) fn spendable(&self) -> Nanos {
        let account = self.account.balance().spendable();
        self.key.cap().map_or(account, |cap| cap.balance().spendable().min(account))
    }

    /// Returns whether a request waits for money that this one may release.
    pub(super) fn has_waiters(&self) -> bool {
        self.account.balance().has_waiters()
            || self.key.cap().is_some_and(|cap| cap.balance().has_waiters())
    }

    /// Requests more from pools that are shared with other gateways, if less than `more` is spendable beside the
    /// hold.
    pub(super) fn request(&self, more: Nanos) {
        self.account.balance().request(more);
        if let Some(cap) = self.key.cap() {
            cap.balance().request(more);
        }
    }

    /// Returns whether other requests hold money that they may release, or more may be obtained from other
    /// gateways.
    pub(super) fn is_shared(&self) -> bool {
        let is_shared = |hold: &BalanceHold| {
            let balance = hold.balance();
            balance.total() + -balance.spendable() > hold.amount() || balance.may_obtain_more()
        };
        is_shared(&self.account) || self.key.cap().is_some_and(is_shared)
    }

    /// Registers a request that waits for money. While the guard lives, other requests release the money that
    /// they do not need.
    pub(super) fn register_waiter(&self) -> Option<FundsWait> {
        let key = match &self.key {
            KeyFunds::Capped(cap) => KeyFunds::Capped(cap.balance().clone()),
            KeyFunds::Uncapped(balance) => KeyFunds::Uncapped(balance.clone()),
        };
        Funds { account: self.account.balance().clone(), key }.register_waiter(usize::MAX)
    }

    /// Pays a cost as far as all balances cover it, and releases the rest.
    pub(super) fn settle(self, cost: Nanos) -> Payment {
        let cap = match self.key {
            KeyFunds::Capped(cap) => cap,
            KeyFunds::Uncapped(balance) => {
                let payment = self.account.settle(cost);
                balance.record_payment(payment.charged);
                return payment;
            }
        };
        let balance = cap.balance().clone();
        let allowed = cap.settle(cost).charged;
        let Payment { charged, overrun } = self.account.settle(allowed);
        // What the account could not pay does not count as spent by the key.
        balance.change(overrun);
        Payment { charged, overrun: cost + -charged }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn funds(balance: i64, cap: i64) -> Funds {
        Funds {
            account: Arc::new(Balance::new(Nanos(balance))),
            key: KeyFunds::Capped(Arc::new(Balance::new(Nanos(cap)))),
        }
    }

    fn left(funds: &Funds) -> (i64, i64) {
        (funds.account.total().0, funds.key.cap().unwrap().total().0)
    }

    #[test]
    fn the_smaller_balance_decides_and_is_named() {
        let rich = funds(100, 10);
        assert_eq!(rich.spendable(), Nanos(10));
        let held = rich.hold(Nanos(8)).unwrap();
        assert!(rich.hold(Nanos(3)).is_none());
        assert_eq!(rich.account.spendable(), Nanos(92), "what one balance refuses no other holds");
        let needs = |amount: i64| move |balance: Nanos| balance >= Nanos(amount);
        assert_eq!(rich.insufficient_funds(needs(3)), InsufficientFunds::CapHeld);
        assert_eq!(rich.insufficient_funds(needs(11)), InsufficientFunds::CapSpent);
        assert_eq!(rich.insufficient_funds(needs(101)), InsufficientFunds::Spent);
        drop(held);
        assert_eq!(rich.spendable(), Nanos(10));
        let poor = funds(5, 10);
        let _held = poor.hold(Nanos(4)).unwrap();
        assert_eq!(poor.insufficient_funds(needs(3)), InsufficientFunds::Held);
    }

    #[test]
    fn a_key_spends_what_its_account_paid_and_no_more_than_its_cap() {
        let capped = funds(100, 10);
        let paid = capped.hold(Nanos(4)).unwrap().settle(Nanos(50));
        assert_eq!(paid, Payment { charged: Nanos(10), overrun: Nanos(40) });
        assert_eq!(left(&capped), (90, 0));
        let poor = funds(6, 10);
        let paid = poor.hold(Nanos(4)).unwrap().settle(Nanos(8));
        assert_eq!(paid, Payment { charged: Nanos(6), overrun: Nanos(2) });
        assert_eq!(left(&poor), (0, 4));
    }

    #[test]
    fn a_hold_that_only_one_balance_can_grow_does_not_grow() {
        let poor = funds(6, 10);
        let mut held = poor.hold(Nanos(4)).unwrap();
        assert!(!held.grow(Nanos(3)));
        assert_eq!(poor.key.cap().unwrap().spendable(), Nanos(6));
        assert!(held.grow(Nanos(2)));
        drop(held);
        assert_eq!((poor.spendable(), left(&poor)), (Nanos(6), (6, 10)));
    }

    #[test]
    fn a_cap_that_is_set_later_covers_what_was_spent_before() {
        let balance = Arc::new(Balance::of_spend_cap(Nanos::ZERO, Nanos(3)));
        let account = Arc::new(Balance::new(Nanos(100)));
        let uncapped = Funds { account: account.clone(), key: KeyFunds::Uncapped(balance.clone()) };
        let under_way = uncapped.hold(Nanos(9)).unwrap();
        assert_eq!(uncapped.pay(Nanos(20)), Payment { charged: Nanos(20), overrun: Nanos(0) });
        balance.set_cap(Nanos(50));
        let capped = Funds { account, key: KeyFunds::Capped(balance.clone()) };
        assert_eq!(capped.spendable(), Nanos(50 - 3 - 20));
        under_way.settle(Nanos(9));
        assert_eq!((capped.spendable(), capped.account.total()), (Nanos(18), Nanos(71)));
        balance.set_cap(Nanos(10));
        assert_eq!(capped.spendable(), Nanos(-22), "below what was spent");
        assert!(capped.hold(Nanos(1)).is_none());
        balance.set_cap(Nanos(33));
        assert_eq!(capped.spendable(), Nanos(1));
    }

    #[test]
    fn three_hundred_at_once_never_spend_more_than_the_cap() {
        let funds = funds(1_000, 10);
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let funds = funds.clone();
                std::thread::spawn(move || {
                    let holds = (0..75).filter_map(|_| funds.hold(Nanos(1)));
                    holds.map(|held| held.settle(Nanos(2)).charged.0).sum::<i64>()
                })
            })
            .collect();
        let paid: i64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!((paid, left(&funds)), (10, (990, 0)));
    }

    proptest! {
        #[test]
        fn both_balances_lose_what_was_charged_and_never_more_than_they_have(
            balance in 0..200_i64,
            cap in 0..200_i64,
            requests in prop::collection::vec((0..40_i64, 0..40_i64, 0..80_i64), 0..40),
        ) {
            let funds = funds(balance, cap);
            let mut charged = 0;
            for (hold, grow, cost) in requests {
                let Some(mut held) = funds.hold(Nanos(hold)) else { continue };
                held.grow(Nanos(grow));
                let paid = held.settle(Nanos(cost));
                prop_assert_eq!(paid.charged.0 + paid.overrun.0, cost);
                charged += paid.charged.0;
            }
            prop_assert_eq!(left(&funds), (balance - charged, cap - charged));
            prop_assert!(charged <= balance.min(cap));
            prop_assert_eq!(funds.spendable().0, (balance - charged).min(cap - charged));
        }
    }
}
