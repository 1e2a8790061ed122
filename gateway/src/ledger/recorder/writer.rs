//! The writer: takes batches from the queue, passes them to the observer, and writes them to the store.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::queue::{Batch, Queue};
use super::{Progress, StoreFailure, advance};
use crate::ledger::journal::Journal;
use crate::write_behind::WriteBehind;
use domain::record::RequestRecord;
use store::{Cursor, Store, StoreError};

/// The pause after a batch, during which the next one accumulates. Each batch costs a transaction and four
/// wake-ups, which at 100 requests per second and a pause of 50 ms are a fifth of the CPU time of a request.
const BATCH_INTERVAL: Duration = Duration::from_secs(1);
/// The pause while the log is watched: watchers wait for it.
const WATCHED_BATCH_INTERVAL: Duration = Duration::from_millis(200);
/// The pause while a reader waits for the next batch. It bounds the rate of batches that readers can cause.
const MIN_BATCH_INTERVAL: Duration = Duration::from_millis(5);

/// The ledger's background work. Must be run until it returns.
pub struct RecorderTask {
    receiver: RecordReceiver,
    store: Arc<dyn Store>,
    journal: Arc<Journal>,
    observer: Observer,
}

/// Called with each batch of ended requests, in the recorder's task.
type Observer = Box<dyn FnMut(&[RequestRecord]) + Send>;

/// The side of the queue that the writer uses.
pub(super) struct RecordReceiver {
    pub(super) queue: Arc<Queue>,
    pub(super) committed: watch::Sender<Cursor>,
    pub(super) progress: watch::Sender<Progress>,
}

// === impl RecorderTask ===

impl RecorderTask {
    pub(super) fn new(
        receiver: RecordReceiver,
        store: Arc<dyn Store>,
        journal: Arc<Journal>,
    ) -> Self {
        Self { receiver, store, journal, observer: Box::new(|_| {}) }
    }

    /// Sets the observer that is called with ended requests before they are written. It must not block.
    #[must_use]
    pub fn observed(self, observer: impl FnMut(&[RequestRecord]) + Send + 'static) -> Self {
        Self { observer: Box::new(observer), ..self }
    }

    /// Writes batches until `stop` is cancelled and nothing is left, or the store keeps failing then.
    pub async fn run(self, stop: CancellationToken) {
        let Self { receiver, store, journal, mut observer } = self;
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
    fn observe_waiting(&self, observer: &mut Observer) {
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
