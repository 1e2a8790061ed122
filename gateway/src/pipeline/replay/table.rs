//! The requests with an idempotency key. Pure: time is an argument.
//!
//! Bounded in number and in bytes; the oldest are dropped first. Start with [`Table::begin`].

use std::collections::hash_map::Entry as Slot;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

use domain::id::RequestId;
use domain::idempotency::{Answered, BodyDigest, IdempotencyDigest, StoredAnswer};

/// The number of answered requests that are remembered; at about 300 bytes each, 30 MB.
pub const MAX_ENTRIES: usize = 100_000;
/// The total of the answers that are kept, in bytes.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// An answer that can be replayed.
#[derive(Debug, PartialEq, Eq)]
pub struct RecordedAnswer {
    /// Whether it is a stream.
    pub stream: bool,
    /// Additional headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: bytes::Bytes,
}

impl RecordedAnswer {
    /// Returns the answer for other gateways. Headers are those of HTTP texts.
    pub(super) fn stored(&self) -> StoredAnswer {
        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        };
        let headers = self.headers.iter().filter_map(text).collect();
        StoredAnswer { stream: self.stream, headers, body: self.body.clone() }
    }

    /// Returns the answer of another gateway.
    pub(super) fn of(StoredAnswer { stream, headers, body }: StoredAnswer) -> Self {
        let header = |(name, value): (String, String)| {
            Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
        };
        Self { stream, headers: headers.into_iter().filter_map(header).collect(), body }
    }
}

/// A request with an idempotency key that is in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyedRequest {
    /// The digest of the idempotency key.
    pub digest: IdempotencyDigest,
    /// The digest of its endpoint and body.
    pub body: BodyDigest,
    /// The request.
    pub request: RequestId,
}

/// The requests with an idempotency key.
#[derive(Debug)]
pub(super) struct Table {
    window: SignedDuration,
    entries: HashMap<IdempotencyDigest, Entry>,
    /// Answered requests, oldest first.
    answered: VecDeque<(Timestamp, IdempotencyDigest)>,
    /// Answered requests whose answers are kept, oldest first.
    kept: VecDeque<IdempotencyDigest>,
    kept_bytes: usize,
}

/// A request, from its first attempt on.
#[derive(Debug)]
struct Entry {
    /// The id of the first attempt.
    id: RequestId,
    /// `None` if an earlier process answered it.
    body: Option<BodyDigest>,
    state: EntryState,
}

#[derive(Debug)]
enum EntryState {
    /// In progress; the token is cancelled on the next state.
    Waiting(CancellationToken),
    /// The answer is a stream whose head was sent to its client.
    Streaming,
    /// Answered completely.
    Answered(Option<Arc<RecordedAnswer>>),
}

/// The role of a request.
#[derive(Debug)]
pub(super) enum Role {
    /// A first attempt, which must be [answered](Table::answer) or [released](Table::release).
    First,
    /// A retry of one that is in progress until this is cancelled.
    Waiting(CancellationToken),
    /// A retry of one whose answer is being streamed.
    Streaming(RequestId),
    /// A retry of an answered one, with the answer if it is kept.
    Answered(RequestId, Option<Arc<RecordedAnswer>>),
    /// A different request with the same key.
    KeyReused(RequestId),
}

// === impl Table ===

impl Table {
    /// Creates a table that remembers answered requests for `window`, beginning with `answered`, oldest
    /// first.
    pub(super) fn new(window: Duration, answered: &[Answered]) -> Self {
        let mut table = Self {
            window: SignedDuration::try_from(window).unwrap_or(SignedDuration::MAX),
            entries: HashMap::new(),
            answered: VecDeque::new(),
            kept: VecDeque::new(),
            kept_bytes: 0,
        };
        // If a key was answered more than once, the last answer counts.
        for Answered { digest, id, at } in answered.iter().rev() {
            if let Slot::Vacant(slot) = table.entries.entry(*digest) {
                slot.insert(Entry { id: *id, body: None, state: EntryState::Answered(None) });
                table.answered.push_front((*at, *digest));
            }
        }
        table.trim();
        table
    }

