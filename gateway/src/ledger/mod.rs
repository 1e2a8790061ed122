//! The one owner of money: balances in memory, changes on their way to the store.
//!
//! A request's end is told here once, by [`Ledger::settle`], which never waits: the balance changes
//! at once and the recorder writes record and charge behind. Memory starts from the sum of the
//! stored entries, so the two cannot drift apart over a restart.

mod recorder;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::domain::id::AccountId;
use crate::domain::ledger::Entry;
use crate::domain::money::Nanos;
use crate::domain::record::RequestRecord;
use crate::store::{Cursor, Store, StoreError};
use recorder::{Inbox, Recorder};

/// Balances, and the way to the store for whatever changes them.
pub struct Ledger {
    balances: papaya::HashMap<AccountId, Arc<AtomicI64>>,
    recorder: Recorder,
    store: Arc<dyn Store>,
}

/// The ledger's background work: run it until it returns.
pub struct RecorderTask {
    inbox: Inbox,
    store: Arc<dyn Store>,
}

impl Ledger {
    /// Opens the ledger on the stored `balances`; records are told to be newest from `newest` on.
    pub fn new(
        store: Arc<dyn Store>,
        balances: &[(AccountId, Nanos)],
        newest: Cursor,
    ) -> (Self, RecorderTask) {
        let (recorder, inbox) = recorder::channel(newest);
        let map = papaya::HashMap::new();
        for (account, balance) in balances {
            map.pin().insert(*account, Arc::new(AtomicI64::new(balance.0)));
        }
        let task = RecorderTask { inbox, store: store.clone() };
        (Self { balances: map, recorder, store }, task)
    }

    /// Returns an account's balance.
    pub fn balance(&self, account: AccountId) -> Nanos {
        Nanos(
            self.balances.pin().get(&account).map_or(0, |balance| balance.load(Ordering::Relaxed)),
        )
    }

    /// Takes in the first balance of a new account, whose entry the store has already.
    pub fn open(&self, account: AccountId, balance: Nanos) {
        self.change(account, balance);
    }

    /// Writes an entry that is no charge, and changes the balance.
    ///
    /// # Errors
    /// The store's; then the balance is as before.
    pub async fn credit(&self, entry: Entry) -> Result<(), StoreError> {
        self.store.add_entry(&entry).await?;
        self.change(entry.account, entry.amount);
        Ok(())
    }

    /// Books the end of a request: charges its cost and hands its record on to be written.
    pub fn settle(&self, record: RequestRecord) {
        if let Some(cost) = record.cost.filter(|&cost| cost != Nanos::ZERO) {
            self.change(record.account, -cost);
        }
        self.recorder.send(record);
    }

    /// Whether so many records wait to be written that no request should be admitted.
    pub fn is_behind(&self) -> bool {
        self.recorder.is_behind()
    }

    /// Follows the log: the value is the cursor of the newest record in the store.
    pub fn committed(&self) -> watch::Receiver<Cursor> {
        self.recorder.committed()
    }

    fn change(&self, account: AccountId, amount: Nanos) {
        let balances = self.balances.pin();
        let balance = match balances.get(&account) {
            Some(balance) => balance,
            None => balances.get_or_insert_with(account, Arc::default),
        };
        let add = |before: i64| Some(before.saturating_add(amount.0));
        // it never fails: `add` always has an answer
        _ = balance.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

impl RecorderTask {
    /// Writes batch after batch until `stop` is cancelled and nothing is left to write.
    pub async fn run(self, stop: CancellationToken) {
        recorder::run(self.inbox, self.store, stop).await;
    }
}
