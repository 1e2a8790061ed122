//! The balance of an account, or of a key, in memory.
//!
//! A hold is taken in one atomic step that cannot overspend, so concurrent requests never spend more than
//! there is. There is no lock: each of the two amounts is an atomic.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::shared_pool::{Correction, LocalPool, PoolPhase, PoolState, Shortages};
use domain::allocation::{self, Allocation, AllocationRequest, Pool};
use domain::money::Nanos;

/// The money of one account, or the spending cap of the keys of one origin minus what they have spent. Invariant: `total`
/// equals `spendable` plus all holds, except during a concurrent operation, because the two amounts are
/// changed one after the other.
#[derive(Debug, Default)]
pub(super) struct Balance {
    total: AtomicI64,
    /// The part of the total that is not held.
    spendable: AtomicI64,
    /// The part of what is held that is reserved for another process.
    reserved: AtomicI64,
    /// Whether another process keeps this balance now.
    is_handed_over: AtomicBool,
    /// The number of requests that wait for money to be released.
    waiting: AtomicUsize,
    /// The spending cap that was set last; zero if there never was one, and for an account.
    cap: AtomicI64,
    /// The pool that this balance is a part of; `None` if it is all there is.
    shared: Option<Box<SharedPool>>,
}

/// The pool that a balance is a part of.
#[derive(Debug)]
struct SharedPool {
    pool: Pool,
    state: PoolState,
    shortages: Arc<Shortages>,
}

/// Registers a request that waits for money to be released. Dropping it ends the wait.
#[derive(Debug)]
pub(super) struct WaitGuard(Arc<Balance>);

/// Money that is held for a request. Dropping it releases the money.
#[derive(Debug)]
pub(super) struct BalanceHold {
    balance: Arc<Balance>,
    amount: i64,
}

/// Money that is reserved for another process. Dropping it releases the money, unless the balance was handed over: the
/// process that keeps it now reserves the same money.
#[derive(Debug)]
pub(super) struct ReservedMoney {
    balance: Arc<Balance>,
    amount: i64,
}

/// How a cost was covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Payment {
    /// The amount that the account paid.
    pub charged: Nanos,
    /// The amount that exceeded both the hold and the spendable balance.
    pub overrun: Nanos,
}

// === impl Balance ===

impl Balance {
    /// Creates a balance with nothing held.
    pub(super) fn new(balance: Nanos) -> Self {
        Self {
            total: AtomicI64::new(balance.0),
            spendable: AtomicI64::new(balance.0),
            reserved: AtomicI64::new(0),
            is_handed_over: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            cap: AtomicI64::new(0),
            shared: None,
        }
    }

    /// Creates an empty part of `pool`, which is bounded by `cap` if it is a spending cap.
    pub(super) fn of_pool(pool: Pool, cap: Nanos, shortages: Arc<Shortages>) -> Self {
        let shared = SharedPool { pool, state: PoolState::default(), shortages };
        let cap = AtomicI64::new(cap.0);
        Self { cap, shared: Some(Box::new(shared)), ..Self::default() }
    }

    /// Creates the balance of a key that has spent `spent`, which may be more than its cap.
    pub(super) fn of_spend_cap(cap: Nanos, spent: Nanos) -> Self {
        Self { cap: AtomicI64::new(cap.0), ..Self::new(cap + -spent) }
    }

    /// Replaces the spending cap.
    pub(super) fn set_cap(self: &Arc<Self>, cap: Nanos) {
        let before = self.cap.swap(cap.0, Ordering::Relaxed);
        let Some(shared) = &self.shared else { return self.change(Nanos(cap.0 - before)) };
        shared.state.reopen();
        // If the pool has become too small, the store recalls what gateways have of it.
        if cap.0 < before && shared.state.request(0) == Some(true) {
            shared.shortages.push(self.clone());
        }
    }

    /// Records a payment that was made without regard to this balance, which may become negative. A part of a
    /// shared pool does not: the store subtracts the payment from the pool.
    pub(super) fn record_payment(&self, paid: Nanos) {
        if self.shared.is_some() {
            self.pay(paid);
        } else {
            self.change(-paid);
        }
    }

    /// Returns the total, held money included.
    pub(super) fn total(&self) -> Nanos {
        Nanos(self.total.load(Ordering::Relaxed))
    }

    /// Returns the amount that is not held.
    pub(super) fn spendable(&self) -> Nanos {
        Nanos(self.spendable.load(Ordering::Relaxed))
    }

