//! Writes the records of ended requests to the store, in batches, behind the requests.
//!
//! Requests only push to a queue. If the store does not accept a batch, the batch is kept and retried, and
//! the queue grows. Beyond [`MAX_WAITING_RECORDS`] records, no request is admitted, and requests that went to
//! no upstream are counted instead of queued, so that persistent clients cannot fill the memory. Waiting
//! records can be found by id, and a reader of the store can wait until they are written.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::WriteFailure;
use super::journal::{Journal, JournalPosition};
use crate::write_behind::WriteBehind;
use domain::histogram::Histogram;
use domain::id::{AccountId, RequestId};
use domain::money::Nanos;
use domain::record::RequestRecord;
use store::{Cursor, DiskFault, Store, StoreError};

/// The number of records that may wait; at about 500 bytes each, the queue stays below 50 MB.
const MAX_WAITING_RECORDS: u64 = 100_000;
/// The pause after a batch, during which the next one accumulates. Each batch costs a transaction and four
/// wake-ups, which at 100 requests per second and a pause of 50 ms are a fifth of the CPU time of a request.
const BATCH_INTERVAL: Duration = Duration::from_secs(1);
/// The pause while the log is watched: watchers wait for it.
const WATCHED_BATCH_INTERVAL: Duration = Duration::from_millis(200);
/// The pause while a reader waits for the next batch. It bounds the rate of batches that readers can cause.
const MIN_BATCH_INTERVAL: Duration = Duration::from_millis(5);
/// The longest time that a reader waits; then it continues with what is stored.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// The largest batch, which ends the pause. It bounds how long requests wait for the queue while the batch is
/// taken; larger ones are hardly cheaper per row (`benches/commit.rs`).
const MAX_BATCH: usize = 512;
/// The time for which the store may fail before records count as not writable.
const STORE_GRACE: Duration = Duration::from_secs(10);

/// The bounds for the times of transactions, in seconds.
const COMMIT_TIMES: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0];

/// A record and its position in the journal. Boxed because it is moved several times.
type EndedRequest = (Box<RequestRecord>, Option<JournalPosition>);

/// The queue between requests and the writer.
#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    /// Wakes the writer when a record was pushed.
    pushed: Notify,
    /// Ends the writer's pause early because a reader waits for the next batch, or a watcher arrives.
    flush_wanted: Notify,
    /// Ends the writer's pause early because a full batch waits.
    filled: Notify,
    /// The number of records that the store does not have yet.
    waiting: AtomicU64,
    /// Requests without a record since the last successful batch.
    unrecorded: AtomicU64,
    /// Requests without a record before that.
    unrecorded_before: AtomicU64,
    /// The times from taking a batch until the store has it, in seconds.
    commit_times: CommitTimes,
}

struct CommitTimes(Mutex<Histogram>);

#[derive(Default)]
struct QueueState {
    ended: VecDeque<EndedRequest>,
    /// The batch that is being written.
    in_flight: Arc<Vec<RequestRecord>>,
    /// How many of `ended`, from the front, the observer has seen.
    observed: usize,
    /// The number of records pushed since the start.
    pushed: u64,
    is_closed: bool,
}

/// The progress of the writer.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// The number of records written since the start.
    written: u64,
    /// Why the store did not accept the last batch; `None` if it did.
    failure: Option<StoreFailure>,
}

/// Why the store accepts no records.
#[derive(Clone, Copy, Debug)]
struct StoreFailure {
    /// The time of the first failure.
    since: Instant,
    /// The fault of the disk, if there is one.
    disk: Option<DiskFault>,
}

/// The side of the queue that requests use.
pub(super) struct RecordSender {
    queue: Arc<Queue>,
    committed: watch::Sender<Cursor>,
    progress: watch::Receiver<Progress>,
}

/// The side of the queue that the writer uses.
pub(super) struct RecordReceiver {
    queue: Arc<Queue>,
    committed: watch::Sender<Cursor>,
    progress: watch::Sender<Progress>,
}

/// Records taken from the queue at once.
struct Batch {
    records: Arc<Vec<RequestRecord>>,
    positions: Vec<Option<JournalPosition>>,
    /// How many of the records, from the first, the observer has seen.
    observed: usize,
    /// Whether the queue already has another full batch.
    next_is_full: bool,
}

