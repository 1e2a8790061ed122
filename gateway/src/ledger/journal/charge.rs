//! Charges the requests that a crashed process left open.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::sync::Arc;

use jiff::Timestamp;

use crate::ledger::balance::{Balance, Payment};
use crate::ledger::funds::{Funds, KeyFunds};
use domain::allocation::Pool;
use domain::id::{AccountId, KeyId};
use domain::money::Nanos;
use domain::record::RequestRecord;
use store::{Allocations, Store, StoreError};

/// The balances that were loaded so far.
struct Balances<'a> {
    store: &'a dyn Store,
    /// What this gateway has of balances and caps; `None` if it has all.
    allocations: Option<&'a dyn Allocations>,
    accounts: HashMap<AccountId, Arc<Balance>>,
    /// The amounts that keys with a spending cap may still spend, by
    /// [`Key::origin`](domain::key::Key::origin).
    spend_caps: HashMap<KeyId, Arc<Balance>>,
    /// The amounts that such keys have spent, by the same; loaded on first use.
    spent: Option<HashMap<KeyId, Nanos>>,
}

/// Charges each request as far as its account has money and its key's spending cap allows; the rest is the
/// operator's loss, as in [`Ledger::settle`](crate::ledger::Ledger::settle).
pub(super) async fn charge(
    store: &dyn Store,
    allocations: Option<&dyn Allocations>,
    open: &mut [RequestRecord],
) -> Result<(), StoreError> {
    let (accounts, spend_caps) = (HashMap::new(), HashMap::new());
    let mut balances = Balances { store, allocations, accounts, spend_caps, spent: None };
    for record in open {
        let account = balances.account(record.account).await?;
        let spend_cap = balances.spend_cap(&record.key).await?;
        let cost = record.cost.unwrap_or_default();
        let uncapped = || KeyFunds::Uncapped(Arc::default());
        let key = spend_cap.map_or_else(uncapped, KeyFunds::Capped);
        let Payment { charged, overrun } = Funds { account, key }.pay(cost);
        record.cost = Some(charged);
        // The record may have an overrun already: the cost of implausible usage.
        record.overrun = record.overrun + overrun;
    }
    Ok(())
}

impl Balances<'_> {
    async fn account(&mut self, account: AccountId) -> Result<Arc<Balance>, StoreError> {
        Ok(match self.accounts.entry(account) {
            Slot::Occupied(known) => known.get().clone(),
            Slot::Vacant(unknown) => {
                let balance = match self.allocations {
                    Some(allocations) => allocated(allocations, Pool::Balance(account)).await?,
                    None => self.store.balance(account).await?,
                };
                unknown.insert(Arc::new(Balance::new(balance))).clone()
            }
        })
    }

    async fn spend_cap(&mut self, key: &KeyId) -> Result<Option<Arc<Balance>>, StoreError> {
        let Some((key, _)) = self.store.find_key(key).await? else { return Ok(None) };
        let Some(cap) = key.spend_cap else { return Ok(None) };
        if let Some(known) = self.spend_caps.get(&key.origin) {
            return Ok(Some(known.clone()));
        }
        if let Some(allocations) = self.allocations {
            let left = allocated(allocations, Pool::SpendCap(key.origin.clone())).await?;
            let left = Arc::new(Balance::new(left));
            return Ok(Some(self.spend_caps.entry(key.origin).or_insert(left).clone()));
        }
        let spent = if let Some(spent) = &self.spent {
            spent
        } else {
            // The time only bounds monthly sums; what keys have spent is a sum over all time.
            let consumption = self.store.consumption(Timestamp::MAX).await?;
            self.spent.insert(consumption.spent.into_iter().collect())
        };
        let spent = spent.get(&key.origin).copied().unwrap_or_default();
        let left = || Arc::new(Balance::of_spend_cap(cap, spent));
        Ok(Some(self.spend_caps.entry(key.origin).or_insert_with(left).clone()))
    }
}

/// Returns what this gateway has of a pool.
async fn allocated(allocations: &dyn Allocations, pool: Pool) -> Result<Nanos, StoreError> {
    let found = allocations.allocated(&[pool]).await?;
    Ok(found.first().copied().map_or(Nanos::ZERO, Nanos))
}