    /// Determines the role of request `id` that arrived at `now`.
    pub(super) fn begin(
        &mut self,
        digest: IdempotencyDigest,
        body: BodyDigest,
        id: RequestId,
        now: Timestamp,
    ) -> Role {
        self.expire(now);
        let entry = match self.entries.entry(digest) {
            Slot::Occupied(entry) => entry.into_mut(),
            Slot::Vacant(slot) => {
                let state = EntryState::Waiting(CancellationToken::new());
                slot.insert(Entry { id, body: Some(body), state });
                return Role::First;
            }
        };
        if entry.body.is_some_and(|first| first != body) {
            return Role::KeyReused(entry.id);
        }
        match &entry.state {
            EntryState::Waiting(over) => Role::Waiting(over.clone()),
            EntryState::Streaming => Role::Streaming(entry.id),
            EntryState::Answered(kept) => Role::Answered(entry.id, kept.clone()),
        }
    }

    /// Returns the first attempts that are in progress.
    pub(super) fn in_progress(&self) -> Vec<KeyedRequest> {
        let in_progress = |(digest, entry): (&IdempotencyDigest, &Entry)| match entry.state {
            EntryState::Waiting(_) | EntryState::Streaming => {
                Some(KeyedRequest { digest: *digest, body: entry.body?, request: entry.id })
            }
            EntryState::Answered(_) => None,
        };
        self.entries.iter().filter_map(in_progress).collect()
    }

    /// Records that the answer to a first attempt is a stream.
    pub(super) fn stream(&mut self, digest: IdempotencyDigest) {
        if let Some(entry) = self.entries.get_mut(&digest) {
            entry.state.advance(EntryState::Streaming);
        }
    }

    /// Records that a first attempt ended without a complete answer; the next attempt is a first one as well.
    pub(super) fn release(&mut self, digest: IdempotencyDigest) {
        if let Some(entry) = self.entries.remove(&digest) {
            entry.state.wake_waiters();
        }
    }

    /// Records the complete answer to a first attempt at `now`.
    pub(super) fn answer(
        &mut self,
        digest: IdempotencyDigest,
        kept: Option<Arc<RecordedAnswer>>,
        now: Timestamp,
    ) {
        let Some(entry) = self.entries.get_mut(&digest) else { return };
        if let Some(kept) = &kept {
            self.kept_bytes += kept.body.len();
            self.kept.push_back(digest);
        }
        entry.state.advance(EntryState::Answered(kept));
        self.answered.push_back((now, digest));
        self.trim();
    }

    /// Drops requests that were answered more than `window` ago.
    fn expire(&mut self, now: Timestamp) {
        while let Some((at, _)) = self.answered.front()
            && now.duration_since(*at) >= self.window
        {
            self.forget_oldest();
        }
    }

    fn trim(&mut self) {
        while self.answered.len() > MAX_ENTRIES {
            self.forget_oldest();
        }
        while self.kept_bytes > MAX_BYTES {
            self.drop_oldest_answer();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((_, digest)) = self.answered.pop_front() else { return };
        if self.kept.front() == Some(&digest) {
            self.drop_oldest_answer();
        }
        self.entries.remove(&digest);
    }

    fn drop_oldest_answer(&mut self) {
        let Some(digest) = self.kept.pop_front() else { return };
        if let Some(Entry { state: EntryState::Answered(kept), .. }) = self.entries.get_mut(&digest)
            && let Some(kept) = kept.take()
        {
            self.kept_bytes -= kept.body.len();
        }
    }
}

// === impl EntryState ===

impl EntryState {
    /// Moves to `next` and wakes the waiting requests.
    fn advance(&mut self, next: Self) {
        self.wake_waiters();
        *self = next;
    }

    /// Wakes the requests that wait for the first attempt; they look up its entry again.
    fn wake_waiters(&self) {
        if let Self::Waiting(over) = self {
            over.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const WINDOW: Duration = Duration::from_mins(10);
    const BODY: BodyDigest = [1; 32];

    fn table() -> Table {
        Table::new(WINDOW, &[])
    }

    fn digest(number: usize) -> IdempotencyDigest {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&number.to_be_bytes());
        IdempotencyDigest(digest)
    }

    fn id(number: u128) -> RequestId {
        RequestId(Uuid::from_u128(number))
    }

    fn at(minute: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minute)
    }

    fn kept(length: usize) -> Arc<RecordedAnswer> {
        let body = vec![b'a'; length].into();
        Arc::new(RecordedAnswer { stream: false, headers: HeaderMap::new(), body })
    }

