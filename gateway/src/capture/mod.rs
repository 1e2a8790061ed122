//! Captures of requests for debugging: for a while, what the requests of a key contained on each side of the gateway.
//!
//! An operator starts a capture of a key, and reads the captured messages by the id of the request. They are in the
//! memory of the gateway that served the request, bounded in size and number, and forgotten an hour after they arrived.
//! Values of headers are kept only of those that carry no secret, and what looks like a key is removed from bodies when
//! they are read. While no capture is active, a request reads one atomic.
//!
//! The same taps read the text of a request and of its answer for the spans of a key that has opted in
//! ([`CapturedRequest::take_content`]), which is kept only until the request has ended.

mod captured_request;
mod content;
mod messages;
mod redaction;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Mutex as AsyncMutex;

use self::captured_request::Kept;
use self::content::Content;
use crate::memory_budget::MemoryGuard;
use crate::offload::resume_panic;
use domain::id::{AccountId, KeyId, RequestId};
use domain::key::KeyDigest;
use domain::traced_content::ContentBudget;

pub use captured_request::{BodyCapture, CapturedRequest, MessageKind, WireMessage};
pub use content::{Messages, without_secrets};

/// The number of keys that are captured at a time.
const MAX_KEYS: usize = 16;
/// The number of requests that are kept; the oldest is forgotten first. With the bound on each, they take about
/// 16 MiB.
const MAX_REQUESTS: usize = 64;
/// How long a captured request is kept.
const RETENTION: SignedDuration = SignedDuration::from_hours(1);
/// The length of the texts of ended requests that wait for the recorder and the collector, in bytes: less than the 4 MiB
/// that a collector takes at once. Further requests have none.
const MAX_WAITING_CONTENT: usize = 2 * 1024 * 1024;

/// The captures of this gateway.
pub struct Captures {
    /// The number of keys in `state`.
    active: AtomicUsize,
    state: Mutex<State>,
    waiting_content: Arc<ContentBudget>,
    /// Held while the messages of a request are searched for secrets.
    search_lock: Arc<AsyncMutex<()>>,
}

#[derive(Default)]
struct State {
    /// The captured keys, and the end of their captures.
    keys: HashMap<KeyId, Timestamp, RandomState>,
    /// In the order of their arrival.
    requests: VecDeque<Arc<CapturedRequest>>,
}

/// As many keys are captured as may be.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{MAX_KEYS} keys are captured already; wait until a capture has ended")]
pub struct TooManyCapturesError;

// === impl Captures ===

impl Default for Captures {
    fn default() -> Self {
        let waiting_content = ContentBudget::new(MAX_WAITING_CONTENT);
        Self {
            active: AtomicUsize::default(),
            state: Mutex::default(),
            waiting_content,
            search_lock: Arc::default(),
        }
    }
}

