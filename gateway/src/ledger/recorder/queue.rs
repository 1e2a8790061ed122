//! The queue of records between requests and the writer.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::ledger::journal::JournalPosition;
use domain::histogram::Histogram;
use domain::record::RequestRecord;

/// The largest batch, which ends the pause. It bounds how long requests wait for the queue while the batch is
/// taken; larger ones are hardly cheaper per row (`benches/commit.rs`).
pub(super) const MAX_BATCH: usize = 512;
/// The bounds for the times of transactions, in seconds.
const COMMIT_TIMES: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0];

/// A record and its position in the journal. Boxed because it is moved several times.
pub(super) type EndedRequest = (Box<RequestRecord>, Option<JournalPosition>);

/// The queue between requests and the writer.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<QueueState>,
    /// Wakes the writer when a record was pushed.
    pub(super) pushed: Notify,
    /// Ends the writer's pause early because a reader waits for the next batch, or a watcher arrives.
    pub(super) flush_wanted: Notify,
    /// Ends the writer's pause early because a full batch waits.
    pub(super) filled: Notify,
    /// The number of records that the store does not have yet.
    pub(super) waiting: AtomicU64,
    /// Requests without a record since the last successful batch.
    pub(super) unrecorded: AtomicU64,
    /// Requests without a record before that.
    pub(super) unrecorded_before: AtomicU64,
    /// The times from taking a batch until the store has it, in seconds.
    pub(super) commit_times: CommitTimes,
}

pub(super) struct CommitTimes(Mutex<Histogram>);

#[derive(Default)]
pub(super) struct QueueState {
    pub(super) ended: VecDeque<EndedRequest>,
    /// The batch that is being written.
    pub(super) in_flight: Arc<Vec<RequestRecord>>,
    /// How many of `ended`, from the front, the observer has seen.
    observed: usize,
    /// The number of records pushed since the start.
    pub(super) pushed: u64,
    pub(super) is_closed: bool,
}

/// Records taken from the queue at once.
pub(super) struct Batch {
    pub(super) records: Arc<Vec<RequestRecord>>,
    pub(super) positions: Vec<Option<JournalPosition>>,
    /// How many of the records, from the first, the observer has seen.
    pub(super) observed: usize,
    /// Whether the queue already has another full batch.
    pub(super) next_is_full: bool,
}

// === impl CommitTimes ===

impl Default for CommitTimes {
    fn default() -> Self {
        Self(Mutex::new(Histogram::new(COMMIT_TIMES)))
    }
}

impl CommitTimes {
    pub(super) fn lock(&self) -> MutexGuard<'_, Histogram> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Queue ===

impl Queue {
    pub(super) fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next batch. [`RecordSender::find`](super::RecordSender::find) finds its records until
    /// [`clear_in_flight`](Self::clear_in_flight).
    pub(super) fn take(&self) -> Option<Batch> {
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
    pub(super) fn take_unobserved(&self) -> Vec<RequestRecord> {
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

    pub(super) fn clear_in_flight(&self) {
        // Dropped after the lock is released, because freeing a batch takes time.
        let _written = std::mem::take(&mut self.lock().in_flight);
    }
}
