//! Keeps the balances in memory and writes their changes to the store.
//!
//! A request takes a hold before it goes upstream ([`Ledger::hold`]), so that concurrent requests cannot
//! spend more than the balance. Its end is recorded once, by [`Ledger::settle`], which does not wait for the
//! store: the balance changes at once, the record goes to the [`Journal`], and the recorder's task writes the
//! record and the charge to the store later. At start, the journal is replayed into the store, and the
//! balances are the sums of the stored entries. Therefore memory and store agree after a restart.

mod aggregate;
mod balance;
mod balances;
mod bound;
mod funds;
mod hand_over;
mod hold;
pub mod journal;
mod recorder;
mod usage_bound;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::shared_pool::Shortages;
use aggregate::Aggregator;
use balance::Payment;
use balances::Balances;
use bound::{Calibration, HoldPlan};
use domain::audit::AuditEntry;
use domain::histogram::Histogram;
use domain::id::{AccountId, ModelId, RequestId};
use domain::key::Key;
use domain::ledger::Entry;
use domain::limit::Demand;
use domain::model::Model;
use domain::money::Nanos;
use domain::record::RequestRecord;
use domain::usage::Tokens;
use journal::{Journal, JournalWriteError, JournaledRequest, SyncError};
use recorder::RecordSender;
use store::{Cursor, DiskFault, Store, StoreError};

pub use balances::TotalBalance;
pub use bound::RequestSize;
pub use funds::{FundsWait, InsufficientFunds};
pub use hand_over::{Reservation, RetainedFunds};
pub use hold::Hold;
pub use recorder::RecorderTask;
pub use usage_bound::UsageBound;

/// The maximum number of requests of one account that wait for money at a time. More of them would time out.
const MAX_WAITING_REQUESTS: usize = 64;

/// The interval at which merged records are written. A crash loses at most the counts of one interval.
const AGGREGATION_INTERVAL: Duration = Duration::from_secs(1);

/// A future that completes once the journal is synced to the disk.
pub type DiskSync = Pin<Box<dyn Future<Output = ()> + Send>>;

/// All balances, and the queue of changes to the store.
pub struct Ledger {
    balances: Balances,
    calibration: Calibration,
    aggregator: Aggregator,
    recorder: RecordSender,
    journal: Arc<Journal>,
    store: Arc<dyn Store>,
    /// Whether another process keeps the balances now, and admits requests.
    is_handed_over: AtomicBool,
}

/// Why requests cannot be recorded. `Display` is for operators and for `/readyz`; it contains no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteFailure {
    /// The journal cannot be written: no request is admitted.
    #[error("the journal cannot be written ({0}); no request is admitted")]
    Journal(std::io::ErrorKind),
    /// The store does not accept records: they wait in the journal.
    #[error(
        "{waiting} request records wait to be written: {}",
        disk.map_or_else(|| "the database does not take them".to_owned(), |fault| fault.to_string())
    )]
    Store {
        /// The fault of the disk, if there is one.
        disk: Option<DiskFault>,
        /// The number of waiting records.
        waiting: u64,
    },
}

impl Ledger {
    /// Creates the ledger from the stored `balances`. `newest` is the cursor of the newest stored record. The
    /// journal of an earlier process must have been committed to the store before.
    pub fn new(
        store: Arc<dyn Store>,
        journal: Journal,
        balances: &[(AccountId, Nanos)],
        newest: Cursor,
    ) -> (Self, RecorderTask) {
        let journal = Arc::new(journal);
        let (recorder, task) = recorder::channel(newest, store.clone(), journal.clone());
        let (calibration, aggregator) = (Calibration::default(), Aggregator::default());
        let balances = Balances::new(balances);
        let is_handed_over = AtomicBool::new(false);
        let ledger =
            Self { balances, calibration, aggregator, recorder, journal, store, is_handed_over };
        (ledger, task)
    }

    /// Shares the balances with other gateways: this one has nothing until it obtains a part of each from the
    /// store, which it requests in `shortages`.
    #[must_use]
    pub fn sharing(self, shortages: Arc<Shortages>) -> Self {
        Self { balances: Balances::sharing(shortages), ..self }
    }

    /// Returns an account's balance. If it is shared with other gateways, the part that this one has.
    pub fn balance(&self, account: AccountId) -> Nanos {
        self.balances.total(account)
    }

    /// Sets the amount that the keys of this [origin](Key::origin) have `spent`.
    pub fn resume_spending(&self, key: &Key, spent: Nanos) {
        self.balances.resume_spending(key, spent);
    }

    /// Applies the spending cap of a changed key. Must be called before requests can find the key. If the key has
    /// no cap any more, requests that found it earlier are still bounded by the last one.
    pub fn set_spend_cap(&self, key: &Key) {
        if let Some(cap) = key.spend_cap {
            self.balances.of_key(key).set_cap(cap);
        }
    }

    /// Returns the part of a key's spending cap that is spent or held; `None` if it has no cap.
    pub fn spend_cap_in_use(&self, key: &Key) -> Option<Nanos> {
        self.balances.spend_cap_in_use(key)
    }

