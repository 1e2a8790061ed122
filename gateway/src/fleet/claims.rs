//! Claims idempotency keys in the database, so that one of several gateways serves a request.
//!
//! One task writes all claims, so that those of many requests become one transaction, and a client
//! that disconnects interrupts no statement. It also releases the claims of requests that ended
//! without a complete answer, and stores complete ones, which other gateways replay.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use domain::id::RequestId;
use domain::idempotency::{Claim, ClaimOutcome, StoredAnswer};
use store::{IdempotencyClaims, StoreError};

/// The maximum number of changes in a transaction.
const MAX_BATCH: usize = 512;
/// The pause before claims are released again after a failure of the store.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// The maximum size of the answers that wait to be stored, in bytes. Beyond it, they are not shared.
const MAX_WAITING_BYTES: usize = 64 * 1024 * 1024;
/// The number of times that a stored answer is looked for, and the pause between two.
const LOOKS: u32 = 5;
const LOOK_PAUSE: Duration = Duration::from_millis(200);

/// The claims of this gateway's requests.
pub struct Claims {
    queue: UnboundedSender<Change>,
    store: Arc<dyn IdempotencyClaims>,
    /// The bytes of the answers in the queue; `None` if answers are not shared.
    waiting: Option<Arc<AtomicUsize>>,
}

/// The background work. Must be run until it returns.
pub struct ClaimsTask {
    queue: UnboundedReceiver<Change>,
    store: Arc<dyn IdempotencyClaims>,
    /// How long a claim remains in force after its request was answered.
    window: Duration,
    /// Claims whose requests ended without a complete answer.
    ended: Vec<Claim>,
    /// Answers that are not stored yet.
    answers: Vec<(Claim, StoredAnswer)>,
    waiting: Option<Arc<AtomicUsize>>,
    is_failing: bool,
}

enum Change {
    /// The sender is dropped if the store fails.
    Claim(Claim, oneshot::Sender<ClaimOutcome>),
    Release(Claim),
    Answer(Box<(Claim, StoredAnswer)>),
}

// === impl Claims ===

impl Claims {
    /// Creates the claims, which remain in force for `window` after their requests were answered. Answers are stored
    /// for other gateways if `shares_answers`.
    pub fn new(
        store: Arc<dyn IdempotencyClaims>,
        window: Duration,
        shares_answers: bool,
    ) -> (Self, ClaimsTask) {
        let (sender, queue) = mpsc::unbounded_channel();
        let waiting = shares_answers.then(Arc::<AtomicUsize>::default);
        let task = ClaimsTask {
            queue,
            store: store.clone(),
            window,
            ended: Vec::new(),
            answers: Vec::new(),
            waiting: waiting.clone(),
            is_failing: false,
        };
        (Self { queue: sender, store, waiting }, task)
    }

    /// Makes a claim. This process must have no other request in progress with its key. Returns
    /// `None` if the database cannot be reached. A [claimed](ClaimOutcome::Claimed) one must be
    /// [released](Self::release) unless its request is answered completely.
    ///
    /// # Cancel safety
    /// If the future is dropped, the claim is released.
    pub async fn claim(&self, claim: Claim) -> Option<ClaimOutcome> {
        let (reply, outcome) = oneshot::channel();
        self.queue.send(Change::Claim(claim, reply)).ok()?;
        outcome.await.ok()
    }

    /// Stores the complete answer to a claimed request for other gateways, in the background. Too many at once are
    /// dropped: a retry at another gateway is then refused.
    pub fn store_answer(&self, claim: Claim, answer: StoredAnswer) {
        let Some(waiting) = &self.waiting else { return };
        let size = answer.body.len();
        if waiting.fetch_add(size, Ordering::Relaxed) + size > MAX_WAITING_BYTES {
            waiting.fetch_sub(size, Ordering::Relaxed);
            return;
        }
        _ = self.queue.send(Change::Answer(Box::new((claim, answer))));
    }

    /// Returns the answer of another gateway to the request `first`, which has the claim of `claim`'s key. Waits for
    /// up to a second, because it is stored in the background.
    pub async fn find_answer(&self, claim: &Claim, first: RequestId) -> Option<StoredAnswer> {
        self.waiting.as_ref()?;
        for look in 0..LOOKS {
            if look > 0 {
                sleep(LOOK_PAUSE).await;
            }
            match self.store.find_answer(claim, first).await {
                Ok(None) => {}
                Ok(found) => return found,
                Err(error) => {
                    tracing::debug!(%error, "cannot read the answer of another gateway");
                    return None;
                }
            }
        }
        None
    }

