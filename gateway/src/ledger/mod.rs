//! The one owner of money: balances in memory, changes on their way to the store.
//!
//! A request takes a hold before it goes upstream ([`Ledger::hold`]), so that requests which run at
//! once cannot spend more than there is; its end is told here once, by [`Ledger::settle`], which never
//! waits: the balance changes at once, the record is in the [`Journal`], and the recorder writes record
//! and charge behind. Memory starts from the sum of the stored entries, after the journal was replayed
//! into the store, so the two cannot drift apart over a restart.

mod aggregate;
mod balance;
mod bound;
mod funds;
mod hold;
pub mod journal;
mod plausible;
mod recorder;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::store::{Cursor, DiskFault, Store, StoreError};
use aggregate::Aggregator;
use balance::{Balance, Payment};
use bound::{Bound, Calibration};
use domain::audit::AuditEntry;
use domain::id::{AccountId, KeyId, ModelId, RequestId};
use domain::key::Key;
use domain::ledger::Entry;
use domain::limit::Demand;
use domain::model::Model;
use domain::money::Nanos;
use domain::record::RequestRecord;
use domain::usage::Tokens;
use funds::Funds;
use journal::{Journal, Open, Unsynced, Unwritten};
use recorder::{Inbox, Recorder};

pub use bound::Size;
pub use funds::{FundsWait, InsufficientFunds};
pub use hold::Hold;
pub use plausible::UsageBound;

/// Requests of one account that wait at once for what others give back: more would not get it in time.
const MAX_WAITING_REQUESTS: usize = 64;

/// How often merged records are recorded: what the death of the process may lose of their counts.
const AGGREGATION_INTERVAL: Duration = Duration::from_secs(1);

/// A wait for the disk.
pub type Syncing = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Balances, and the way to the store for whatever changes them.
pub struct Ledger {
    balances: papaya::HashMap<AccountId, Arc<Balance>, RandomState>,
    /// What keys with a cap may still spend, by their origin.
    caps: papaya::HashMap<KeyId, Arc<Balance>, RandomState>,
    calibration: Calibration,
    aggregator: Aggregator,
    recorder: Recorder,
    journal: Arc<Journal>,
    store: Arc<dyn Store>,
}

/// Why requests cannot be recorded as they should. `Display` is for operators, and for who asks whether we
/// are ready: it holds no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteFailure {
    /// The journal cannot be written: no request is admitted.
    #[error("the journal cannot be written ({0}); no request is admitted")]
    Journal(std::io::ErrorKind),
    /// The store does not take records: they wait in the journal.
    #[error(
        "{waiting} request records wait to be written: {}",
        disk.map_or_else(|| "the database does not take them".to_owned(), |fault| fault.to_string())
    )]
    Store {
        /// What is the matter with the disk, if anything is.
        disk: Option<DiskFault>,
        /// How many records wait.
        waiting: u64,
    },
}

/// The ledger's background work: run it until it returns.
pub struct RecorderTask {
    inbox: Inbox,
    journal: Arc<Journal>,
    store: Arc<dyn Store>,
    observer: Observer,
}

/// Told of the requests that have ended, batch by batch, in the recorder's task.
type Observer = Box<dyn FnMut(&[RequestRecord]) + Send>;

impl Ledger {
    /// Opens the ledger on the stored `balances`; records are told to be newest from `newest` on. What
    /// an earlier process left in the journal is in the store by now.
    pub fn new(
        store: Arc<dyn Store>,
        journal: Journal,
        balances: &[(AccountId, Nanos)],
        newest: Cursor,
    ) -> (Self, RecorderTask) {
        let (recorder, inbox) = recorder::channel(newest);
        let map = papaya::HashMap::default();
        for (account, balance) in balances {
            map.pin().insert(*account, Arc::new(Balance::new(*balance)));
        }
        let journal = Arc::new(journal);
        let observer: Observer = Box::new(|_| {});
        let task = RecorderTask { inbox, journal: journal.clone(), store: store.clone(), observer };
        let calibration = Calibration::default();
        let caps = papaya::HashMap::default();
        let aggregator = Aggregator::default();
        (Self { balances: map, caps, calibration, aggregator, recorder, journal, store }, task)
    }

    /// Returns an account's balance.
    pub fn balance(&self, account: AccountId) -> Nanos {
        self.balances.pin().get(&account).map_or(Nanos::ZERO, |balance| balance.total())
    }

    /// Takes in what a key with a spending cap and those that it took the place of have `spent`.
    pub fn resume_cap(&self, key: &Key, spent: Nanos) {
        if let Some(cap) = key.spend_cap {
            let left = Arc::new(Balance::of_cap(cap, spent));
            self.caps.pin().insert(key.origin.clone(), left);
        }
    }