    /// Bounds the tokens of a request. If `input_tokens` is not known, the length of the request bounds them.
    pub fn demand(&self, model: &Model, size: &RequestSize, input_tokens: Option<u64>) -> Demand {
        let estimate = self.calibration.input_tokens(model, size);
        let max_input = input_tokens.unwrap_or_else(|| size.max_input(model));
        size.demand(model, estimate, max_input)
    }

    /// Holds the possible cost of a request with `key`: its input and its output. The input is bounded by
    /// `input_tokens`, or by the request's length if that is `None`. The output of a stream is held in part,
    /// that of a non-streamed answer in full. Returns `None` for a free model.
    ///
    /// # Errors
    /// The balance of the account or the rest of the key's spending cap does not cover the input and one
    /// output token for each choice, or another process keeps the balances now.
    pub fn hold(
        &self,
        key: &Key,
        model: &Model,
        size: &RequestSize,
        input_tokens: Option<u64>,
    ) -> Result<Option<Hold>, InsufficientFunds> {
        if model.price.is_free() {
            return Ok(None);
        }
        let input_tokens = input_tokens.unwrap_or_else(|| size.max_input(model));
        let funds = self.balances.funds(key);
        let bound = |spendable| HoldPlan::of(model, size, input_tokens, spendable);
        // A part of a shared balance must not shorten an answer that the whole balance covers.
        if self.balances.are_shared() && funds.request(HoldPlan::wanted(model, size, input_tokens))
        {
            return Err(InsufficientFunds::Requested);
        }
        loop {
            let Some(plan) = bound(funds.spendable()) else {
                if self.is_handed_over() {
                    return Err(InsufficientFunds::HandedOver);
                }
                return Err(funds.insufficient_funds(|money| bound(money).is_some()));
            };
            // This fails only if another request takes its hold at the same moment.
            if let Some(held) = funds.hold(plan.amount) {
                // A hold that was not counted must not be used: the next process may spend the same money.
                if self.is_handed_over() {
                    return Err(InsufficientFunds::HandedOver);
                }
                if self.balances.are_shared() {
                    funds.request_ahead();
                }
                return Ok(Some(Hold::new(held, &plan, input_tokens, &model.price)));
            }
        }
    }

    /// Registers a request that waits for money. While the guard lives, requests that are paid from the same
    /// balances release the money that they do not need. Returns `None` if too many requests wait already.
    pub fn register_waiter(&self, key: &Key) -> Option<FundsWait> {
        self.balances.funds(key).register_waiter(MAX_WAITING_REQUESTS)
    }

    /// Adjusts the estimates for `model` to a request of `bytes` with `input` tokens.
    pub fn calibrate(&self, model: &ModelId, bytes: u64, input: Tokens) {
        self.calibration.calibrate(model, bytes, input.0);
    }

    /// Adds the first balance of a new account; its entry is already in the store.
    pub fn add_account(&self, account: AccountId, balance: Nanos) {
        self.balances.credit(account, balance);
    }

    /// Writes an entry that is not a charge, together with `audit`, and changes the balance.
    ///
    /// # Errors
    /// Returns the store's error; the balance is then unchanged.
    ///
    /// # Cancel safety
    /// Must be run to completion: dropped while the store writes, the store may have the entry and the balance
    /// in memory may not. The control plane runs each change in its own task.
    pub async fn credit(&self, entry: Entry, audit: &AuditEntry) -> Result<(), StoreError> {
        self.store.add_entry(&entry, audit).await?;
        self.balances.credit(entry.account, entry.amount);
        Ok(())
    }

    /// Lets requests of an account ask for a part of its shared balance again, after it was changed in the store.
    pub fn balance_changed(&self, account: AccountId) {
        self.balances.reopen(account);
    }

    /// Adds a request to the journal that is about to go upstream. [`flush_journal`](Self::flush_journal)
    /// must succeed before it is sent.
    ///
    /// # Errors
    /// The journal cannot be written; the request must not be sent.
    pub fn begin(&self, open: JournaledRequest) -> Result<(), JournalWriteError> {
        self.journal.begin(open)
    }

    /// Writes all requests that began or ended before the call to the journal, so that a crash does not lose
    /// them. Must be called before a request is sent upstream and before a client sees the end of an answer.
    ///
    /// # Errors
    /// The journal cannot be written. Requests that began must not be sent; records that ended are kept and
    /// written later.
    pub fn flush_journal(&self) -> Result<(), JournalWriteError> {
        self.journal.flush()
    }

    /// Updates what the journal knows of a request that went upstream.
    pub fn update(&self, id: RequestId, change: impl FnOnce(&mut JournaledRequest)) {
        self.journal.update(id, change);
    }