    /// Releases a claim whose request ended without a complete answer.
    pub fn release(&self, claim: Claim) {
        // The task ends only after the last request: see `app::run`.
        _ = self.queue.send(Change::Release(claim));
    }
}

// === impl ClaimsTask ===

impl ClaimsTask {
    /// Writes claims until `stop` is cancelled and nothing is left to write.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut changes = Vec::new();
        loop {
            tokio::select! {
                biased;
                taken = self.queue.recv_many(&mut changes, MAX_BATCH) => {
                    if taken == 0 {
                        break;
                    }
                    self.apply(&mut changes).await;
                    // After the claims, which requests wait for.
                    self.store_answers().await;
                }
                () = stop.cancelled(), if !self.queue.is_closed() => self.queue.close(),
                () = sleep(RETRY_PAUSE), if !self.ended.is_empty() || !self.answers.is_empty() => {
                    // Those that are left are released later.
                    _ = self.release().await;
                    self.store_answers().await;
                }
            }
        }
        // If this fails, the next start in the data directory releases the rest.
        _ = self.release().await;
        self.store_answers().await;
    }

    async fn apply(&mut self, changes: &mut Vec<Change>) {
        let (mut claims, mut replies) = (Vec::new(), Vec::new());
        for change in changes.drain(..) {
            match change {
                Change::Release(claim) => self.ended.push(claim),
                Change::Answer(answer) => self.answers.push(*answer),
                // Its client has disconnected. The next claim of the key may be in this batch.
                Change::Claim(_, reply) if reply.is_closed() => {}
                Change::Claim(claim, reply) => {
                    claims.push(claim);
                    replies.push(reply);
                }
            }
        }
        // If this fails, the claims are refused without another attempt.
        if self.release().await.is_err() || claims.is_empty() {
            return;
        }
        match self.store.claim(&claims, self.window).await {
            Ok(outcomes) => {
                self.is_failing = false;
                for ((claim, reply), outcome) in claims.into_iter().zip(replies).zip(outcomes) {
                    if reply.send(outcome).is_err() && outcome == ClaimOutcome::Claimed {
                        self.ended.push(claim);
                    }
                }
            }
            Err(error) => {
                self.log_failure(&error);
                // The database may have them all the same.
                self.ended.extend(claims);
            }
        }
    }

    /// Releases the claims of ended requests. Those that are left after a failure are released later.
    async fn release(&mut self) -> Result<(), StoreError> {
        while !self.ended.is_empty() {
            let count = self.ended.len().min(MAX_BATCH);
            let released = self.store.release_claims(&self.ended[..count]).await;
            released.inspect_err(|error| self.log_failure(error))?;
            self.ended.drain(..count);
        }
        Ok(())
    }

    /// Stores answers. Those that are left after a failure are stored later.
    async fn store_answers(&mut self) {
        while !self.answers.is_empty() {
            let count = self.answers.len().min(MAX_BATCH);
            if let Err(error) = self.store.store_answers(&self.answers[..count]).await {
                return self.log_failure(&error);
            }
            let size = self.answers.drain(..count).map(|(_, answer)| answer.body.len()).sum();
            if let Some(waiting) = &self.waiting {
                waiting.fetch_sub(size, Ordering::Relaxed);
            }
        }
    }

    /// Logs the first of several failures.
    fn log_failure(&mut self, error: &StoreError) {
        if !std::mem::replace(&mut self.is_failing, true) {
            let error: &dyn std::error::Error = error;
            tracing::warn!(error, "cannot claim idempotency keys; requests with one are refused");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Mutex;

    use async_trait::async_trait;
    use bytes::Bytes;
    use domain::id::AccountId;
    use domain::idempotency::IdempotencyDigest;
    use tokio::sync::Semaphore;
    use uuid::Uuid;

    use super::*;

    const WINDOW: Duration = Duration::from_mins(10);

    /// A store of one process, which makes a statement when the test permits it.
    struct Memory {
        permits: Semaphore,
        held: Mutex<HashMap<IdempotencyDigest, RequestId>>,
        answers: Mutex<Vec<(Claim, StoredAnswer)>>,
        is_failing: Mutex<bool>,
    }

    impl Memory {
        fn new(permits: usize) -> Arc<Self> {
            let (held, answers, is_failing) = Default::default();
            Arc::new(Self { permits: Semaphore::new(permits), held, answers, is_failing })
        }

        async fn statement(&self) -> Result<(), StoreError> {
            self.permits.acquire().await.unwrap().forget();
            if *self.is_failing.lock().unwrap() { Err(StoreError::NotFound) } else { Ok(()) }
        }

        fn holder(&self) -> Option<RequestId> {
            self.held.lock().unwrap().values().next().copied()
        }
    }

    #[async_trait]
    impl IdempotencyClaims for Memory {
        async fn claim(
            &self,
            claims: &[Claim],
            _: Duration,
        ) -> Result<Vec<ClaimOutcome>, StoreError> {
            self.held.lock().unwrap().extend(claims.iter().map(|it| (it.digest, it.request)));
            self.statement().await?;
            Ok(vec![ClaimOutcome::Claimed; claims.len()])
        }

        async fn store_answers(&self, answers: &[(Claim, StoredAnswer)]) -> Result<(), StoreError> {
            self.statement().await?;
            self.answers.lock().unwrap().extend_from_slice(answers);
            Ok(())
        }

        async fn find_answer(
            &self,
            claim: &Claim,
            first: RequestId,
        ) -> Result<Option<StoredAnswer>, StoreError> {
            let answers = self.answers.lock().unwrap();
            let is_of = |stored: &Claim| stored.digest == claim.digest && stored.request == first;
            Ok(answers.iter().find(|(stored, _)| is_of(stored)).map(|(_, answer)| answer.clone()))
        }

        async fn release_claims(&self, claims: &[Claim]) -> Result<(), StoreError> {
            self.statement().await?;
            let is_ended = |request: &RequestId| claims.iter().any(|it| it.request == *request);
            self.held.lock().unwrap().retain(|_, request| !is_ended(request));
            Ok(())
        }

        async fn release_earlier_claims(&self) -> Result<(), StoreError> {
            Ok(())
        }

        async fn delete_old_claims(&self, _: Duration, _: usize) -> Result<u64, StoreError> {
            Ok(0)
        }
    }

    fn claim(number: u128) -> Claim {
        Claim {
            account: AccountId(Uuid::nil()),
            digest: IdempotencyDigest([0; 32]),
            request: RequestId(Uuid::from_u128(number)),
            body: [0; 32],
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_whose_client_disconnects_is_released() {
        let store = Memory::new(0);
        let (claims, task) = Claims::new(store.clone(), WINDOW, true);
        let stop = CancellationToken::new();
        let ended = stop.clone();
        let serving = async {
            {
                let claiming = claims.claim(claim(1));
                tokio::pin!(claiming);
                assert!(tokio::time::timeout(Duration::from_secs(1), claiming).await.is_err());
            }
            assert_eq!(store.holder(), Some(claim(1).request));
            store.permits.add_permits(9);
            assert_eq!(claims.claim(claim(2)).await, Some(ClaimOutcome::Claimed));
            assert_eq!(store.holder(), Some(claim(2).request), "the second one is not released");
            claims.release(claim(2));
            ended.cancel();
        };
        tokio::join!(task.run(stop), serving);
        assert_eq!(store.holder(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_of_unknown_outcome_is_released_once_the_store_works() {
        let store = Memory::new(9);
        let (claims, task) = Claims::new(store.clone(), WINDOW, true);
        let stop = CancellationToken::new();
        *store.is_failing.lock().unwrap() = true;
        let serving = async {
            assert_eq!(claims.claim(claim(1)).await, None);
            assert_eq!(store.holder(), Some(claim(1).request));
            *store.is_failing.lock().unwrap() = false;
            sleep(RETRY_PAUSE * 2).await;
            assert_eq!(store.holder(), None);
            stop.cancel();
        };
        tokio::join!(task.run(stop.clone()), serving);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_found_once_it_is_stored() {
        let store = Memory::new(9);
        let (claims, task) = Claims::new(store.clone(), WINDOW, true);
        let stop = CancellationToken::new();
        *store.is_failing.lock().unwrap() = true;
        let answer =
            StoredAnswer { stream: false, headers: Vec::new(), body: Bytes::from_static(b"hi") };
        let serving = async {
            claims.store_answer(claim(1), answer.clone());
            let large = StoredAnswer { body: vec![0; MAX_WAITING_BYTES].into(), ..answer.clone() };
            claims.store_answer(claim(2), large);
            sleep(RETRY_PAUSE / 2).await;
            *store.is_failing.lock().unwrap() = false;
            let found = claims.find_answer(&claim(3), claim(1).request).await;
            assert_eq!(found, Some(answer.clone()));
            assert_eq!(claims.find_answer(&claim(3), claim(2).request).await, None, "too much");
            stop.cancel();
        };
        tokio::join!(task.run(stop.clone()), serving);
        let (claims, _task) = Claims::new(store, WINDOW, false);
        assert_eq!(claims.find_answer(&claim(3), claim(1).request).await, None, "not shared");
    }
}