    /// Returns how much of a key's spending cap is spent or held; `None` if it has none.
    pub fn cap_in_use(&self, key: &Key) -> Option<Nanos> {
        let cap = key.spend_cap?;
        let left = self.caps.pin().get(&key.origin).map_or(cap, |balance| balance.spendable());
        Some(cap + -left)
    }

    /// Bounds the tokens that a request may take, with an input of `input_tokens` or else as many as its
    /// length allows.
    pub fn demand(&self, model: &Model, size: &Size, input_tokens: Option<u64>) -> Demand {
        let estimate = self.calibration.input_tokens(model, size);
        let max_input = input_tokens.unwrap_or_else(|| size.max_input(model));
        size.demand(model, estimate, max_input)
    }

    /// Holds what a request with `key` may cost: its input, which is `input_tokens` or else as many as its
    /// length allows, and a part of its output, or all of it if that comes at once. `None` for a model that is
    /// free.
    ///
    /// # Errors
    /// The account or the key's cap cannot pay for its input and one token.
    pub fn hold(
        &self,
        key: &Key,
        model: &Model,
        size: &Size,
        input_tokens: Option<u64>,
    ) -> Result<Option<Hold>, InsufficientFunds> {
        if model.price.is_free() {
            return Ok(None);
        }
        let input_tokens = input_tokens.unwrap_or_else(|| size.max_input(model));
        let funds = self.funds(key);
        let bound = |spendable| Bound::of(model, size, input_tokens, spendable);
        loop {
            let Some(bound) = bound(funds.spendable()) else {
                return Err(funds.why_broke(|money| bound(money).is_some()));
            };
            // lost only to another request that takes its hold at the same moment
            if let Some(held) = funds.hold(bound.amount) {
                return Ok(Some(Hold::new(held, &bound, input_tokens, &model.price)));
            }
        }
    }

    /// Has requests that are paid from the same balance or cap give back what they do not need, for as
    /// long as the guard lives. `None` if too many wait already.
    pub fn wait(&self, key: &Key) -> Option<FundsWait> {
        self.funds(key).wait(MAX_WAITING_REQUESTS)
    }

    /// Learns how many tokens the bytes of a request were.
    pub fn learn(&self, model: &ModelId, bytes: u64, input: Tokens) {
        self.calibration.learn(model, bytes, input.0);
    }

    /// Takes in the first balance of a new account, whose entry the store has already.
    pub fn open(&self, account: AccountId, balance: Nanos) {
        self.change(account, balance);
    }

    /// Writes an entry that is no charge, with `audit`, and changes the balance.
    ///
    /// # Errors
    /// The store's; then the balance is as before.
    pub async fn credit(&self, entry: Entry, audit: &AuditEntry) -> Result<(), StoreError> {
        self.store.add_entry(&entry, audit).await?;
        self.change(entry.account, entry.amount);
        Ok(())
    }

    /// Takes in a request that is about to go upstream, after [`flush`](Self::flush).
    ///
    /// # Errors
    /// It could not be written down, and must not go on.
    pub fn begin(&self, open: Open) -> Result<(), Unwritten> {
        self.journal.begin(open)
    }

    /// Writes down all that began or ended before the call: the death of the process does not undo it then.
    /// To be called before an upstream is asked, and before a client is told.
    ///
    /// # Errors
    /// It cannot be written down. What has begun must not go on; what has ended is kept, and tried again.
    pub fn flush(&self) -> Result<(), Unwritten> {
        self.journal.flush()
    }

    /// Notes what has become known of a request that went upstream.
    pub fn update(&self, id: RequestId, change: impl FnOnce(&mut Open)) {
        self.journal.update(id, change);
    }

    /// Books the end of a request: charges its cost, as far as there is money, and hands its record
    /// on to be written. What an upstream used beyond that is the house's loss, not the account's debt.
    /// Its client may be told after [`flush`](Self::flush). Records of requests that cost nothing
    /// and never went upstream are [merged](Self::record_merged) where one key makes many of them; while
    /// [too many](Self::is_behind) records wait, such a request is only counted.
    pub fn settle(&self, mut record: Box<RequestRecord>, hold: Option<Hold>) {
        if self.recorder.is_behind() && !self.journal.is_open(record.id) {
            return self.recorder.leave_out(record.count);
        }
        if Aggregator::applies_to(&record) {
            if self.aggregator.is_full() {
                self.record_merged();
            }
            match self.aggregator.admit(record) {
                Some(individual) => record = individual,
                None => return,
            }
        }
        if let Some(cost) = record.cost.filter(|&cost| cost > Nanos::ZERO) {
            let Payment { charged, overrun } = match hold {
                Some(hold) => hold.held.settle(cost),
                None => self.account_balance(record.account).pay(cost),
            };
            record.cost = Some(charged);
            record.overrun = record.overrun + overrun;
        }
        let place = self.journal.close(&record);
        self.recorder.send(record, place);
    }