    /// Settles a request: charges its cost as far as the balances cover it, and queues its record. The rest
    /// of the cost is the operator's loss, not a debt of the account. The client may see the end after
    /// [`flush_journal`](Self::flush_journal). Records of requests that cost nothing and never went upstream
    /// are [merged](Self::record_merged) if one key sends many of them. While [too many](Self::is_behind)
    /// records wait, requests that are not open in the journal are only counted.
    pub fn settle(&self, mut record: Box<RequestRecord>, hold: Option<Hold>) {
        if self.recorder.is_behind() && !self.journal.is_open(record.id) {
            return self.recorder.count_unrecorded(record.count);
        }
        // A request that is open in the journal must be closed there, under its own id.
        if Aggregator::applies_to(&record) && !self.journal.is_open(record.id) {
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
                None => self.balances.of_account(record.account).pay(cost),
            };
            record.cost = Some(charged);
            record.overrun = record.overrun + overrun;
        }
        let position = self.journal.close(&record);
        self.recorder.send(record, position);
    }

    /// Queues the merged records. Must be called once more after the last request has ended.
    pub fn record_merged(&self) {
        for record in self.aggregator.take() {
            if self.recorder.is_behind() {
                self.recorder.count_unrecorded(record.count);
            } else {
                // These requests never began, so the journal writes their records at once or not at all.
                let position = self.journal.close(&record);
                self.recorder.send(record, position);
            }
        }
    }

    /// Calls [`record_merged`](Self::record_merged) once a second until `stop` is cancelled.
    pub async fn record_merged_until(&self, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(AGGREGATION_INTERVAL)).await.is_some() {
            self.record_merged();
        }
    }

    /// Writes and syncs the journal, if it survives power cuts: waits until the disk has all requests that
    /// began or ended before the call.
    ///
    /// # Errors
    /// The disk did not accept it.
    pub async fn sync_journal(&self) -> Result<(), SyncError> {
        self.journal.sync().await
    }

    /// Like [`sync_journal`](Self::sync_journal), but for `poll` functions, and it completes even if the sync
    /// fails. Returns `None` if there is nothing to wait for.
    pub fn syncing(&self) -> Option<DiskSync> {
        let journal = self.journal.clone();
        // The journal has logged a failure, and the record goes to the store in any case.
        self.journal
            .survives_power_cuts()
            .then(|| Box::pin(async move { _ = journal.sync().await }) as DiskSync)
    }

    /// Returns the result of `look` for each request that went upstream and has not ended. The journal is
    /// locked meanwhile.
    pub fn in_flight_requests<T>(&self, look: impl FnMut(&JournaledRequest) -> T) -> Vec<T> {
        self.journal.open_requests(look)
    }

    /// Returns whether a request went upstream and has not ended.
    pub fn is_under_way(&self, id: RequestId) -> bool {
        self.journal.is_open(id)
    }

    /// Returns the record of a request that has ended and is not in the store yet. Must be called before the
    /// store is queried: a record in neither does not exist.
    pub fn find_unwritten(&self, id: RequestId) -> Option<RequestRecord> {
        self.recorder.find(id)
    }

    /// Waits until the store has all requests that ended before the call, so that its answers include them.
    /// It waits neither for a failing store nor longer than a second; the answers may then be older.
    pub async fn wait_until_stored(&self) {
        self.recorder.wait_until_stored().await;
    }

    /// Returns why requests cannot be recorded; `None` if they can. If the last write of the journal failed,
    /// this tries again and may block as long as that takes.
    pub fn write_failure(&self) -> Option<WriteFailure> {
        let journal = self.journal.write_failure().map(WriteFailure::Journal);
        journal.or_else(|| self.recorder.write_failure())
    }

    /// Returns the number of records that wait because the store does not accept them; zero while it does.
    pub fn blocked_records(&self) -> u64 {
        self.recorder.blocked_records()
    }

    /// Returns, for each account, the sum of the ledger entries that wait to be written. The balance in memory
    /// is the stored balance plus this sum, except while a batch is being written: then the store may have
    /// entries that still count as waiting.
    pub fn waiting_entries(&self) -> HashMap<AccountId, Nanos> {
        self.recorder.waiting_entries()
    }

    /// Returns whether so many records wait to be written that no request may be admitted.
    pub fn is_behind(&self) -> bool {
        self.recorder.is_behind()
    }

    /// Returns a watch of the cursor of the newest stored record.
    pub fn committed(&self) -> watch::Receiver<Cursor> {
        self.recorder.committed()
    }

    /// Records that the store has the record at `newest`, which another gateway may have written, so that
    /// watchers read it.
    pub fn note_committed_elsewhere(&self, newest: Cursor) {
        self.recorder.note_committed_elsewhere(newest);
    }

    /// Returns the sum of the balances of all accounts, and how much of it is held for requests. If they are shared with other
    /// gateways, the parts that this one has.
    pub fn total_balance(&self) -> TotalBalance {
        self.balances.sum()
    }

    /// Returns the number of requests that have no record since the start, because too many records waited.
    pub fn unrecorded_requests(&self) -> u64 {
        self.recorder.unrecorded()
    }

    /// Returns the times that batches of records took until the store had them, in seconds.
    pub fn commit_times(&self) -> Histogram {
        self.recorder.commit_times()
    }

    /// Returns when the request ended whose record waits for the store for the longest time.
    pub fn oldest_waiting(&self) -> Option<Timestamp> {
        self.recorder.oldest_waiting()
    }

    /// Returns the number of records that the store does not have yet.
    pub fn waiting_records(&self) -> u64 {
        self.recorder.waiting_records()
    }
}