impl Captures {
    /// Captures the requests of `key` that arrive before `until`; replaces an earlier end.
    ///
    /// # Errors
    /// Too many keys are captured.
    pub fn start(
        &self,
        key: KeyId,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<(), TooManyCapturesError> {
        let mut state = self.purged(now);
        if state.keys.len() >= MAX_KEYS && !state.keys.contains_key(&key) {
            return Err(TooManyCapturesError);
        }
        state.keys.insert(key, until);
        self.active.store(state.keys.len(), Ordering::Relaxed);
        Ok(())
    }

    /// Begins the capture of a request if its key is captured, and begins to read its text if there is a `traced_key`: the
    /// key that has opted in, with a guard of working memory. `None` if neither.
    pub fn begin(
        &self,
        key: &KeyId,
        account: AccountId,
        id: RequestId,
        now: Timestamp,
        traced_key: Option<(KeyDigest, MemoryGuard)>,
    ) -> Option<Arc<CapturedRequest>> {
        let content = traced_key.map(|(key, memory)| {
            let content = Content::new(key, memory, self.waiting_content.clone());
            Mutex::new(Some(Box::new(content)))
        });
        let request = |kept| Arc::new(CapturedRequest::new(id, account, now, kept));
        if self.active.load(Ordering::Relaxed) == 0 {
            return content.map(Kept::Content).map(request);
        }
        let mut state = self.purged(now);
        if !state.keys.contains_key(key) {
            return content.map(Kept::Content).map(request);
        }
        let request = request(content.map_or(Kept::Messages, Kept::Both));
        if state.requests.len() >= MAX_REQUESTS {
            state.requests.pop_front();
        }
        state.requests.push_back(request.clone());
        Some(request)
    }

    /// Returns a captured request; `None` if it was not captured, or was forgotten.
    pub fn find(&self, id: RequestId, now: Timestamp) -> Option<Arc<CapturedRequest>> {
        self.purged(now).requests.iter().find(|request| request.id() == id).cloned()
    }

    /// Returns the messages of a captured request so far, without secrets. To remove them takes long; it is done on a
    /// blocking thread, for one request at a time.
    pub async fn messages_of(&self, request: Arc<CapturedRequest>) -> Vec<WireMessage> {
        let guard = self.search_lock.clone().lock_owned().await;
        let searching = tokio::task::spawn_blocking(move || {
            let _guard = guard;
            request.messages()
        });
        match searching.await {
            Ok(messages) => messages,
            Err(error) => {
                resume_panic(error);
                // The runtime ends, and this task with it.
                std::future::pending().await
            }
        }
    }

    /// Forgets what has expired.
    pub fn purge(&self, now: Timestamp) {
        drop(self.purged(now));
    }

    fn purged(&self, now: Timestamp) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.keys.retain(|_, until| now < *until);
        self.active.store(state.keys.len(), Ordering::Relaxed);
        // A clock that was set back leaves none for longer.
        state.requests.retain(|request| {
            let age = now.duration_since(request.arrived_at());
            age < RETENTION && age > -RETENTION
        });
        state
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    fn id(number: u128) -> RequestId {
        RequestId(Uuid::from_u128(number))
    }

    const ACCOUNT: AccountId = AccountId(Uuid::nil());

    #[test]
    fn requests_of_the_key_are_captured_until_the_end_and_forgotten_after_an_hour() {
        let captures = Captures::default();
        let (key, other) = (KeyId::new("a"), KeyId::new("b"));
        let begin = |key: &KeyId, number, minute| {
            captures.begin(key, ACCOUNT, id(number), at(minute), None).is_some()
        };
        assert!(!begin(&key, 1, 0));
        captures.start(key.clone(), at(10), at(0)).unwrap();
        assert!(begin(&key, 2, 9) && !begin(&other, 3, 9) && !begin(&key, 4, 10));
        assert_eq!(captures.active.load(Ordering::Relaxed), 0);
        assert!(captures.find(id(2), at(68)).is_some() && captures.find(id(3), at(68)).is_none());
        captures.purge(at(69));
        assert!(captures.state.lock().unwrap().requests.is_empty());
    }

    #[test]
    fn the_numbers_of_keys_and_requests_are_bounded() {
        let captures = Captures::default();
        let key = |number: usize| KeyId::new(number.to_string());
        for number in 0..MAX_KEYS {
            captures.start(key(number), at(10), at(0)).unwrap();
        }
        captures.start(key(0), at(20), at(0)).unwrap();
        assert_eq!(captures.start(key(MAX_KEYS), at(10), at(0)), Err(TooManyCapturesError));
        for number in 0..=MAX_REQUESTS as u128 {
            assert!(captures.begin(&key(0), ACCOUNT, id(number), at(1), None).is_some());
        }
        assert!(captures.find(id(0), at(1)).is_none() && captures.find(id(1), at(1)).is_some());
        // The first one has a later end.
        captures.start(key(MAX_KEYS), at(30), at(10)).unwrap();
    }
}
