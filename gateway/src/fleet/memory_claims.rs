//! Claims in the memory of a test.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use uuid::Uuid;

use domain::id::{AccountId, RequestId};
use domain::idempotency::{AnswerLookup, Claim, ClaimOutcome, IdempotencyDigest, StoredAnswer};
use store::{IdempotencyClaims, StoreError};

/// A store of one process, which makes a statement when the test permits it.
pub(super) struct Memory {
    pub(super) permits: Semaphore,
    held: Mutex<HashMap<IdempotencyDigest, RequestId>>,
    answers: Mutex<Vec<(Claim, StoredAnswer)>>,
    /// The answers of each transaction that stored some.
    pub(super) batches: Mutex<Vec<usize>>,
    pub(super) is_failing: Mutex<bool>,
    /// Whether a missing answer may still be stored.
    pub(super) is_pending: AtomicBool,
    /// The number of times that an answer was looked for.
    pub(super) lookups: AtomicUsize,
}

impl Memory {
    pub(super) fn new(permits: usize) -> Arc<Self> {
        Arc::new(Self {
            permits: Semaphore::new(permits),
            held: Mutex::default(),
            answers: Mutex::default(),
            batches: Mutex::default(),
            is_failing: Mutex::default(),
            is_pending: AtomicBool::new(true),
            lookups: AtomicUsize::default(),
        })
    }

    async fn statement(&self) -> Result<(), StoreError> {
        self.permits.acquire().await.unwrap().forget();
        if *self.is_failing.lock().unwrap() { Err(StoreError::NotFound) } else { Ok(()) }
    }

    /// Returns the request of a claim.
    pub(super) fn holder(&self) -> Option<RequestId> {
        self.held.lock().unwrap().values().next().copied()
    }
}

#[async_trait]
impl IdempotencyClaims for Memory {
    async fn claim(&self, claims: &[Claim], _: Duration) -> Result<Vec<ClaimOutcome>, StoreError> {
        self.held.lock().unwrap().extend(claims.iter().map(|it| (it.digest, it.request)));
        self.statement().await?;
        Ok(vec![ClaimOutcome::Claimed; claims.len()])
    }

    async fn store_answers(&self, answers: &[(Claim, StoredAnswer)]) -> Result<(), StoreError> {
        self.batches.lock().unwrap().push(answers.len());
        self.statement().await?;
        self.answers.lock().unwrap().extend_from_slice(answers);
        Ok(())
    }

    async fn find_answer(
        &self,
        claim: &Claim,
        first: RequestId,
    ) -> Result<AnswerLookup, StoreError> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        let answers = self.answers.lock().unwrap();
        let is_of = |stored: &Claim| stored.digest == claim.digest && stored.request == first;
        Ok(match answers.iter().find(|(stored, _)| is_of(stored)) {
            Some((_, answer)) => AnswerLookup::Found(answer.clone()),
            None if self.is_pending.load(Ordering::Relaxed) => AnswerLookup::Pending,
            None => AnswerLookup::Gone,
        })
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

/// Returns a claim of one key.
pub(super) fn claim(number: u128) -> Claim {
    Claim {
        account: AccountId(Uuid::nil()),
        digest: IdempotencyDigest([0; 32]),
        request: RequestId(Uuid::from_u128(number)),
        body: [0; 32],
    }
}