pub(super) fn channel(newest: Cursor) -> (RecordSender, RecordReceiver) {
    let queue = Arc::<Queue>::default();
    let committed = watch::Sender::new(newest);
    let (progress_sender, progress) = watch::channel(Progress::default());
    (
        RecordSender { queue: queue.clone(), committed: committed.clone(), progress },
        RecordReceiver { queue, committed, progress: progress_sender },
    )
}

// === impl CommitTimes ===

impl Default for CommitTimes {
    fn default() -> Self {
        Self(Mutex::new(Histogram::new(COMMIT_TIMES)))
    }
}

impl CommitTimes {
    fn lock(&self) -> MutexGuard<'_, Histogram> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Queue ===

impl Queue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next batch. [`RecordSender::find`] finds its records until
    /// [`clear_in_flight`](Self::clear_in_flight).
    fn take(&self) -> Option<Batch> {
        let mut state = self.lock();
        let count = state.ended.len().min(MAX_BATCH);
        if count == 0 {
            return None;
        }
        let ended = state.ended.drain(..count).map(|(record, position)| (*record, position));
        let (records, positions): (Vec<_>, Vec<_>) = ended.unzip();
        state.in_flight = Arc::new(records);
        let next_is_full = state.ended.len() >= MAX_BATCH;
        let observed = state.observed.min(count);
        state.observed -= observed;
        Some(Batch { records: state.in_flight.clone(), positions, observed, next_is_full })
    }

    /// Returns up to [`MAX_BATCH`] records that wait for the batches after the current one and that the observer has
    /// not seen.
    fn take_unobserved(&self) -> Vec<RequestRecord> {
        let mut state = self.lock();
        let end = state.ended.len().min(state.observed + MAX_BATCH);
        let observed = state.observed;
        let unobserved = state.ended.range_mut(observed..end).map(|(record, _)| {
            // Only the observer needs it, and the record may wait for long.
            let trace = record.trace.take();
            RequestRecord { trace, ..RequestRecord::clone(record) }
        });
        let unobserved = unobserved.collect();
        state.observed = end;
        unobserved
    }

    fn clear_in_flight(&self) {
        // Dropped after the lock is released, because freeing a batch takes time.
        let _written = std::mem::take(&mut self.lock().in_flight);
    }
}

// === impl RecordSender ===

impl RecordSender {
    pub(super) fn send(&self, record: Box<RequestRecord>, position: Option<JournalPosition>) {
        self.queue.waiting.fetch_add(1, Ordering::Relaxed);
        let is_full = {
            let mut state = self.queue.lock();
            if state.is_closed {
                // The recorder ends only after the last request: see `app::run`.
                tracing::error!(request_id = %record.id, "a request ended after the recorder; if the journal has its record, the next start replays it");
                return;
            }
            state.ended.push_back((record, position));
            state.pushed += 1;
            state.ended.len() == MAX_BATCH
        };
        self.queue.pushed.notify_one();
        if is_full {
            self.queue.filled.notify_one();
        }
    }

    /// Counts requests that get no record. Their number is logged once records are written again.
    pub(super) fn count_unrecorded(&self, count: NonZeroU32) {
        self.queue.unrecorded.fetch_add(u64::from(count.get()), Ordering::Relaxed);
    }

    pub(super) fn is_behind(&self) -> bool {
        self.queue.waiting.load(Ordering::Relaxed) > MAX_WAITING_RECORDS
    }

    /// Returns the cursor of the newest stored record. While it is watched, records are stored sooner.
    pub(super) fn committed(&self) -> watch::Receiver<Cursor> {
        let committed = self.committed.subscribe();
        self.queue.flush_wanted.notify_one();
        committed
    }

    /// Records that the store has the record at `newest`, which another gateway may have written.
    pub(super) fn note_committed_elsewhere(&self, newest: Cursor) {
        advance(&self.committed, newest);
    }

    /// Returns the number of records that the store does not have yet.
    pub(super) fn waiting_records(&self) -> u64 {
        self.queue.waiting.load(Ordering::Relaxed)
    }

    /// Returns the number of requests without a record since the start.
    pub(super) fn unrecorded(&self) -> u64 {
        let Queue { unrecorded, unrecorded_before, .. } = &*self.queue;
        unrecorded.load(Ordering::Relaxed) + unrecorded_before.load(Ordering::Relaxed)
    }

