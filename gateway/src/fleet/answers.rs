//! Stores complete answers to claimed requests in the database, which other gateways replay.
//!
//! Nothing waits for it: an answer that cannot be stored is dropped, and a retry at another gateway is then refused.
//! It therefore has another task than the claims, and transactions of a bounded size. `claims.rs` makes the claims.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use domain::id::RequestId;
use domain::idempotency::{AnswerLookup, Claim, StoredAnswer};
use store::IdempotencyClaims;

/// A transaction takes no more answers once it has this many, or this many bytes of bodies.
const MAX_BATCH: usize = 512;
const MAX_BATCH_BYTES: usize = 2 * 1024 * 1024;
/// The maximum size of the answers that wait to be stored, in bytes. Beyond it, they are not shared.
const MAX_WAITING_BYTES: usize = 64 * 1024 * 1024;
/// The pause before answers are stored again after a failure of the store.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// The maximum number of retries that look for an answer at the same time. They hold connections to the database, and
/// their bodies, before any limit of their keys applies.
const MAX_LOOKUPS: usize = 16;
/// The number of times that an answer is looked for that may still be stored, and the pause between two.
const LOOKS: u32 = 5;
const LOOK_PAUSE: Duration = Duration::from_millis(200);

/// The answers that the gateways of a database share.
pub struct SharedAnswers {
    queue: UnboundedSender<(Claim, StoredAnswer)>,
    store: Arc<dyn IdempotencyClaims>,
    /// The bytes of the answers that are not stored yet.
    waiting: Arc<AtomicUsize>,
    lookups: Semaphore,
}

/// The background work. Must be run until it returns.
pub struct AnswersTask {
    queue: UnboundedReceiver<(Claim, StoredAnswer)>,
    store: Arc<dyn IdempotencyClaims>,
    waiting: Arc<AtomicUsize>,
    /// The number of answers that were dropped since the store fails.
    dropped: usize,
}

/// Why an answer was not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupError {
    /// It was not stored, or is no longer kept.
    Gone,
    /// The database failed, or too many retries look for theirs. Another attempt may find it.
    Unavailable,
}

// === impl SharedAnswers ===

impl SharedAnswers {
    /// Creates the answers in `store`.
    pub fn new(store: Arc<dyn IdempotencyClaims>) -> (Self, AnswersTask) {
        let (sender, queue) = mpsc::unbounded_channel();
        let waiting = Arc::<AtomicUsize>::default();
        let task =
            AnswersTask { queue, store: store.clone(), waiting: waiting.clone(), dropped: 0 };
        (Self { queue: sender, store, waiting, lookups: Semaphore::new(MAX_LOOKUPS) }, task)
    }

    /// Stores the complete answer to a claimed request, in the background. Too many at once are dropped.
    pub fn store(&self, claim: Claim, answer: StoredAnswer) {
        let size = answer.body.len();
        if self.waiting.fetch_add(size, Ordering::Relaxed) + size > MAX_WAITING_BYTES {
            self.waiting.fetch_sub(size, Ordering::Relaxed);
            return;
        }
        // The task ends only after the last request: see `app::run`.
        _ = self.queue.send((claim, answer));
    }

    /// Returns the answer to the request `first`, which has the claim of `claim`'s key. Waits for up to a second if
    /// the request was answered a moment ago, because its answer is stored in the background.
    ///
    /// # Errors
    /// There is no answer, or none could be looked for.
    pub async fn find(&self, claim: &Claim, first: RequestId) -> Result<StoredAnswer, LookupError> {
        let _permit = self.lookups.try_acquire().map_err(|_| LookupError::Unavailable)?;
        for look in 0..LOOKS {
            if look > 0 {
                sleep(LOOK_PAUSE).await;
            }
            match self.store.find_answer(claim, first).await {
                Ok(AnswerLookup::Found(answer)) => return Ok(answer),
                Ok(AnswerLookup::Pending) => {}
                Ok(AnswerLookup::Gone) => return Err(LookupError::Gone),
                Err(error) => {
                    tracing::debug!(%error, "cannot read the answer of another gateway");
                    return Err(LookupError::Unavailable);
                }
            }
        }
        Err(LookupError::Gone)
    }
}

// === impl AnswersTask ===