    /// Returns the total, and what the pool had outside of this gateway when it was last seen.
    pub(super) fn total_of_pool(&self) -> Nanos {
        let outside = self.shared.as_ref().map_or(0, |shared| shared.state.outside());
        Nanos(self.total().0.saturating_add(outside.max(0)))
    }

    /// Returns whether this is a part of a pool from which more may be obtained.
    pub(super) fn may_obtain_more(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.state.is_open())
    }

    /// Requests more from the pool if less than `amount` is spendable. Returns whether more may be obtained, so
    /// that it is worth waiting.
    pub(super) fn request(self: &Arc<Self>, amount: Nanos) -> bool {
        let Some(shared) = &self.shared else { return false };
        let lacking = amount.0.saturating_sub(self.spendable().0);
        if lacking <= 0 {
            return false;
        }
        let requested = shared.state.request(lacking);
        if requested == Some(true) {
            shared.shortages.push(self.clone());
        }
        requested.is_some()
    }

    /// Requests more from the pool ahead of need, if little is spendable.
    pub(super) fn request_ahead(self: &Arc<Self>) {
        if let Some(shared) = &self.shared
            && shared.state.request_ahead(self.spendable().0)
        {
            shared.shortages.push(self.clone());
        }
    }

    /// Returns whether a request waits for money to be released.
    pub(super) fn has_waiters(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Registers a request that waits for money. While the guard lives, requests that hold more than they need
    /// release the rest. Returns `None` if `max_waiters` wait already.
    pub(super) fn register_waiter(self: &Arc<Self>, max_waiters: usize) -> Option<WaitGuard> {
        let one_more = |waiting: usize| (waiting < max_waiters).then_some(waiting + 1);
        let entered = self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        entered.is_ok().then(|| WaitGuard(self.clone()))
    }

    /// Changes the balance by a credit or a correction.
    pub(super) fn change(&self, amount: Nanos) {
        add(&self.total, amount.0);
        add(&self.spendable, amount.0);
    }

    /// Holds `amount`, or returns `None` if the spendable amount is less.
    pub(super) fn hold(self: &Arc<Self>, amount: Nanos) -> Option<BalanceHold> {
        let amount = amount.0.max(0);
        take(&self.spendable, amount).then(|| BalanceHold { balance: self.clone(), amount })
    }

    /// Reserves `amount` for another process, or what is spendable if that is less.
    pub(super) fn reserve(self: &Arc<Self>, amount: Nanos) -> ReservedMoney {
        let amount = take_up_to(&self.spendable, amount.0.max(0));
        add(&self.reserved, amount);
        ReservedMoney { balance: self.clone(), amount }
    }

    /// Reduces the balance to what requests of this process hold and, if they hold something, half of the rest.
    /// Returns the new balance, without what is reserved for other processes; `None` if they hold nothing.
    pub(super) fn reduce_for_hand_over(&self) -> Option<Nanos> {
        self.is_handed_over.store(true, Ordering::SeqCst);
        let total = || self.total().0 - self.reserved.load(Ordering::Relaxed);
        loop {
            let spendable = self.spendable().0;
            let is_held = total() > spendable;
            let rest = spendable.max(0);
            let removed = if is_held { rest - rest / 2 } else { rest };
            // Taking fails only if a request takes its hold at the same moment.
            if removed == 0 || take(&self.spendable, removed) {
                add(&self.total, -removed);
                return is_held.then(|| Nanos(total()));
            }
        }
    }

    /// Returns an empty hold, which even an empty balance grants.
    pub(super) fn hold_nothing(self: &Arc<Self>) -> BalanceHold {
        BalanceHold { balance: self.clone(), amount: 0 }
    }

    /// Pays a cost without a hold, as far as there is money.
    pub(super) fn pay(&self, cost: Nanos) -> Payment {
        self.settle(0, cost)
    }

    /// Pays `cost` from `held`, then from the spendable amount, and releases the rest of `held`.
    fn settle(&self, held: i64, cost: Nanos) -> Payment {
        let cost = cost.0.max(0);
        let beyond = cost.saturating_sub(held).max(0);
        let taken = take_up_to(&self.spendable, beyond);
        let charged = cost - (beyond - taken);
        add(&self.total, -charged);
        add(&self.spendable, held.saturating_sub(cost).max(0));
        Payment { charged: Nanos(charged), overrun: Nanos(beyond - taken) }
    }
}

