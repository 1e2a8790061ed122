//! Sends a request upstream, and to the next deployment if one fails before its answer begins.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::admit::AdmittedRequest;
use super::forwarded_request::{ForwardedRequest, failed_attempt_note};
use super::{AppState, Fault, rate_limit_headers};
use crate::route;
use crate::upstream::{AnswerBody, InFlight, TriedCredentials, UpstreamClient, UpstreamError};
use domain::model::{Deployment, Model};
use domain::record::ServedBy;
use domain::refusal::Refusal;
use domain::upstream::{CredentialIndex, Upstream};
use domain::wire::conversation::ConversationKey;
use domain::wire::splice::{self, Edit};
use translate::report::{self, Loss, LossReport};

/// The capacity of an answer's header map.
const HEADER_CAPACITY: usize = 12;
/// Bodies below this length are copied before they are sent, with their edits applied, in bytes; see
/// [`Outgoing::compact`].
const MAX_COMPACTED_BYTES: usize = 4 * 1024;

/// The request for one deployment: a body and the edits to it.
pub struct Outgoing {
    /// The body.
    pub body: Bytes,
    /// The edits, in order and not overlapping.
    pub edits: Vec<Edit>,
}

impl Outgoing {
    /// Applies the edits to a small body at once. A small body of a client must be copied anyway, or it would
    /// keep the connection's whole read buffer alive for as long as the answer takes; and it is then sent in
    /// one piece.
    fn compact(self) -> Self {
        let is_our_own = self.edits.is_empty() && self.body.is_unique();
        if is_our_own || self.body.len() >= MAX_COMPACTED_BYTES {
            return self;
        }
        Self { body: splice::join(&self.body, &self.edits), edits: Vec::new() }
    }
}

/// An answer that has begun.
pub struct BegunAnswer {
    /// The request.
    pub request: Box<ForwardedRequest>,
    /// The headers that the client gets.
    pub headers: HeaderMap,
    /// The body to read.
    pub body: AnswerBody,
    /// The client of the upstream that answers.
    pub upstream_client: Arc<UpstreamClient>,
}

/// A request that no upstream answered.
pub struct ForwardError {
    /// The reason.
    pub fault: Fault,
    /// The request.
    pub request: Box<ForwardedRequest>,
}

/// The answer of one upstream.
struct UpstreamAnswer {
    headers: HeaderMap,
    body: AnswerBody,
    upstream_client: Arc<UpstreamClient>,
    in_flight: InFlight,
}

/// A request that is being forwarded.
struct Forwarding<'a> {
    app: &'a AppState,
    /// Whether the request asks for a stream.
    stream: bool,
    request: &'a mut ForwardedRequest,
    /// The note about the last attempt if it failed and no other one has begun.
    failed: Option<String>,
}

/// Returns the deployments of `model` in the order in which to try them. `conversation` is called only if the
/// model's routing depends on it.
pub fn targets<'a>(
    app: &AppState,
    model: &'a Model,
    conversation: impl FnOnce() -> Option<ConversationKey>,
) -> Vec<&'a Deployment> {
    let load = |target: &Deployment| {
        let catalogue = app.directory.catalogue();
        let upstream = catalogue.upstreams.get(&target.upstream);
        let load = |upstream| app.upstream_clients.load(upstream, app.clock.monotonic());
        upstream.map(load).unwrap_or_default()
    };
    route::order(model, load, conversation, app.entropy.as_ref())
}

/// Tries `targets` in order until one answers. `outgoing` builds the request for each, or returns why it
/// cannot serve it.
///
/// # Errors
/// The error of the last target that was tried; it is the first one whose error does not justify a failover,
/// if there is one. If none was tried, the reason why the last target cannot be used.
pub async fn forward(
    app: &AppState,
    targets: &[&Deployment],
    stream: bool,
    admitted: AdmittedRequest,
    outgoing: impl FnMut(&Upstream, &Deployment) -> Result<Outgoing, Refusal>,
) -> Result<BegunAnswer, ForwardError> {
    let lowered_cap = admitted.output_cap();
    let mut request = ForwardedRequest::new(admitted);
    let mut forwarding = Forwarding { app, stream, request: &mut request, failed: None };
    let answer = match forwarding.try_targets(targets, outgoing).await {
        Ok(answer) => answer,
        Err(fault) => return Err(ForwardError { fault, request }),
    };
    let UpstreamAnswer { mut headers, body, upstream_client, in_flight } = answer;
    request.answered_by(upstream_client.clone(), in_flight);
    rate_limit_headers::insert(&mut headers, request.limit_status());
    let mut begun = BegunAnswer { request, headers, body, upstream_client };
    if let Some(cap) = lowered_cap {
        let mut report = LossReport::default();
        report.add(Loss::OutputCapLowered, cap.to_string());
        begun.report(&report);
    }
    Ok(begun)
}