impl AnswersTask {
    /// Stores answers until `stop` is cancelled and none is left.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let first = tokio::select! {
                biased;
                first = self.queue.recv() => first,
                () = stop.cancelled(), if !self.queue.is_closed() => {
                    self.queue.close();
                    continue;
                }
            };
            let Some(first) = first else { return };
            self.store_batch(first).await;
            // A stop does not wait for a store that fails.
            if self.dropped > 0 && stop.is_cancelled() {
                return;
            }
        }
    }

    /// Stores an answer with those that wait. They are dropped after two failures, which may be due to one of them.
    async fn store_batch(&mut self, first: (Claim, StoredAnswer)) {
        let mut size = first.1.body.len();
        let mut batch = vec![first];
        while batch.len() < MAX_BATCH
            && size < MAX_BATCH_BYTES
            && let Ok(next) = self.queue.try_recv()
        {
            size += next.1.body.len();
            batch.push(next);
        }
        let mut outcome = self.store.store_answers(&batch).await;
        if outcome.is_err() {
            sleep(RETRY_PAUSE).await;
            outcome = self.store.store_answers(&batch).await;
        }
        self.waiting.fetch_sub(size, Ordering::Relaxed);
        match outcome {
            Ok(()) => {
                let dropped = std::mem::take(&mut self.dropped);
                if dropped > 0 {
                    tracing::warn!(dropped, "answers are stored for other gateways again");
                }
            }
            Err(error) => {
                if self.dropped == 0 {
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(
                        error,
                        "cannot store answers for other gateways; retries there are refused"
                    );
                }
                self.dropped += batch.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::memory_claims::{Memory, claim};
    use super::*;

    fn answer(length: usize) -> StoredAnswer {
        StoredAnswer { stream: false, headers: Vec::new(), body: Bytes::from(vec![7; length]) }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_found_once_it_is_stored() {
        let store = Memory::new(9);
        let (answers, task) = SharedAnswers::new(store.clone());
        let stop = CancellationToken::new();
        *store.is_failing.lock().unwrap() = true;
        let serving = async {
            answers.store(claim(1), answer(2));
            answers.store(claim(2), answer(MAX_WAITING_BYTES));
            sleep(RETRY_PAUSE / 2).await;
            *store.is_failing.lock().unwrap() = false;
            let found = answers.find(&claim(3), claim(1).request).await;
            assert_eq!(found, Ok(answer(2)));
            let too_much = answers.find(&claim(3), claim(2).request).await;
            assert_eq!(too_much, Err(LookupError::Gone));
            stop.cancel();
        };
        tokio::join!(task.run(stop.clone()), serving);
        assert_eq!(answers.waiting.load(Ordering::Relaxed), 0);
    }

    /// Regression test: a batch of up to 64 MiB was stored again and again, before the claims that requests wait for.
    #[tokio::test(start_paused = true)]
    async fn answers_are_stored_in_bounded_batches_and_dropped_after_two_failures() {
        let store = Memory::new(99);
        let (answers, task) = SharedAnswers::new(store.clone());
        *store.is_failing.lock().unwrap() = true;
        for number in 0..3 {
            answers.store(claim(number), answer(MAX_BATCH_BYTES));
        }
        for number in 3..6 {
            answers.store(claim(number), answer(1));
        }
        let stop = CancellationToken::new();
        let serving = async {
            // The first batch has failed twice, the second one once.
            sleep(RETRY_PAUSE * 3 / 2).await;
            *store.is_failing.lock().unwrap() = false;
            assert!(answers.find(&claim(9), claim(5).request).await.is_ok());
            assert!(answers.find(&claim(9), claim(1).request).await.is_ok());
            let dropped = answers.find(&claim(9), claim(0).request).await;
            assert_eq!(dropped, Err(LookupError::Gone));
            stop.cancel();
        };
        tokio::join!(task.run(stop.clone()), serving);
        assert_eq!(*store.batches.lock().unwrap(), [1, 1, 1, 1, 1, 3]);
        assert_eq!(answers.waiting.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_stop_does_not_wait_for_a_store_that_fails() {
        tokio::time::pause();
        let store = Memory::new(99);
        let (answers, task) = SharedAnswers::new(store.clone());
        *store.is_failing.lock().unwrap() = true;
        for number in 0..9 {
            answers.store(claim(number), answer(MAX_BATCH_BYTES));
        }
        let stop = CancellationToken::new();
        stop.cancel();
        task.run(stop).await;
        assert_eq!(*store.batches.lock().unwrap(), [1, 1]);
    }

    /// Regression test: each retry of a request whose answer is gone asked the database five times, in a second.
    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_gone_is_looked_for_once() {
        let store = Memory::new(9);
        let (answers, _task) = SharedAnswers::new(store.clone());
        store.is_pending.store(false, Ordering::Relaxed);
        assert_eq!(answers.find(&claim(2), claim(1).request).await, Err(LookupError::Gone));
        assert_eq!(store.lookups.load(Ordering::Relaxed), 1);

        store.is_pending.store(true, Ordering::Relaxed);
        assert_eq!(answers.find(&claim(2), claim(1).request).await, Err(LookupError::Gone));
        assert_eq!(store.lookups.swap(0, Ordering::Relaxed), 1 + LOOKS as usize);
        let (two, first) = (claim(2), claim(1).request);
        let retries = (0..MAX_LOOKUPS + 9).map(|_| answers.find(&two, first));
        let found = futures_util::future::join_all(retries).await;
        let refused = found.iter().filter(|it| **it == Err(LookupError::Unavailable)).count();
        assert_eq!(refused, 9, "they may try again");
        let expected = MAX_LOOKUPS * LOOKS as usize;
        assert_eq!(store.lookups.load(Ordering::Relaxed), expected, "others do not wait");
    }
}
