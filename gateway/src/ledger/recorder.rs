//! Writes the records of ended requests to the store, in batches, behind the requests.
//!
//! Requests only push to a queue. If the store does not accept a batch, the batch is kept and retried, and
//! the queue grows. Beyond [`MAX_WAITING_RECORDS`] records, no request is admitted, and requests that went to
//! no upstream are counted instead of queued, so that persistent clients cannot fill the memory. Waiting
//! records can be found by id, and a reader of the store can wait until they are written.

mod queue;
mod writer;

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;

use self::queue::{MAX_BATCH, Queue};
use self::writer::RecordReceiver;
pub use self::writer::RecorderTask;
use super::WriteFailure;
use super::journal::{Journal, JournalPosition};
use domain::histogram::Histogram;
use domain::id::{AccountId, RequestId};
use domain::money::Nanos;
use domain::record::RequestRecord;
use store::{Cursor, DiskFault, Store};

/// The number of records that may wait; at about 500 bytes each, the queue stays below 50 MB. The texts of prompts and
/// answers in their traces have a bound of their own (`domain::traced_content`).
const MAX_WAITING_RECORDS: u64 = 100_000;
/// The longest time that a reader waits; then it continues with what is stored.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// The time for which the store may fail before records count as not writable.
const STORE_GRACE: Duration = Duration::from_secs(10);

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

/// Returns both sides of a new queue. `newest` is the cursor of the newest stored record. The task writes to `store`, and
/// releases what is written from `journal`.
pub(super) fn channel(
    newest: Cursor,
    store: Arc<dyn Store>,
    journal: Arc<Journal>,
) -> (RecordSender, RecorderTask) {
    let queue = Arc::<Queue>::default();
    let committed = watch::Sender::new(newest);
    let (progress_sender, progress) = watch::channel(Progress::default());
    let receiver = RecordReceiver {
        queue: queue.clone(),
        committed: committed.clone(),
        progress: progress_sender,
    };
    (RecordSender { queue, committed, progress }, RecorderTask::new(receiver, store, journal))
}

// === impl RecordSender ===

impl RecordSender {
    pub(super) fn send(&self, record: Box<RequestRecord>, position: Option<JournalPosition>) {
        self.queue.waiting.fetch_add(1, Ordering::Relaxed);
        let is_full = {
            let mut state = self.queue.lock();
            if state.is_closed {
                // The process that replaces this one reads the journal: see `app::hand_over`.
                if position.is_none() {
                    tracing::error!(request_id = %record.id, "a request ended after the recorder, and the journal does not have its record");
                }
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

/// Publishes a cursor, unless a greater one is known.
fn advance(committed: &watch::Sender<Cursor>, newest: Cursor) {
    committed.send_if_modified(|cursor| {
        let grew = newest > *cursor;
        *cursor = newest.max(*cursor);
        grew
    });
}

#[cfg(test)]
mod tests;
