//! Replays the answer of a request to its retries, by their `Idempotency-Key`.
//!
//! A key stands for one complete answer. While its first attempt is in progress, no second one is made, and
//! its answer is replayed for a while. An attempt that ends without a complete answer, because it was
//! refused, failed or lost its client, frees the key: the next attempt is served like a first one. A replay
//! costs nothing and is recorded like every request. Start with [`begin`]; `table.rs` is the memory.
//!
//! If several gateways share the database, a first attempt also claims the key there ([`Claims`]), so that no
//! other gateway serves it. The claim keeps the answer, which a retry at another gateway gets.

mod table;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use sha2::{Digest, Sha256};

use super::authenticate::Principal;
use super::open_request::OpenRequest;
use super::plain_answer::UNCOUNTED_BYTES;
use super::{AppState, rate_limit_headers};
use crate::clock::Clock;
use crate::fleet::{Claims, LookupError, SharedAnswers, StoreContact};
use crate::memory_budget::MemoryGuard;
use domain::endpoint::Endpoint;
use domain::id::RequestId;
use domain::idempotency::{Answered, Claim, ClaimOutcome, IdempotencyDigest};
use domain::refusal::{Refusal, RequestFault};
use table::{Role, Table};

pub use table::{KeyedRequest, MAX_ENTRIES, RecordedAnswer};

const HEADER: HeaderName = HeaderName::from_static("idempotency-key");
const MAX_KEY_BYTES: usize = 255;
/// The longest answer that is kept, in bytes.
const MAX_KEPT_BYTES: usize = 1024 * 1024;

/// The requests with an idempotency key. One table for the whole gateway.
pub struct Replays {
    table: Mutex<Table>,
    clock: Arc<dyn Clock>,
    /// The claims among the gateways of the database; `None` if there are no others.
    claims: Option<Claims>,
    /// The answers among the gateways of the database; `None` if they are not shared.
    shared_answers: Option<SharedAnswers>,
}

/// The role of a request among those with its idempotency key.
pub enum ReplayDecision {
    /// A first attempt; its answer is recorded if it has a key.
    First(Option<Box<AnswerRecorder>>),
    /// A retry, with the answer of the first attempt.
    Replayed(Arc<RecordedAnswer>),
}

/// Records the answer to a first attempt. Dropping it before the end frees the key.
pub struct AnswerRecorder {
    replays: Arc<Replays>,
    digest: IdempotencyDigest,
    /// The claim among all gateways, once it is made.
    claim: Option<Claim>,
    /// The bytes of a stream so far.
    taken: Vec<u8>,
    /// The memory of `taken`, as far as it is counted.
    memory: MemoryGuard,
    headers: HeaderMap,
    /// Whether the answer is too long to be kept, or there is no memory for it.
    is_too_long: bool,
    is_answered: bool,
}

/// Determines whether the request is a retry, and waits while an earlier attempt is in progress.
///
/// # Errors
/// The key is malformed or belongs to another request, there is no answer to replay, or the database that other
/// gateways share cannot be reached.
pub async fn begin(
    app: &AppState,
    principal: &Principal,
    endpoint: Endpoint,
    headers: &HeaderMap,
    body: &Bytes,
    open: &mut OpenRequest,
) -> Result<ReplayDecision, Refusal> {
    let Some(key) = headers.get(&HEADER) else { return Ok(ReplayDecision::First(None)) };
    let Some(replays) = &app.replays else { return Ok(ReplayDecision::First(None)) };
    let key = key.as_bytes();
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        let message = format!("the header `Idempotency-Key` must have 1 to {MAX_KEY_BYTES} bytes");
        return Err(Refusal::invalid(RequestFault::InvalidValue, None, message));
    }
    let digest = IdempotencyDigest::of(&principal.key.id, key);
    let body_digest =
        Sha256::new().chain_update(endpoint.as_str()).chain_update([0]).chain_update(body);
    let body_digest = body_digest.finalize().into();
    loop {
        let found = replays.table().begin(digest, body_digest, open.id(), replays.clock.now());
        return match found {
            Role::First => {
                let account = principal.account.id;
                let claim = Claim { account, digest, request: open.id(), body: body_digest };
                let memory = open.memory_guard();
                let mut recorder = AnswerRecorder::new(replays.clone(), digest, memory);
                if let Some(first) = recorder.claim(claim, &app.contact).await? {
                    return replays.replay_other(&claim, first, open).await;
                }
                open.set_idempotency_digest(digest);
                Ok(ReplayDecision::First(Some(recorder)))
            }
            Role::Waiting(over) => {
                over.cancelled().await;
                continue;
            }
            Role::Streaming(first) => Err(Refusal::IdempotencyInProgress { first }),
            Role::Answered(first, Some(kept)) => {
                open.add_notes([format!("idempotent_replay_of={first}")]);
                Ok(ReplayDecision::Replayed(kept))
            }
            Role::Answered(first, None) => {
                let account = principal.account.id;
                let claim = Claim { account, digest, request: open.id(), body: body_digest };
                replays.replay_other(&claim, first, open).await
            }
            Role::KeyReused(first) => Err(Refusal::IdempotencyKeyReused { first }),
        };
    }
}

// === impl Replays ===

impl Replays {
    /// Creates a table that remembers requests for `window`, beginning with those that an earlier process
    /// answered. `claims` excludes other gateways, if there are any, and `shared_answers` has their answers.
    pub fn new(
        window: Duration,
        answered: &[Answered],
        clock: Arc<dyn Clock>,
        claims: Option<Claims>,
        shared_answers: Option<SharedAnswers>,
    ) -> Arc<Self> {
        let table = Mutex::new(Table::new(window, answered));
        Arc::new(Self { table, clock, claims, shared_answers })
    }