    /// Returns the times that batches took until the store had them, in seconds.
    pub(super) fn commit_times(&self) -> Histogram {
        self.queue.commit_times.lock().clone()
    }

    /// Returns when the request ended whose record waits for the longest time.
    pub(super) fn oldest_waiting(&self) -> Option<Timestamp> {
        let state = self.queue.lock();
        let waiting = || state.ended.front().map(|(record, _)| &**record);
        let oldest = state.in_flight.first().or_else(waiting)?;
        oldest.started_at.checked_add(oldest.duration).ok()
    }

    /// Returns why records wait that should be in the store. A full disk is reported at once; other failures
    /// may be temporary, such as a lock of another process, and are reported after [`STORE_GRACE`].
    pub(super) fn write_failure(&self) -> Option<WriteFailure> {
        let waiting = self.queue.waiting.load(Ordering::Relaxed);
        let failure = self.progress.borrow().failure;
        let lasts = |failure: &StoreFailure| {
            failure.disk.is_some() || failure.since.elapsed() >= STORE_GRACE
        };
        match failure.filter(lasts) {
            Some(StoreFailure { disk, .. }) => Some(WriteFailure::Store { disk, waiting }),
            None if self.is_behind() => Some(WriteFailure::Store { disk: None, waiting }),
            None => None,
        }
    }

    /// Returns the number of records that wait because the store did not accept the last batch; zero while it
    /// works.
    pub(super) fn blocked_records(&self) -> u64 {
        let is_failing = self.progress.borrow().failure.is_some();
        if is_failing { self.queue.waiting.load(Ordering::Relaxed) } else { 0 }
    }

    /// Returns, for each account, the sum of the ledger entries of waiting records.
    pub(super) fn waiting_entries(&self) -> HashMap<AccountId, Nanos> {
        let mut amounts = HashMap::<AccountId, Nanos>::new();
        let state = self.queue.lock();
        let waiting = state.ended.iter().map(|(record, _)| &**record);
        for entry in waiting.chain(&*state.in_flight).flat_map(RequestRecord::entries) {
            let amount = amounts.entry(entry.account).or_default();
            *amount = amount.saturating_add(entry.amount);
        }
        amounts
    }

    /// Returns the record of a request that waits to be written, as the store will have it. A record that is
    /// neither here nor, afterwards, in the store does not exist.
    pub(super) fn find(&self, id: RequestId) -> Option<RequestRecord> {
        let state = self.queue.lock();
        let waiting = state.ended.iter().map(|(record, _)| &**record);
        waiting
            .chain(&*state.in_flight)
            .find(|record| record.id == id)
            .cloned()
            .map(RequestRecord::truncated_to_microseconds)
    }

    /// Waits until the store has every record that was pushed before the call, or is known to fail.
    pub(super) async fn wait_until_stored(&self) {
        let target = self.queue.lock().pushed;
        let mut progress = self.progress.clone();
        if progress.borrow().written >= target {
            return;
        }
        self.queue.flush_wanted.notify_one();
        let written =
            progress.wait_for(|progress| progress.written >= target || progress.failure.is_some());
        // The writer is gone or slow: the reader gets what is stored.
        _ = tokio::time::timeout(FLUSH_TIMEOUT, written).await;
    }
}

// === impl RecordReceiver ===

