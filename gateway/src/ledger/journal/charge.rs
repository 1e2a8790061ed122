//! Charges the requests that a crashed process left open.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::sync::Arc;

use jiff::Timestamp;

use crate::ledger::balance::{Balance, Payment};
use crate::ledger::funds::Funds;
use domain::id::{AccountId, KeyId};
use domain::money::Nanos;
use domain::record::RequestRecord;
use store::{Store, StoreError};

/// The balances that were loaded so far.
#[derive(Default)]
struct Balances {
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
    open: &mut [RequestRecord],
) -> Result<(), StoreError> {
    let mut balances = Balances::default();
    for record in open {
        let account = balances.account(store, record.account).await?;
        let spend_cap = balances.spend_cap(store, &record.key).await?;
        let cost = record.cost.unwrap_or_default();
        let Payment { charged, overrun } = Funds { account, spend_cap }.pay(cost);
        record.cost = Some(charged);
        // The record may have an overrun already: the cost of implausible usage.
        record.overrun = record.overrun + overrun;
    }
    Ok(())
}

impl Balances {
    async fn account(
        &mut self,
        store: &dyn Store,
        account: AccountId,
    ) -> Result<Arc<Balance>, StoreError> {
        Ok(match self.accounts.entry(account) {
            Slot::Occupied(known) => known.get().clone(),
            Slot::Vacant(unknown) => {
                let balance = store.balance(account).await?;
                unknown.insert(Arc::new(Balance::new(balance))).clone()
            }
        })
    }

    async fn spend_cap(
        &mut self,
        store: &dyn Store,
        key: &KeyId,
    ) -> Result<Option<Arc<Balance>>, StoreError> {
        let Some(key) = store.find_key(key).await? else { return Ok(None) };
        let Some(cap) = key.spend_cap else { return Ok(None) };
        let spent = if let Some(spent) = &self.spent {
            spent
        } else {
            // The time only bounds monthly sums; what keys have spent is a sum over all time.
            let consumption = store.consumption(Timestamp::MAX).await?;
            self.spent.insert(consumption.spent.into_iter().collect())
        };
        let spent = spent.get(&key.origin).copied().unwrap_or_default();
        let left = || Arc::new(Balance::of_spend_cap(cap, spent));
        Ok(Some(self.spend_caps.entry(key.origin).or_insert_with(left).clone()))
    }
}