    /// Replays the answer to `first`, if another gateway or an earlier process has stored it.
    async fn replay_other(
        &self,
        claim: &Claim,
        first: RequestId,
        open: &mut OpenRequest,
    ) -> Result<ReplayDecision, Refusal> {
        let gone = Refusal::IdempotentAnswerGone { first };
        let Some(answers) = &self.shared_answers else { return Err(gone) };
        let stored = answers.find(claim, first).await.map_err(|error| match error {
            LookupError::Gone => gone,
            LookupError::Unavailable => Refusal::IdempotencyUnavailable,
        })?;
        open.add_notes([format!("idempotent_replay_of={first}")]);
        Ok(ReplayDecision::Replayed(Arc::new(RecordedAnswer::of(stored))))
    }

    /// Returns the requests with a key that are in progress.
    pub fn in_progress(&self) -> Vec<KeyedRequest> {
        self.table().in_progress()
    }

    /// Refuses retries of requests that another process answers, until [`finish_adopted`](Self::finish_adopted). Returns
    /// those that had not been answered before.
    pub fn insert_adopted(&self, requests: Vec<KeyedRequest>) -> Vec<KeyedRequest> {
        let (mut table, now) = (self.table(), self.clock.now());
        let mut insert = |KeyedRequest { digest, body, request }: &KeyedRequest| {
            let is_first = matches!(table.begin(*digest, *body, *request, now), Role::First);
            if is_first {
                table.stream(*digest);
            }
            is_first
        };
        requests.into_iter().filter(|request| insert(request)).collect()
    }

    /// Ends a request that was [inserted](Self::insert_adopted). If it was answered completely, retries are still not
    /// served.
    pub fn finish_adopted(&self, digest: IdempotencyDigest, is_answered: bool) {
        let mut table = self.table();
        if is_answered {
            table.answer(digest, None, self.clock.now());
        } else {
            table.release(digest);
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl AnswerRecorder ===

impl AnswerRecorder {
    fn new(replays: Arc<Replays>, digest: IdempotencyDigest, memory: MemoryGuard) -> Box<Self> {
        Box::new(Self {
            replays,
            digest,
            claim: None,
            taken: Vec::new(),
            memory,
            headers: HeaderMap::new(),
            is_too_long: false,
            is_answered: false,
        })
    }

    /// Claims the key among all gateways. Returns the request that another gateway has answered, if there is one.
    ///
    /// # Errors
    /// Another gateway serves the key, or the database cannot be reached.
    async fn claim(
        &mut self,
        claim: Claim,
        contact: &StoreContact,
    ) -> Result<Option<RequestId>, Refusal> {
        let Some(claims) = &self.replays.claims else { return Ok(None) };
        match claims.claim(claim).await.ok_or(Refusal::IdempotencyUnavailable)? {
            ClaimOutcome::Claimed => self.claim = Some(claim),
            ClaimOutcome::InProgress(first) => {
                return Err(Refusal::IdempotencyInProgress { first });
            }
            ClaimOutcome::Answered(first) => return Ok(Some(first)),
            ClaimOutcome::KeyReused(first) => return Err(Refusal::IdempotencyKeyReused { first }),
        }
        // A process that was suspended meanwhile may have lost the claim to another gateway.
        if contact.is_recent() { Ok(None) } else { Err(Refusal::DatabaseUnreachable) }
    }

    /// Records a plain answer.
    pub(super) fn record_whole(mut self, headers: &HeaderMap, body: &[u8]) {
        self.take_headers(headers);
        self.finish(body, false);
    }

    /// Begins to record a stream.
    pub(super) fn begin_stream(&mut self, headers: &HeaderMap) {
        self.take_headers(headers);
        self.replays.table().stream(self.digest);
    }

    fn take_headers(&mut self, headers: &HeaderMap) {
        self.headers.clone_from(headers);
        rate_limit_headers::remove(&mut self.headers);
    }

    /// Appends the next bytes of a stream.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let length = self.taken.len() + bytes.len();
        let has_memory = length <= UNCOUNTED_BYTES
            || self.memory.try_grow_to(length.next_multiple_of(UNCOUNTED_BYTES));
        self.is_too_long |= length > MAX_KEPT_BYTES || !has_memory;
        if self.is_too_long {
            self.taken = Vec::new();
            drop(self.memory.split_off(usize::MAX));
        } else {
            self.taken.extend_from_slice(bytes);
        }
    }

    /// Appends the last bytes of an answer and stores it.
    pub(super) fn finish(mut self, bytes: &[u8], stream: bool) {
        self.push(bytes);
        let headers = std::mem::take(&mut self.headers);
        // The stream's spare capacity is dropped.
        let body = Bytes::from(std::mem::take(&mut self.taken).into_boxed_slice());
        let kept = (!self.is_too_long).then(|| Arc::new(RecordedAnswer { stream, headers, body }));
        let answers = &self.replays.shared_answers;
        if let (Some(answers), Some(claim), Some(kept)) = (answers, self.claim, &kept) {
            answers.store(claim, kept.stored());
        }
        self.replays.table().answer(self.digest, kept, self.replays.clock.now());
        self.is_answered = true;
    }
}

impl Drop for AnswerRecorder {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        // Before the key is free in memory: a next attempt of this gateway makes a claim after this release.
        if let (Some(claims), Some(claim)) = (&self.replays.claims, self.claim) {
            claims.release(claim);
        }
        self.replays.table().release(self.digest);
    }
}