    #[test]
    fn a_retry_waits_for_the_first_attempt_and_gets_its_answer() {
        let mut table = table();
        assert!(matches!(table.begin(digest(1), BODY, id(1), at(0)), Role::First));
        let Role::Waiting(over) = table.begin(digest(1), BODY, id(2), at(0)) else { panic!() };
        assert!(!over.is_cancelled());
        table.answer(digest(1), Some(kept(3)), at(1));
        assert!(over.is_cancelled());
        let Role::Answered(first, answer) = table.begin(digest(1), BODY, id(2), at(10)) else {
            panic!()
        };
        assert_eq!((first, answer), (id(1), Some(kept(3))));
        assert!(matches!(table.begin(digest(1), BODY, id(3), at(11)), Role::First), "it is over");
    }

    #[test]
    fn an_attempt_without_an_answer_leaves_the_key_to_the_next_one() {
        let mut table = table();
        table.begin(digest(1), BODY, id(1), at(0));
        let Role::Waiting(over) = table.begin(digest(1), BODY, id(2), at(0)) else { panic!() };
        table.release(digest(1));
        assert!(over.is_cancelled());
        assert!(matches!(table.begin(digest(1), [2; 32], id(2), at(0)), Role::First));
        table.stream(digest(1));
        let found = table.begin(digest(1), [2; 32], id(3), at(0));
        assert!(matches!(found, Role::Streaming(first) if first == id(2)), "{found:?}");
        table.release(digest(1));
        assert!(matches!(table.begin(digest(1), BODY, id(4), at(0)), Role::First));
    }

    #[test]
    fn another_body_is_another_request() {
        let mut table = table();
        table.begin(digest(1), BODY, id(1), at(0));
        let found = table.begin(digest(1), [2; 32], id(2), at(0));
        assert!(matches!(found, Role::KeyReused(first) if first == id(1)), "{found:?}");
    }

    #[test]
    fn what_an_earlier_process_answered_is_known_without_its_answer() {
        let earlier = Answered { digest: digest(1), id: id(1), at: at(0) };
        let mut table = Table::new(WINDOW, &[earlier]);
        let found = table.begin(digest(1), BODY, id(2), at(9));
        assert!(matches!(found, Role::Answered(first, None) if first == id(1)), "{found:?}");
        assert!(matches!(table.begin(digest(1), BODY, id(2), at(10)), Role::First));
    }

    #[test]
    fn of_two_earlier_answers_the_last_one_counts() {
        let earlier =
            |number, minute| Answered { digest: digest(1), id: id(number), at: at(minute) };
        let mut table = Table::new(WINDOW, &[earlier(1, 0), earlier(2, 5)]);
        let found = table.begin(digest(1), BODY, id(3), at(14));
        assert!(matches!(found, Role::Answered(first, None) if first == id(2)), "{found:?}");
        assert!(matches!(table.begin(digest(1), BODY, id(3), at(15)), Role::First));
        let found = table.begin(digest(1), BODY, id(4), at(60));
        assert!(matches!(found, Role::Waiting(_)), "what is under way is not forgotten: {found:?}");
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_goes_first() {
        let mut table = table();
        let large = MAX_BYTES / 4;
        for number in 0..=MAX_ENTRIES {
            table.begin(digest(number), BODY, id(1), at(0));
            let is_large = number >= MAX_ENTRIES - 5;
            let kept = kept(if is_large { large } else { 0 });
            table.answer(digest(number), Some(kept), at(0));
        }
        assert_eq!((table.entries.len(), table.answered.len()), (MAX_ENTRIES, MAX_ENTRIES));
        assert!(table.kept_bytes <= MAX_BYTES);
        let mut answer = |number| match table.begin(digest(number), BODY, id(1), at(0)) {
            Role::Answered(_, kept) => kept.map(|kept| kept.body.len()),
            other => panic!("{number}: {other:?}"),
        };
        let newest = [4, 3, 2, 1, 0].map(|back| answer(MAX_ENTRIES - back));
        assert_eq!(newest, [None, Some(large), Some(large), Some(large), Some(large)]);
        assert!(matches!(table.begin(digest(0), BODY, id(1), at(0)), Role::First));
        table.expire(at(10));
        assert_eq!((table.kept_bytes, table.kept.len()), (0, 0));
    }
}
