//! Writes ended requests behind, in batches.
//!
//! Requests only push to a queue. A batch that the store does not take is kept and tried again;
//! while that lasts the queue grows, and past [`BEHIND`] no request is admitted, and one that went to no
//! upstream is counted instead of queued: clients that go on asking must not fill the memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::journal::{Journal, Place};
use crate::domain::record::RequestRecord;
use crate::store::{Cursor, Store};

/// Records that may wait; at some 500 bytes each, the queue stays below 50 MB.
const BEHIND: u64 = 100_000;
/// The pause after a batch, in which the next one gathers; who follows the log waits for it, too. The
/// larger a batch, the cheaper each of its rows (`benches/commit.rs`): at 10,000 requests a second one has 500.
const GATHER: Duration = Duration::from_millis(50);
const LARGEST_BATCH: usize = 4_096;
const RETRY: Duration = Duration::from_millis(250);

/// A record, and where the journal has it. Boxed: it is handed on from place to place.
type Ended = (Box<RequestRecord>, Option<Place>);

/// The requests' side.
pub(super) struct Recorder {
    queue: UnboundedSender<Ended>,
    waiting: Arc<AtomicU64>,
    left_out: Arc<AtomicU64>,
    committed: watch::Receiver<Cursor>,
}

/// The writer's side.
pub(super) struct Inbox {
    queue: UnboundedReceiver<Ended>,
    waiting: Arc<AtomicU64>,
    left_out: Arc<AtomicU64>,
    committed: watch::Sender<Cursor>,
}

pub(super) fn channel(newest: Cursor) -> (Recorder, Inbox) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let (committed_sender, committed) = watch::channel(newest);
    let (waiting, left_out) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    (
        Recorder { queue: sender, waiting: waiting.clone(), left_out: left_out.clone(), committed },
        Inbox { queue: receiver, waiting, left_out, committed: committed_sender },
    )
}

impl Recorder {
    pub(super) fn send(&self, record: Box<RequestRecord>, place: Option<Place>) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        if let Err(mpsc::error::SendError((lost, _))) = self.queue.send((record, place)) {
            // the recorder ends only after the last request has: see `app::run`
            tracing::error!(request_id = %lost.id, "a request ended after the recorder; the next start replays it");
        }
    }

    /// Counts a request that gets no record. How many those were is logged once records are written
    /// again.
    pub(super) fn leave_out(&self) {
        self.left_out.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn is_behind(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > BEHIND
    }

    pub(super) fn committed(&self) -> watch::Receiver<Cursor> {
        self.committed.clone()
    }
}

pub(super) async fn run(
    mut inbox: Inbox,
    store: Arc<dyn Store>,
    journal: Arc<Journal>,
    mut observer: super::Observer,
    stop: CancellationToken,
) {
    let mut ended = Vec::new();
    loop {
        tokio::select! {
            biased;
            taken = inbox.queue.recv_many(&mut ended, LARGEST_BATCH) => {
                if taken == 0 {
                    return;
                }
            }
            () = stop.cancelled(), if !inbox.queue.is_closed() => {
                inbox.queue.close();
                continue;
            }
        }
        let ended = ended.drain(..).map(|(record, place)| (*record, place));
        let (records, places): (Vec<_>, Vec<_>) = ended.unzip();
        observer(&records);
        commit(&inbox, &*store, records).await;
        journal.committed(places.into_iter().flatten());
        if inbox.queue.len() < LARGEST_BATCH {
            _ = stop.run_until_cancelled(tokio::time::sleep(GATHER)).await;
        }
    }
}

/// Writes a batch, however long the store takes to come back.
async fn commit(inbox: &Inbox, store: &dyn Store, records: Vec<RequestRecord>) {
    let count = records.len() as u64;
    let batch = Arc::new(records);
    let mut failures = 0_u32;
    let newest = loop {
        match store.commit(batch.clone()).await {
            Ok(newest) => break newest,
            Err(error) => {
                if failures.is_multiple_of(40) {
                    let error: &dyn std::error::Error = &error;
                    tracing::error!(
                        error,
                        records = count,
                        "cannot write request records; retrying"
                    );
                }
                failures += 1;
                tokio::time::sleep(RETRY).await;
            }
        }
    };
    if failures > 0 {
        tracing::info!(records = count, failures, "request records are written again");
    }
    inbox.waiting.fetch_sub(count, Ordering::Relaxed);
    let requests = inbox.left_out.swap(0, Ordering::Relaxed);
    if requests > 0 {
        tracing::warn!(
            requests,
            "requests that went to no upstream have no record: too many waited to be written"
        );
    }
    inbox.committed.send_if_modified(|cursor| {
        let grew = newest > *cursor;
        *cursor = newest.max(*cursor);
        grew
    });
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::domain::id::RequestId;
    use crate::domain::money::Nanos;
    use crate::domain::record::RequestStatus;
    use crate::ledger::Ledger;
    use crate::ledger::journal::tests::{ended, open};
    use crate::store::sqlite::SqliteStore;
    use crate::store::{RequestFilter, Requests};

    fn refused(number: u128) -> RequestRecord {
        RequestRecord {
            status: RequestStatus::Rejected,
            usage: None,
            cost: Some(Nanos::ZERO),
            overrun: Nanos::ZERO,
            ..ended(number)
        }
    }

    #[tokio::test]
    async fn beyond_what_may_wait_only_what_went_upstream_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(&dir.path().join("db")).unwrap());
        let (journal, _) = Journal::open(&dir.path().join("journal")).unwrap();
        let (ledger, task) = Ledger::new(store.clone(), journal, &[], Cursor(0));
        for number in [1, 2] {
            ledger.begin(open(number)).unwrap();
        }
        ledger.settle(refused(10).into(), None);
        // as many as may wait, and one more
        ledger.recorder.waiting.fetch_add(BEHIND, Ordering::Relaxed);
        for number in 11..20 {
            ledger.settle(refused(number).into(), None);
        }
        ledger.settle(ended(1).into(), None);
        ledger.settle(refused(2).into(), None);
        assert_eq!(ledger.recorder.left_out.load(Ordering::Relaxed), 9);

        let stop = CancellationToken::new();
        stop.cancel();
        task.run(stop).await;
        let written = store.requests_before(&RequestFilter::default(), None, 100).await.unwrap();
        let ids: Vec<_> = written.into_iter().map(|(_, record)| record.id).collect();
        assert_eq!(ids, [2, 1, 10].map(|number| RequestId(Uuid::from_u128(number))));
        assert_eq!(ledger.recorder.left_out.load(Ordering::Relaxed), 0, "it was told");
        assert!(!ledger.is_behind());
        ledger.settle(refused(20).into(), None);
        assert_eq!(ledger.recorder.left_out.load(Ordering::Relaxed), 0);
    }
}