impl Forwarding<'_> {
    async fn try_targets(
        &mut self,
        targets: &[&Deployment],
        mut outgoing: impl FnMut(&Upstream, &Deployment) -> Result<Outgoing, Refusal>,
    ) -> Result<UpstreamAnswer, Fault> {
        let app = self.app;
        let mut fault = misconfigured("the model has no deployment").into();
        let mut tried = false;
        let is_available = |target: &Deployment| {
            let catalogue = app.directory.catalogue();
            let upstream = catalogue.upstreams.get(&target.upstream);
            upstream.is_none_or(|upstream| {
                app.upstream_clients.permits(upstream, app.clock.monotonic())
            })
        };
        for target in route::attempt_order(targets, is_available) {
            let found = app.directory.catalogue().upstreams.get(&target.upstream).cloned();
            let usable = found.ok_or_else(|| Fault::from(misconfigured("it was removed")));
            let usable = usable.and_then(|upstream| {
                let outgoing = outgoing(&upstream, target)?;
                Ok((upstream, outgoing.compact()))
            });
            let (upstream, outgoing) = match usable {
                Ok(usable) => usable,
                Err(unusable) => {
                    // The error of a tried target says more than that of one that cannot be used.
                    if !tried {
                        fault = unusable;
                    }
                    continue;
                }
            };
            tried = true;
            match self.try_target(&upstream, target, &outgoing).await {
                Ok(answer) => return Ok(answer),
                Err(Fault::Upstream(error)) if error.is_retryable() => fault = error.into(),
                Err(last) => return Err(last),
            }
        }
        Err(fault)
    }

    /// Tries one target, and again with other credentials of its upstream if one is refused.
    ///
    /// # Errors
    /// The error of the upstream, or a refusal if the request was not sent.
    async fn try_target(
        &mut self,
        upstream: &Arc<Upstream>,
        target: &Deployment,
        outgoing: &Outgoing,
    ) -> Result<UpstreamAnswer, Fault> {
        let app = self.app;
        let secrets = || app.credentials.resolved(upstream);
        let upstream_client = match app.upstream_clients.upstream_client(upstream, secrets) {
            Ok(upstream_client) => upstream_client,
            Err(error) => {
                self.begin_attempt(target, None, outgoing).await?;
                self.end_attempt(target, None, &error, Duration::ZERO);
                return Err(error.into());
            }
        };
        let mut credential = upstream_client.choose_credential(app.clock.monotonic());
        let mut tried = TriedCredentials::default();
        loop {
            let number = upstream_client.credential_number(credential);
            self.begin_attempt(target, number, outgoing).await?;
            let began_at = app.clock.monotonic();
            let answer = self.attempt(&upstream_client, credential, outgoing).await;
            self.request.note_lost_attempt();
            let error = match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let now = app.clock.monotonic();
            self.end_attempt(target, number, &error, now.saturating_sub(began_at));
            tried.insert(credential);
            match upstream_client.choose_next_credential(tried, &error, now) {
                Some(next) => credential = next,
                None => return Err(error.into()),
            }
        }
    }

    /// Records an attempt that is about to begin, and the one that failed before it. The last attempt is what the rest
    /// of the record describes.
    async fn begin_attempt(
        &mut self,
        target: &Deployment,
        credential: Option<u32>,
        outgoing: &Outgoing,
    ) -> Result<(), Refusal> {
        self.request.open.add_notes(self.failed.take());
        self.request.record_attempt(target, credential, &outgoing.body)?;
        self.app.ledger.sync_journal().await.map_err(|_| Refusal::RecorderBehind)
    }

    /// Logs an attempt that failed, and keeps the note about it.
    fn end_attempt(
        &mut self,
        target: &Deployment,
        credential: Option<u32>,
        error: &UpstreamError,
        took: Duration,
    ) {
        let (request_id, upstream) = (self.request.id(), &target.upstream);
        let source = std::error::Error::source(error);
        tracing::warn!(%request_id, %upstream, credential, %error, source, "a request got no answer from an upstream");
        let target = ServedBy::from(target);
        self.failed = Some(failed_attempt_note(&target, credential, &error.label(), took));
    }

    async fn attempt(
        &self,
        upstream_client: &Arc<UpstreamClient>,
        credential: CredentialIndex,
        outgoing: &Outgoing,
    ) -> Result<UpstreamAnswer, UpstreamError> {
        let (app, request) = (self.app, &*self.request);
        let upstream_client = upstream_client.clone();
        let in_flight = upstream_client.begin_request();
        let Outgoing { body, edits } = outgoing;
        let body_and_id = || (splice::splice(body, edits), request.open.id_header());
        let sent_at = app.clock.monotonic();
        let (account, status) = (Some(request.open.account()), &request.send_status);
        let sent = upstream_client.send(account, credential, body_and_id, status).await;
        let checked = sent.and_then(|response| {
            check_kind(response.headers(), self.stream)?;
            Ok(response)
        });
        let checked = checked.map_err(|error| upstream_client.redact(error));
        let now = app.clock.monotonic();
        match &checked {
            // The upstream had no part in it.
            Err(UpstreamError::JournalUnavailable(_) | UpstreamError::Overloaded) => {}
            Err(error) if error.is_upstream_fault() => {
                upstream_client.record_failure(credential, error, app.clock.now(), now);
            }
            Ok(_) | Err(_) => {
                upstream_client.record_answer(credential, now.saturating_sub(sent_at), now);
            }
        }
        let (head, body) = checked?.into_parts();
        let headers = client_headers(&head.headers, &upstream_client);
        Ok(UpstreamAnswer { headers, body, upstream_client, in_flight })
    }
}

impl BegunAnswer {
    /// Reports losses in translation to the client in a header, and on the record.
    pub(super) fn report(&mut self, report: &LossReport) {
        self.request.open.add_notes(report.notes().iter().map(ToString::to_string));
        report_in(&mut self.headers, report);
    }
}

/// Adds the header that lists losses in translation.
pub(super) fn report_in(headers: &mut HeaderMap, report: &LossReport) {
    if let Some(value) = report.header().and_then(|text| HeaderValue::try_from(text).ok()) {
        headers.append(report::HEADER, value);
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

fn misconfigured(what: &str) -> UpstreamError {
    UpstreamError::Misconfigured(what.to_owned())
}

/// Rejects a successful answer whose `content-type` is neither absent nor that of the requested form: an event
/// stream, or JSON. HTML, and JSON instead of a stream, are the usual cases.
fn check_kind(headers: &HeaderMap, stream: bool) -> Result<(), UpstreamError> {
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
