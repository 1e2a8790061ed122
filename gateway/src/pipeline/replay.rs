//! Retries of a request with the same `Idempotency-Key`: they are given its answer, not another one.
//!
//! A key stands for one whole answer. While its first attempt is under way no second one is made, and
//! its answer is given again for a while. An attempt that ends without a whole answer, because it was
//! refused, failed or lost its client, frees the key: the next one is served as if it were the first.
//! A retry that is not served costs nothing and leaves a record like every request. Start with
//! [`begin`]; `table.rs` is what is remembered.

mod table;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use sha2::{Digest, Sha256};

use super::authenticate::Principal;
use super::relay::Answer;
use super::request_guard::RequestGuard;
use super::{AppState, standing};
use crate::clock::Clock;
use domain::endpoint::Endpoint;
use domain::idempotency::{Answered, IdempotencyDigest};
use domain::refusal::{Refusal, RequestFault};
use table::{Found, Table};

pub use table::{Kept, MAX_ENTRIES};

const HEADER: HeaderName = HeaderName::from_static("idempotency-key");
const MAX_KEY_BYTES: usize = 255;
/// The longest answer that is kept, in bytes.
const MAX_KEPT_BYTES: usize = 1024 * 1024;

/// What is known of requests that came with an idempotency key. One for the whole gateway.
pub struct Replays {
    table: Mutex<Table>,
    clock: Arc<dyn Clock>,
}

/// What a request is to its idempotency key.
pub enum Attempt {
    /// To be served, and kept if it has a key.
    First(Option<Box<Keeper>>),
    /// A retry, with the answer of the first attempt.
    Again(Arc<Kept>),
}

/// Keeps the answer to a first attempt. Dropping it before there is one frees the key.
pub struct Keeper {
    replays: Arc<Replays>,
    digest: IdempotencyDigest,
    /// What is there of a stream.
    taken: Vec<u8>,
    headers: HeaderMap,
    /// Whether the answer is too long to be kept.
    is_too_long: bool,
    is_answered: bool,
}

/// Finds out whether the request is a retry, and waits while an earlier attempt is under way.
///
/// # Errors
/// The key is malformed or another request's, or there is no answer to give.
pub async fn begin(
    app: &AppState,
    principal: &Principal,
    endpoint: Endpoint,
    headers: &HeaderMap,
    body: &Bytes,
    guard: &mut RequestGuard,
) -> Result<Attempt, Refusal> {
    let Some(key) = headers.get(&HEADER) else { return Ok(Attempt::First(None)) };
    let Some(replays) = &app.replays else { return Ok(Attempt::First(None)) };
    let key = key.as_bytes();
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        let message = format!("the header `Idempotency-Key` must have 1 to {MAX_KEY_BYTES} bytes");
        return Err(Refusal::invalid(RequestFault::InvalidValue, None, message));
    }
    let digest = IdempotencyDigest::of(&principal.key.id, key);
    let body = Sha256::new().chain_update(endpoint.as_str()).chain_update([0]).chain_update(body);
    let body = body.finalize().into();
    loop {
        let found = replays.table().begin(digest, body, guard.id(), replays.clock.now());
        return match found {
            Found::First => {
                guard.keyed(digest);
                Ok(Attempt::First(Some(Keeper::new(replays.clone(), digest))))
            }
            Found::Waiting(over) => {
                over.cancelled().await;
                continue;
            }
            Found::Streaming(first) => Err(Refusal::IdempotencyInProgress { first }),
            Found::Answered(first, Some(kept)) => {
                guard.noted([format!("idempotent_replay_of={first}")]);
                Ok(Attempt::Again(kept))
            }
            Found::Answered(first, None) => Err(Refusal::IdempotentAnswerGone { first }),
            Found::Other(first) => Err(Refusal::IdempotencyKeyReused { first }),
        };
    }
}

// === impl Replays ===

impl Replays {
    /// Remembers answered requests for `window`, those of an earlier process among them.
    pub fn new(window: Duration, answered: &[Answered], clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { table: Mutex::new(Table::new(window, answered)), clock })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Keeper ===

impl Keeper {
    fn new(replays: Arc<Replays>, digest: IdempotencyDigest) -> Box<Self> {
        let (taken, headers) = (Vec::new(), HeaderMap::new());
        let (is_too_long, is_answered) = (false, false);
        Box::new(Self { replays, digest, taken, headers, is_too_long, is_answered })
    }

    /// Keeps `answer`, a stream at its end.
    pub fn keep(mut self: Box<Self>, answer: &mut Answer) {
        match answer {
            Answer::Whole { headers, body } => {
                self.take_headers(headers);
                self.finish(body, false);
            }
            Answer::Stream { headers, relay } => {
                self.take_headers(headers);
                self.replays.table().stream(self.digest);
                relay.keep(self);
            }
            Answer::Again(_) => {}
        }
    }

    fn take_headers(&mut self, headers: &HeaderMap) {
        self.headers.clone_from(headers);
        standing::hide(&mut self.headers);
    }

    /// Takes the next bytes of a stream.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.is_too_long |= self.taken.len() + bytes.len() > MAX_KEPT_BYTES;
        if self.is_too_long {
            self.taken = Vec::new();
        } else {
            self.taken.extend_from_slice(bytes);
        }
    }

    /// Takes the last bytes of an answer.
    pub(super) fn finish(mut self, bytes: &[u8], stream: bool) {
        self.push(bytes);
        let headers = std::mem::take(&mut self.headers);
        // without the room that a stream was given to grow
        let body = Bytes::from(std::mem::take(&mut self.taken).into_boxed_slice());
        let kept = (!self.is_too_long).then(|| Arc::new(Kept { stream, headers, body }));
        self.replays.table().answer(self.digest, kept, self.replays.clock.now());
        self.is_answered = true;
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if !self.is_answered {
            self.replays.table().release(self.digest);
        }
    }
}
