//! One attempt: a request on its way to one deployment, up to the head of its answer.

use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::super::AppState;
use super::super::propagation::AttemptContext;
use super::Outgoing;
use crate::capture::CapturedRequest;
use crate::upstream::{AnswerBody, InFlight, SendStatus, UpstreamClient, UpstreamError};
use domain::id::AccountId;
use domain::model::Deployment;
use domain::upstream::CredentialIndex;
use domain::wire::splice;

/// The capacity of an answer's header map.
const HEADER_CAPACITY: usize = 12;

/// What all attempts of a request share.
pub(super) struct Sender<'a> {
    pub(super) app: &'a AppState,
    /// Whether the request asks for a stream.
    pub(super) stream: bool,
    pub(super) account: AccountId,
    /// The header with the request id.
    pub(super) id_header: HeaderValue,
    /// Captures the messages, if the key is captured.
    pub(super) capture: Option<Arc<CapturedRequest>>,
}

/// What the next attempt is made with.
pub(super) struct NextAttempt<'a> {
    pub(super) target: &'a Deployment,
    pub(super) upstream_client: Arc<UpstreamClient>,
    pub(super) credential: CredentialIndex,
}

/// One attempt. It borrows nothing from the request's state, so that the state can change, and another attempt begin,
/// while it is under way.
#[derive(Clone)]
pub(super) struct Attempt<'a> {
    pub(super) target: &'a Deployment,
    pub(super) upstream_client: Arc<UpstreamClient>,
    pub(super) credential: CredentialIndex,
    pub(super) send_status: SendStatus,
    /// The trace context that it sends to its upstream.
    context: Option<Box<AttemptContext>>,
    /// The monotonic time at which it began.
    began_at: Duration,
}

/// The answer of one upstream.
pub(super) struct UpstreamAnswer {
    pub(super) headers: HeaderMap,
    pub(super) body: AnswerBody,
    pub(super) upstream_client: Arc<UpstreamClient>,
    pub(super) in_flight: InFlight,
}

impl<'a> Attempt<'a> {
    /// Creates an attempt that begins now.
    pub(super) fn new(
        app: &AppState,
        next: NextAttempt<'a>,
        send_status: SendStatus,
        context: Option<Box<AttemptContext>>,
    ) -> Self {
        let NextAttempt { target, upstream_client, credential } = next;
        let began_at = app.clock.monotonic();
        Self { target, upstream_client, credential, send_status, context, began_at }
    }

    /// Returns the time since it began.
    pub(super) fn elapsed(&self, app: &AppState) -> Duration {
        app.clock.monotonic().saturating_sub(self.began_at)
    }

    /// Returns the trace context that it sends to its upstream.
    pub(super) fn context(&self) -> Option<&AttemptContext> {
        self.context.as_deref()
    }

    /// Returns the number of the credential; `None` if the upstream has no other one.
    pub(super) fn credential_number(&self) -> Option<u32> {
        self.upstream_client.credential_number(self.credential)
    }

    /// Sends the request and waits for the head of its answer.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request on its connection.
    ///
    /// # Errors
    /// The error of the upstream, without its credential.
    pub(super) async fn run(
        &self,
        sender: &Sender<'_>,
        outgoing: &Outgoing,
    ) -> Result<UpstreamAnswer, UpstreamError> {
        let Sender { app, stream, account, id_header, capture } = sender;
        let (upstream_client, credential) = (&self.upstream_client, self.credential);
        let in_flight = upstream_client.begin_request();
        let Outgoing { body, edits } = outgoing;
        if let Some(capture) = capture {
            capture.sent(upstream_client, splice::pieces(body, edits));
        }
        let body_and_id = |headers: &mut HeaderMap| {
            if let Some(context) = self.context() {
                context.headers.insert_into(headers);
            }
            (splice::splice(body, edits), id_header.clone())
        };
        let sent =
            upstream_client.send(Some(*account), credential, body_and_id, &self.send_status).await;
        let checked = sent.and_then(|response| {
            check_content_type(response.headers(), *stream)?;
            Ok(response)
        });
        let checked = checked.map_err(|error| upstream_client.redact(error));
        let now = app.clock.monotonic();
        match &checked {
            // The upstream had no part in it.
            Err(UpstreamError::JournalUnavailable(_) | UpstreamError::Overloaded) => {}
            Err(error) if error.is_upstream_fault() => {
                let at = app.clock.now();
                upstream_client.record_failure(&in_flight, credential, error, at, now);
            }
            Ok(_) | Err(_) => {
                let latency = now.saturating_sub(self.began_at);
                upstream_client.record_answer(&in_flight, credential, latency, now);
            }
        }
        if let (Some(capture), Err(error)) = (capture, &checked) {
            capture.failed(upstream_client, error.for_operators());
        }
        let (head, mut body) = checked?.into_parts();
        if let Some(capture) = capture {
            let capture = capture.answered(upstream_client, &head.headers);
            body = body.with_tap(Box::new(move |bytes| capture.push(bytes)));
        }
        let headers = client_headers(&head.headers, upstream_client);
        Ok(UpstreamAnswer { headers, body, upstream_client: upstream_client.clone(), in_flight })
    }
}

/// Returns the upstream headers that a client gets: its processing time, if it is a number that contains no credential.
/// Rate limits are those of the gateway; cookies, the server's name and connection headers are dropped.
fn client_headers(upstream: &HeaderMap, upstream_client: &UpstreamClient) -> HeaderMap {
    const PROCESSING_TIME: HeaderName = HeaderName::from_static("openai-processing-ms");
    let mut headers = HeaderMap::with_capacity(HEADER_CAPACITY);
    let value = upstream.get(&PROCESSING_TIME).filter(|value| {
        let text = value.to_str().unwrap_or_default();
        is_short_number(text) && !upstream_client.has_credential_in(text)
    });
    headers.extend(value.map(|value| (PROCESSING_TIME, value.clone())));
    headers
}

/// Returns whether a text is a decimal number without a sign and an exponent.
fn is_short_number(text: &str) -> bool {
    const MAX_LENGTH: usize = 15;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    text.len() <= MAX_LENGTH && is_digits(whole) && is_digits(fraction)
}

/// Rejects a successful answer whose `content-type` is neither absent nor that of the requested form: an event
/// stream, or JSON. HTML, and JSON instead of a stream, are the usual cases.
fn check_content_type(headers: &HeaderMap, stream: bool) -> Result<(), UpstreamError> {
    let wanted = if stream { "text/event-stream" } else { "application/json" };
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or(wanted);
    let start = kind.trim_start().as_bytes().get(..wanted.len());
    if start.is_some_and(|start| start.eq_ignore_ascii_case(wanted.as_bytes())) {
        return Ok(());
    }
    Err(UpstreamError::Invalid(format!(
        "its answer is `{}`, not `{wanted}`",
        kind.escape_default()
    )))
}
