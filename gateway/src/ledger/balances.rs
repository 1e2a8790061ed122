//! The balances in memory, found by account and key.

use std::sync::Arc;

use foldhash::fast::RandomState;

use super::balance::Balance;
use super::funds::{Funds, KeyFunds};
use super::hand_over::RetainedFunds;
use crate::shared_pool::{LocalPool, Shortages};
use domain::allocation::Pool;
use domain::id::{AccountId, KeyId};
use domain::key::Key;
use domain::ledger::HOUSE;
use domain::money::Nanos;

/// The balances of all accounts and keys. One that is asked for and missing is created.
#[derive(Default)]
pub(super) struct Balances {
    accounts: papaya::HashMap<AccountId, Arc<Balance>, RandomState>,
    /// The spending caps of keys minus what they have spent, by [`Key::origin`]. A key without a cap is counted,
    /// too, so that a cap that is set later covers what was spent before.
    keys: papaya::HashMap<KeyId, Arc<Balance>, RandomState>,
    /// The queue of balances that lack something, if they are shared with other gateways.
    shortages: Option<Arc<Shortages>>,
}

/// The sum of balances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TotalBalance {
    /// The sum, held money included.
    pub amount: Nanos,
    /// The part that is held for requests.
    pub held: Nanos,
}

impl Balances {
    /// Creates the balances of these accounts, which only this gateway changes.
    pub(super) fn new(balances: &[(AccountId, Nanos)]) -> Self {
        let accounts = balances.iter();
        let accounts =
            accounts.map(|(account, amount)| (*account, Arc::new(Balance::new(*amount))));
        Self { accounts: accounts.collect(), ..Self::default() }
    }

    /// Creates balances that are shared with other gateways. They are empty until parts of them are obtained, which
    /// they request in `shortages`.
    pub(super) fn sharing(shortages: Arc<Shortages>) -> Self {
        Self { shortages: Some(shortages), ..Self::default() }
    }

    /// Returns whether the balances are shared with other gateways.
    pub(super) fn are_shared(&self) -> bool {
        self.shortages.is_some()
    }

    /// Returns an account's balance, held money included.
    pub(super) fn total(&self, account: AccountId) -> Nanos {
        self.accounts.pin().get(&account).map_or(Nanos::ZERO, |balance| balance.total())
    }

    /// Returns the sum over all accounts but the [`HOUSE`].
    pub(super) fn sum(&self) -> TotalBalance {
        let mut total = TotalBalance::default();
        let accounts = self.accounts.pin();
        for (_, balance) in accounts.iter().filter(|(account, _)| **account != HOUSE) {
            let amount = balance.total();
            total.amount = total.amount + amount;
            total.held = total.held + amount + -balance.spendable();
        }
        total
    }

    /// Returns what a request with `key` is paid from.
    pub(super) fn funds(&self, key: &Key) -> Funds {
        let balance = self.of_key(key);
        let is_capped = key.spend_cap.is_some();
        let of_key = if is_capped { KeyFunds::Capped } else { KeyFunds::Uncapped };
        Funds { account: self.of_account(key.account), key: of_key(balance) }
    }

    /// Adds a credit that the store has.
    pub(super) fn credit(&self, account: AccountId, amount: Nanos) {
        let balance = self.of_account(account);
        if self.are_shared() {
            // A request that was refused a moment ago may ask for it at once.
            balance.reopen();
        } else {
            balance.change(amount);
        }
    }

    /// Lets requests of an account ask for a part of its shared balance again, after it was changed in the store.
    pub(super) fn reopen(&self, account: AccountId) {
        if let Some(balance) = self.accounts.pin().get(&account) {
            balance.reopen();
        }
    }

    /// Sets the amount that the keys of this origin have `spent`.
    pub(super) fn resume_spending(&self, key: &Key, spent: Nanos) {
        if key.spend_cap.is_some() || spent != Nanos::ZERO {
            let cap = key.spend_cap.unwrap_or_default();
            let balance = Arc::new(Balance::of_spend_cap(cap, spent));
            self.keys.pin().insert(key.origin.clone(), balance);
        }
    }

    /// Returns the part of a key's spending cap that is spent or held; `None` if it has no cap.
    pub(super) fn spend_cap_in_use(&self, key: &Key) -> Option<Nanos> {
        let cap = key.spend_cap?;
        let left = self.keys.pin().get(&key.origin).map_or(cap, |balance| balance.spendable());
        Some(cap + -left)
    }

    /// Reduces all balances to what requests may still spend that hold something, and returns these.
    pub(super) fn reduce_for_hand_over(&self) -> RetainedFunds {
        let (accounts, keys) = (self.accounts.pin(), self.keys.pin());
        let retained =
            accounts.iter().filter_map(|(id, it)| Some((*id, it.reduce_for_hand_over()?)));
        let caps = keys
            .iter()
            .filter_map(|(origin, it)| Some((origin.clone(), it.reduce_for_hand_over()?)));
        RetainedFunds { accounts: retained.collect(), caps: caps.collect() }
    }

    /// Returns the balance of the keys of this origin. Keys without one have spent nothing, and have no cap.
    pub(super) fn of_origin(&self, origin: &KeyId) -> Arc<Balance> {
        let balance = || Arc::new(Balance::of_spend_cap(Nanos::ZERO, Nanos::ZERO));
        self.keys.pin().get_or_insert_with(origin.clone(), balance).clone()
    }

    /// Returns the balance of a key. A key without one has spent nothing.
    pub(super) fn of_key(&self, key: &Key) -> Arc<Balance> {
        let keys = self.keys.pin();
        if let Some(balance) = keys.get(&key.origin) {
            return balance.clone();
        }
        let cap = key.spend_cap.unwrap_or_default();
        let balance = || match &self.shortages {
            Some(shortages) => {
                let pool = Pool::SpendCap(key.origin.clone());
                Balance::of_pool(pool, cap, shortages.clone())
            }
            None => Balance::of_spend_cap(cap, Nanos::ZERO),
        };
        keys.get_or_insert_with(key.origin.clone(), || Arc::new(balance())).clone()
    }

    /// Returns the balance of an account.
    pub(super) fn of_account(&self, account: AccountId) -> Arc<Balance> {
        let accounts = self.accounts.pin();
        if let Some(balance) = accounts.get(&account) {
            return balance.clone();
        }
        let balance = || match &self.shortages {
            Some(shortages) => {
                Balance::of_pool(Pool::Balance(account), Nanos::ZERO, shortages.clone())
            }
            None => Balance::default(),
        };
        accounts.get_or_insert_with(account, || Arc::new(balance())).clone()
    }
}