    /// Records what was merged so far. To be called once more after the last request has ended.
    pub fn record_merged(&self) {
        let mut is_changed = false;
        for record in self.aggregator.take() {
            if self.recorder.is_behind() {
                self.recorder.leave_out(record.count);
            } else {
                let place = self.journal.close(&record);
                self.recorder.send(record, place);
                is_changed = true;
            }
        }
        if is_changed {
            // a failure is logged there, and tried again
            _ = self.flush();
        }
    }

    /// Records what was merged, once a second, until `stop` is cancelled.
    pub async fn record_merged_until(&self, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(AGGREGATION_INTERVAL)).await.is_some() {
            self.record_merged();
        }
    }

    /// Waits, where words shall outlive the machine's power, until the disk has all that was written
    /// before the call.
    ///
    /// # Errors
    /// The disk did not take it.
    pub async fn synced(&self) -> Result<(), Unsynced> {
        self.journal.synced().await
    }

    /// Like [`synced`](Self::synced), for who polls, and goes on whatever the disk says; `None` if there is
    /// nothing to wait for.
    pub fn syncing(&self) -> Option<Syncing> {
        let journal = self.journal.clone();
        // the journal has logged why, and the record goes on to the store in any case
        self.journal
            .is_on_disk()
            .then(|| Box::pin(async move { _ = journal.synced().await }) as Syncing)
    }

    /// Returns what `look` takes of every request that went upstream and has not ended. Requests wait for
    /// as long as that takes.
    pub fn under_way<T>(&self, look: impl FnMut(&RequestRecord) -> T) -> Vec<T> {
        self.journal.open_requests(look)
    }

    /// Returns the record of a request that has ended and that the store does not have yet. To be asked before
    /// the store is: a record that neither has does not exist.
    pub fn find_unwritten(&self, id: RequestId) -> Option<RequestRecord> {
        self.recorder.find(id)
    }

    /// Waits until the store has all requests that ended before the call, so that its answers count them. Does
    /// not wait for a store that fails, nor for longer than a second: then its answers are older.
    pub async fn flushed(&self) {
        self.recorder.flushed().await;
    }

    /// Returns why requests cannot be recorded as they should; `None` if they can. Tries to write the journal
    /// where that has failed, so it may block as long as that takes.
    pub fn write_failure(&self) -> Option<WriteFailure> {
        let journal = self.journal.write_failure().map(WriteFailure::Journal);
        journal.or_else(|| self.recorder.write_failure())
    }

    /// Returns how many records wait because the store does not take them; zero while it works.
    pub fn records_held_up(&self) -> u64 {
        self.recorder.held_up()
    }

    /// Returns what the records that wait to be written will change in stored balances. The balance in memory
    /// is the stored one with this.
    pub fn waiting_entries(&self) -> HashMap<AccountId, Nanos> {
        self.recorder.waiting_entries()
    }

    /// Whether so many records wait to be written that no request should be admitted.
    pub fn is_behind(&self) -> bool {
        self.recorder.is_behind()
    }

    /// Follows the log: the value is the cursor of the newest record in the store.
    pub fn committed(&self) -> watch::Receiver<Cursor> {
        self.recorder.committed()
    }

    fn funds(&self, key: &Key) -> Funds {
        Funds { account: self.account_balance(key.account), cap: self.cap(key) }
    }

    fn change(&self, account: AccountId, amount: Nanos) {
        self.account_balance(account).change(amount);
    }

    /// What a key may still spend. One that is not known is new.
    fn cap(&self, key: &Key) -> Option<Arc<Balance>> {
        let cap = key.spend_cap?;
        let caps = self.caps.pin();
        Some(match caps.get(&key.origin) {
            Some(balance) => balance.clone(),
            None => {
                caps.get_or_insert_with(key.origin.clone(), || Arc::new(Balance::new(cap))).clone()
            }
        })
    }

    fn account_balance(&self, account: AccountId) -> Arc<Balance> {
        let balances = self.balances.pin();
        match balances.get(&account) {
            Some(balance) => balance.clone(),
            None => balances.get_or_insert_with(account, Arc::default).clone(),
        }
    }
}

impl RecorderTask {
    /// Has `observer` told of the requests that have ended, before they are written. It must not block.
    #[must_use]
    pub fn observed(self, observer: impl FnMut(&[RequestRecord]) + Send + 'static) -> Self {
        Self { observer: Box::new(observer), ..self }
    }

    /// Writes batch after batch until `stop` is cancelled and nothing is left to write.
    pub async fn run(self, stop: CancellationToken) {
        recorder::run(self.inbox, self.store, self.journal, self.observer, stop).await;
    }
}
