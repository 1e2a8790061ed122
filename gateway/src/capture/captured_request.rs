//! What is read of one request: its messages for a capture, its text for its spans, or both.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, Method, StatusCode, Uri};
use jiff::Timestamp;

use super::content::Content;
use super::messages::Messages;
use super::redaction;
use crate::upstream::UpstreamClient;
use domain::id::{AccountId, RequestId};
use domain::traced_content::TracedContent;

/// A request whose messages are captured, or whose text is read.
pub struct CapturedRequest {
    id: RequestId,
    account: AccountId,
    arrived_at: Timestamp,
    /// Those that are kept, and the secrets of all.
    messages: Mutex<Messages>,
    kept: Kept,
}

/// What is kept of a request.
pub(super) enum Kept {
    /// The messages, for a capture.
    Messages,
    /// The text, for the spans.
    Content(ContentCell),
    /// Both.
    Both(ContentCell),
}

/// The text of a request; `None` once it was taken.
type ContentCell = Mutex<Option<Box<Content>>>;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// The request of the client.
    Received,
    /// A request to an upstream.
    Sent,
    /// The answer of an upstream, or why there was none.
    Answered,
    /// The answer to the client.
    Returned,
}

/// A captured message, without secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireMessage {
    /// What it is.
    pub kind: MessageKind,
    /// The name of the upstream that it was sent to or came from.
    pub upstream: Option<String>,
    /// The first line and the headers.
    pub head: Vec<String>,
    /// The body, or its beginning.
    pub body: String,
    /// The length of the whole body, in bytes.
    pub body_bytes: u64,
    /// The length of the part of the body that was kept, in bytes, before `[redacted]` replaced any of it.
    pub kept_bytes: u64,
}

/// Adds the rest of a body to a message.
#[derive(Clone)]
pub struct BodyCapture {
    request: Arc<CapturedRequest>,
    /// `None` if the message is not kept.
    index: Option<usize>,
    /// Whether it is the body of an upstream's answer, whose text is read for the spans, if they have any.
    is_content: bool,
}

// === impl CapturedRequest ===

impl CapturedRequest {
    pub(super) fn new(
        id: RequestId,
        account: AccountId,
        arrived_at: Timestamp,
        kept: Kept,
    ) -> Self {
        Self { id, account, arrived_at, messages: Mutex::default(), kept }
    }

    /// Returns the id of the request.
    pub fn id(&self) -> RequestId {
        self.id
    }

    /// Returns the account of the request.
    pub fn account(&self) -> AccountId {
        self.account
    }

    pub(super) fn arrived_at(&self) -> Timestamp {
        self.arrived_at
    }

    /// Captures the request of the client.
    pub fn received(
        self: &Arc<Self>,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: &[u8],
    ) {
        // A query may contain a secret.
        let first = format!("{method} {}", uri.path());
        self.add(MessageKind::Received, None, first, Some(headers)).push(body);
    }

    /// Captures a request to an upstream, whose body comes in `pieces`.
    pub fn sent<'a>(
        self: &Arc<Self>,
        upstream: &UpstreamClient,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) {
        let first = "POST chat/completions".to_owned();
        let body = self.add(MessageKind::Sent, Some(upstream), first, None);
        let pieces: Vec<_> = pieces.collect();
        for piece in &pieces {
            body.push(piece);
        }
        self.with_content(|content| content.read_request(&pieces));
    }

    /// Captures the head of an upstream's answer. Returns what captures its body.
    pub fn answered(
        self: &Arc<Self>,
        upstream: &UpstreamClient,
        headers: &HeaderMap,
    ) -> BodyCapture {
        let first = "200 OK".to_owned();
        let body = self.add(MessageKind::Answered, Some(upstream), first, Some(headers));
        self.with_content(Content::begin_answer);
        BodyCapture { is_content: true, ..body }
    }

    /// Captures why an upstream gave no answer.
    pub fn failed(self: &Arc<Self>, upstream: &UpstreamClient, reason: String) {
        self.add(MessageKind::Answered, Some(upstream), reason, None);
    }

    /// Captures the head of the answer to the client. Returns what captures its body.
    pub fn returned(self: &Arc<Self>, status: StatusCode, headers: &HeaderMap) -> BodyCapture {
        self.add(MessageKind::Returned, None, status.to_string(), Some(headers))
    }

    /// Returns the messages so far, without secrets.
    pub(super) fn messages(&self) -> Vec<WireMessage> {
        // Searched without the lock, which a request in progress takes for each piece of a body.
        let messages = self.lock().clone();
        messages.shown().collect()
    }

    /// Takes the text of the request and of its answer; `None` if it is not read, or if too much waits for its export.
    pub fn take_content(&self) -> Option<TracedContent> {
        let content = lock(self.content()?).take()?;
        content.finish(self.lock().secrets().to_vec())
    }

    fn content(&self) -> Option<&ContentCell> {
        match &self.kept {
            Kept::Content(content) | Kept::Both(content) => Some(content),
            Kept::Messages => None,
        }
    }

    fn with_content(&self, read: impl FnOnce(&mut Content)) {
        if let Some(slot) = self.content()
            && let Some(content) = lock(slot).as_deref_mut()
        {
            read(content);
        }
    }

    fn add(
        self: &Arc<Self>,
        kind: MessageKind,
        upstream: Option<&UpstreamClient>,
        first: String,
        headers: Option<&HeaderMap>,
    ) -> BodyCapture {
        let mut messages = self.lock();
        // Also those of a message that is not kept: a later one may contain them.
        if let Some(upstream) = upstream {
            messages.add_secrets(upstream.secrets());
        }
        let headers = headers.into_iter().flat_map(redaction::shown_headers);
        let upstream = upstream.map(UpstreamClient::name);
        let index = match self.kept {
            Kept::Messages | Kept::Both(_) => messages.push(kind, upstream, first, headers),
            Kept::Content(_) => None,
        };
        BodyCapture { request: self.clone(), index, is_content: false }
    }

    fn lock(&self) -> MutexGuard<'_, Messages> {
        lock(&self.messages)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl BodyCapture ===

impl BodyCapture {
    /// Captures the next bytes of the body, as far as there is room.
    pub fn push(&self, bytes: &[u8]) {
        if let Some(index) = self.index {
            self.request.lock().keep_body(index, bytes);
        }
        if self.is_content {
            self.request.with_content(|content| content.read_answer(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn request() -> Arc<CapturedRequest> {
        let account = AccountId(Uuid::nil());
        let (id, arrived_at) = (RequestId(Uuid::nil()), Timestamp::UNIX_EPOCH);
        Arc::new(CapturedRequest::new(id, account, arrived_at, Kept::Messages))
    }

    #[test]
    fn a_message_has_no_values_of_secret_headers_and_no_query() {
        let request = request();
        let mut headers = HeaderMap::new();
        headers.insert("authorization", "Bearer sk-tg-0123456789abcdef".parse().unwrap());
        headers.insert("content-type", "application/json".parse().unwrap());
        let uri = "/v1/responses?key=secret".parse().unwrap();
        request.received(&Method::POST, &uri, &headers, br#"{"k":"sk-0123456789abcdefgh"}"#);
        let [message] = &request.messages()[..] else { panic!("one message") };
        assert_eq!(
            message.head,
            ["POST /v1/responses", "authorization: [redacted]", "content-type: application/json"]
        );
        assert_eq!(message.body, r#"{"k":"[redacted]"}"#);
        assert_eq!(message.kept_bytes, message.body_bytes, "it was not cut");
    }
}