impl RecordReceiver {
    /// Waits for the next batch; `None` once `stop` is cancelled and nothing is left.
    async fn next(&self, stop: &CancellationToken) -> Option<Batch> {
        loop {
            if let Some(batch) = self.queue.take() {
                return Some(batch);
            }
            if stop.is_cancelled() {
                let mut state = self.queue.lock();
                state.is_closed = true;
                if state.ended.is_empty() {
                    return None;
                }
                continue;
            }
            tokio::select! {
                () = self.queue.pushed.notified() => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Passes the records that wait for later batches to `observer`.
    fn observe_waiting(&self, observer: &mut super::Observer) {
        loop {
            let unobserved = self.queue.take_unobserved();
            if unobserved.is_empty() {
                return;
            }
            observer(&unobserved);
        }
    }

    /// Records that the store did not accept a batch.
    fn note_failure(&self, error: &StoreError) {
        let disk = match error {
            StoreError::Disk { fault, .. } => Some(*fault),
            StoreError::NotFound
            | StoreError::Conflict(_)
            | StoreError::Unavailable(_)
            | StoreError::Stale
            | StoreError::Unsupported(_)
            | StoreError::Unopened { .. } => None,
        };
        self.progress.send_modify(|progress| {
            let since = progress.failure.map_or_else(Instant::now, |failure| failure.since);
            progress.failure = Some(StoreFailure { since, disk });
        });
    }

    /// Records that the store has a batch of `count` records, the last of which is at `newest`.
    fn note_written(&self, count: u64, newest: Cursor) {
        self.queue.clear_in_flight();
        self.queue.waiting.fetch_sub(count, Ordering::Relaxed);
        let requests = self.queue.unrecorded.swap(0, Ordering::Relaxed);
        self.queue.unrecorded_before.fetch_add(requests, Ordering::Relaxed);
        if requests > 0 {
            tracing::warn!(
                event = "requests_unrecorded",
                requests,
                "requests that went to no upstream have no record: too many waited to be written"
            );
        }
        advance(&self.committed, newest);
        self.progress.send_modify(|progress| {
            progress.written += count;
            progress.failure = None;
        });
    }

    /// Waits while the next batch accumulates.
    async fn pause(&self) {
        let is_watched = self.committed.receiver_count() > 0;
        let interval = if is_watched { WATCHED_BATCH_INTERVAL } else { BATCH_INTERVAL };
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = self.queue.filled.notified() => {}
            () = self.queue.flush_wanted.notified() => tokio::time::sleep(MIN_BATCH_INTERVAL).await,
        }
    }
}

/// Publishes a cursor, unless a greater one is known.
fn advance(committed: &watch::Sender<Cursor>, newest: Cursor) {
    committed.send_if_modified(|cursor| {
        let grew = newest > *cursor;
        *cursor = newest.max(*cursor);
        grew
    });
}

pub(super) async fn run(
    receiver: RecordReceiver,
    store: Arc<dyn Store>,
    journal: Arc<Journal>,
    mut observer: super::Observer,
    stop: CancellationToken,
) {
    let writer = WriteBehind::new("request records", stop.clone());
    while let Some(batch) = receiver.next(&stop).await {
        let Batch { records, positions, observed, next_is_full } = batch;
        observer(&records[observed..]);
        let began = Instant::now();
        let count = records.len();
        let attempt = || store.commit(records.clone());
        let on_failure = |error: &StoreError| {
            receiver.note_failure(error);
            // The observer must not learn of requests only when the store works again.
            receiver.observe_waiting(&mut observer);
        };
        let written = writer.write(count, attempt, on_failure).await;
        // The writer gives up at a shutdown if the store keeps failing. Records with a position in the journal
        // are replayed at the next start; the others are lost.
        let Some(newest) = written else { return };
        receiver.queue.commit_times.lock().observe(began.elapsed().as_secs_f64());
        receiver.note_written(count as u64, newest);
        journal.release_committed(positions.into_iter().flatten());
        if !next_is_full {
            _ = stop.run_until_cancelled(receiver.pause()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::ledger::Ledger;
    use crate::ledger::journal::tests::{ended, open};
    use domain::record::RequestStatus;
    use store::sqlite::SqliteStore;
    use store::{RequestFilter, Requests};

    fn refused(number: u128) -> RequestRecord {
        RequestRecord {
            status: RequestStatus::Rejected,
            usage: None,
            cost: Some(Nanos::ZERO),
            overrun: Nanos::ZERO,
            count: NonZeroU32::MIN,
            ..ended(number)
        }
    }

    #[tokio::test]
    async fn with_too_many_waiting_records_only_requests_that_went_upstream_are_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(&dir.path().join("db")).unwrap());
        let (journal, _) = Journal::open(&dir.path().join("journal")).unwrap();
        let (ledger, task) = Ledger::new(store.clone(), journal, &[], Cursor(0));
        for number in [1, 2] {
            ledger.begin(open(number)).unwrap();
        }
        ledger.settle(refused(10).into(), None);
        // One more than may wait.
        ledger.recorder.queue.waiting.fetch_add(MAX_WAITING_RECORDS, Ordering::Relaxed);
        for number in 11..20 {
            ledger.settle(refused(number).into(), None);
        }
        ledger.settle(ended(1).into(), None);
        ledger.settle(refused(2).into(), None);
        assert_eq!(ledger.recorder.queue.unrecorded.load(Ordering::Relaxed), 9);

        let stop = CancellationToken::new();
        stop.cancel();
        task.run(stop).await;
        let written = store.requests_before(&RequestFilter::default(), None, 100).await.unwrap();
        let ids: Vec<_> = written.into_iter().map(|(_, record)| record.id).collect();
        assert_eq!(ids, [2, 1, 10].map(|number| RequestId(Uuid::from_u128(number))));
        assert_eq!(ledger.recorder.queue.unrecorded.load(Ordering::Relaxed), 0, "it was logged");
        assert!(!ledger.is_behind());
        ledger.settle(refused(20).into(), None);
        assert_eq!(ledger.recorder.queue.unrecorded.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_request_that_is_open_in_the_journal_is_never_merged() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(&dir.path().join("db")).unwrap());
        let (journal, _) = Journal::open(&dir.path().join("journal")).unwrap();
        let (ledger, _task) = Ledger::new(store.clone(), journal, &[], Cursor(0));
        let settle = |number| {
            let record = RequestRecord { deployment: None, idempotency: None, ..refused(number) };
            ledger.settle(record.into(), None);
        };
        for number in 0..20 {
            settle(number);
        }
        let id = RequestId(Uuid::from_u128(20));
        ledger.begin(open(20)).unwrap();
        settle(20);
        assert!(!ledger.journal.is_open(id), "it is closed");
        assert!(ledger.find_unwritten(id).is_some(), "under its own id");
        assert!(ledger.find_unwritten(RequestId(Uuid::from_u128(19))).is_none(), "merged");
    }

    #[tokio::test]
    async fn a_waiting_record_is_found_until_the_store_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(&dir.path().join("db")).unwrap());
        let (journal, _) = Journal::open(&dir.path().join("journal")).unwrap();
        let (ledger, task) = Ledger::new(store.clone(), journal, &[], Cursor(0));
        let ids = [1, 2].map(|number| RequestId(Uuid::from_u128(number)));
        ledger.settle(refused(1).into(), None);
        assert_eq!(ledger.find_unwritten(ids[0]), Some(refused(1)));
        assert_eq!(ledger.find_unwritten(ids[1]), None);
        let stop = CancellationToken::new();
        let reader = async {
            for (id, number) in ids.into_iter().zip(1..) {
                if number > 1 {
                    ledger.settle(refused(number).into(), None);
                }
                ledger.wait_until_stored().await;
                assert_eq!(store.find_request(id).await.unwrap(), Some(refused(number)));
                assert_eq!(ledger.find_unwritten(id), None);
            }
            stop.cancel();
        };
        tokio::join!(task.run(stop.clone()), reader);
    }

    #[tokio::test]
    async fn a_store_that_fails_keeps_no_reader_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(&dir.path().join("db")).unwrap());
        let (journal, _) = Journal::open(&dir.path().join("journal")).unwrap();
        let (ledger, task) = Ledger::new(store.clone(), journal, &[], Cursor(0));
        store.close().await;
        ledger.settle(refused(1).into(), None);
        let writing = task.run(CancellationToken::new());
        tokio::select! {
            () = writing => unreachable!("it keeps trying"),
            () = ledger.wait_until_stored() => {}
        }
        assert_eq!(ledger.find_unwritten(RequestId(Uuid::from_u128(1))), Some(refused(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_keeps_failing_is_reported_and_its_records_count() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(&dir.path().join("db")).unwrap());
        let (journal, _) = Journal::open(&dir.path().join("journal")).unwrap();
        let account = ended(1).account;
        let balances = [(account, Nanos(1_000_000_000))];
        let (ledger, task) = Ledger::new(store.clone(), journal, &balances, Cursor(0));
        ledger.begin(open(1)).unwrap();
        ledger.settle(ended(1).into(), None);
        assert_eq!(ledger.waiting_entries()[&account], ledger.balance(account) + -balances[0].1);
        assert_eq!(ledger.write_failure(), None);
        store.close().await;
        let stop = CancellationToken::new();
        let mut writing = std::pin::pin!(task.run(stop.clone()));
        for expected in [None, Some(WriteFailure::Store { disk: None, waiting: 1 })] {
            tokio::select! {
                () = &mut writing => unreachable!("it keeps trying"),
                () = tokio::time::sleep(STORE_GRACE.mul_f64(0.9)) => {}
            }
            assert_eq!(ledger.write_failure(), expected);
            assert_eq!(ledger.blocked_records(), 1);
        }
    }
}