impl LocalPool for Balance {
    fn take_request(&self) -> Option<AllocationRequest> {
        self.shared.as_ref().map(|shared| {
            let cap = || self.cap.load(Ordering::Relaxed);
            let limit = matches!(shared.pool, Pool::SpendCap(_)).then(cap);
            shared.state.take_request(shared.pool.clone(), limit)
        })
    }

    fn add(&self, allocation: Allocation, phase: PoolPhase) {
        self.change(Nanos(allocation.granted));
        if let Some(shared) = &self.shared {
            shared.state.add(allocation, self.spendable().0, phase);
        }
    }

    fn reopen(&self) {
        if let Some(shared) = &self.shared {
            shared.state.reopen();
        }
    }

    fn take_unused(&self, needed: Option<i64>, _: Duration) -> i64 {
        loop {
            let spendable = self.spendable().0.max(0);
            let amount =
                needed.map_or(spendable, |needed| allocation::give_back(spendable, needed));
            // This fails only if a request takes its hold at the same moment.
            if take(&self.spendable, amount) {
                add(&self.total, -amount);
                return amount;
            }
        }
    }

    fn reduce_to_used(&self, now: Duration) -> Correction {
        Correction::GiveBack(self.take_unused(Some(i64::MAX), now))
    }

    fn activity(&self, _: Duration) -> u64 {
        self.total.load(Ordering::Relaxed).cast_unsigned()
    }

    fn is_empty(&self) -> bool {
        self.total() == Nanos::ZERO
    }
}

// === impl BalanceHold ===

impl BalanceHold {
    /// Returns the held amount.
    pub(super) fn amount(&self) -> Nanos {
        Nanos(self.amount)
    }

    /// Holds `more` in addition; all of it or nothing.
    pub(super) fn grow(&mut self, more: Nanos) -> bool {
        let more = more.0.max(0);
        let grew = take(&self.balance.spendable, more);
        if grew {
            self.amount = self.amount.saturating_add(more);
        }
        grew
    }

    /// Releases `less` of the hold.
    pub(super) fn shrink(&mut self, less: Nanos) {
        let less = less.0.clamp(0, self.amount);
        self.amount -= less;
        add(&self.balance.spendable, less);
    }

    /// Returns the balance that this holds money of.
    pub(super) fn balance(&self) -> &Arc<Balance> {
        &self.balance
    }

    /// Pays a cost from the hold and releases the rest.
    pub(super) fn settle(mut self, cost: Nanos) -> Payment {
        let held = std::mem::take(&mut self.amount);
        self.balance.settle(held, cost)
    }
}

impl Drop for WaitGuard {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for BalanceHold {
    fn drop(&mut self) {
        add(&self.balance.spendable, self.amount);
    }
}

// === impl ReservedMoney ===

impl ReservedMoney {
    /// Pays a cost from what is reserved, then from the spendable amount.
    pub(super) fn pay(&mut self, cost: Nanos) -> Payment {
        let held = cost.0.clamp(0, self.amount);
        self.amount -= held;
        add(&self.balance.reserved, -held);
        self.balance.settle(held, cost)
    }
}

impl Drop for ReservedMoney {
    fn drop(&mut self) {
        let Self { balance, amount } = self;
        add(&balance.reserved, -*amount);
        if balance.is_handed_over.load(Ordering::SeqCst) {
            add(&balance.total, -*amount);
        } else {
            add(&balance.spendable, *amount);
        }
    }
}

fn add(to: &AtomicI64, amount: i64) {
    // The closure always returns `Some`, so the update cannot fail.
    _ = to.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |before| {
        Some(before.saturating_add(amount))
    });
}

/// Subtracts `amount` if there is as much. Ordered with the flag of a hand-over: a hold that the hand-over does not see
/// sees the flag.
fn take(from: &AtomicI64, amount: i64) -> bool {
    let rest = |before: i64| before.checked_sub(amount).filter(|rest| *rest >= 0);
    from.fetch_update(Ordering::SeqCst, Ordering::Relaxed, rest).is_ok()
}

/// Subtracts up to `amount` and returns the subtracted amount.
fn take_up_to(from: &AtomicI64, amount: i64) -> i64 {
    let rest = |before: i64| Some(before - amount.min(before.max(0)));
    let before = from.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest);
    amount.min(before.unwrap_or_default().max(0))
}

#[cfg(test)]
mod tests;
