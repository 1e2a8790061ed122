//! Sends a request upstream, to the next deployment when one fails before its answer begins.

use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};
use hyper::body::Incoming;

use super::request_guard::RequestGuard;
use super::{AppState, Fault, route, standing};
use crate::upstream::{UpstreamClient, UpstreamError};
use domain::model::Deployment;
use domain::refusal::Refusal;
use domain::upstream::Upstream;
use domain::wire::splice::{self, Edit};
use translate::report::{self, Loss, Report};

/// How many headers an answer has, at most, so that their map need not grow.
const HEADERS: usize = 12;
/// Bodies below this many bytes are put together anew where they change.
const SMALL_BODY: usize = 4 * 1024;

/// What is sent to one deployment: a body, and what must change in it.
pub struct Outgoing {
    /// The body.
    pub body: Bytes,
    /// In order, not overlapping.
    pub edits: Vec<Edit>,
}

impl Outgoing {
    /// Edits a small body at once. A client's has to be copied anyway, or what is kept of it would hold the
    /// connection's whole read buffer for as long as the answer takes; and it goes out in one piece.
    fn compact(self) -> Self {
        let is_our_own = self.edits.is_empty() && self.body.is_unique();
        if is_our_own || self.body.len() >= SMALL_BODY {
            return self;
        }
        Self { body: splice::join(&self.body, &self.edits), edits: Vec::new() }
    }
}

/// An answer that has begun.
pub struct Begun {
    /// Those of its headers that are the client's business.
    pub headers: HeaderMap,
    /// The body to read.
    pub body: Incoming,
    /// Who sends it.
    pub upstream_client: Arc<UpstreamClient>,
}

/// Tries `targets` in order until one answers; `outgoing` makes what each is sent, or says why it
/// cannot serve the request.
///
/// # Errors
/// The last target's, or that of the first one that is not worth a failover.
pub async fn forward(
    app: &AppState,
    targets: &[&Deployment],
    stream: bool,
    guard: &mut RequestGuard,
    mut outgoing: impl FnMut(&Upstream, &Deployment) -> Result<Outgoing, Refusal>,
) -> Result<Begun, Fault> {
    let mut fault = misconfigured("the model has no deployment").into();
    let mut tried = false;
    let permits = |target: &Deployment| {
        let catalogue = app.directory.catalogue();
        let upstream = catalogue.upstreams.get(&target.upstream);
        upstream
            .is_none_or(|upstream| app.upstream_clients.permits(upstream, app.clock.monotonic()))
    };
    for target in route::turns(targets, permits) {
        let found = app.directory.catalogue().upstreams.get(&target.upstream).cloned();
        let outcome = match found {
            None => Err(misconfigured("it was removed")),
            Some(upstream) => match outgoing(&upstream, target) {
                Err(refusal) => {
                    // what failed says more than what could not be asked
                    if !tried {
                        fault = refusal.into();
                    }
                    continue;
                }
                Ok(outgoing) => {
                    tried = true;
                    let outgoing = outgoing.compact();
                    guard.record_attempt(target, &outgoing.body)?;
                    app.ledger.synced().await.map_err(|_| Refusal::RecorderBehind)?;
                    attempt(app, &upstream, outgoing, stream, guard).await
                }
            },
        };
        match outcome {
            Ok(mut begun) => {
                guard.answered_by(begun.upstream_client.clone());
                standing::show(&mut begun.headers, guard.standing());
                report_cap(&mut begun, guard);
                return Ok(begun);
            }
            Err(error) => {
                let retryable = error.is_retryable();
                let source = std::error::Error::source(&error);
                tracing::warn!(request_id = %guard.id(), upstream = %target.upstream, %error, source, "a request got no answer from an upstream");
                fault = error.into();
                if !retryable {
                    break;
                }
            }
        }
    }
    Err(fault)
}

async fn attempt(
    app: &AppState,
    upstream: &Arc<Upstream>,
    outgoing: Outgoing,
    stream: bool,
    guard: &RequestGuard,
) -> Result<Begun, UpstreamError> {
    let upstream_client = app.upstream_clients.upstream_client(upstream, || {
        let credential = app.credentials.find(&upstream.name);
        credential.ok_or("its credential is not known yet")?.as_ref().clone()
    })?;
    let Outgoing { body, edits } = outgoing;
    let body_and_id = || (splice::splice(&body, &edits), guard.id_header());
    let sent_at = app.clock.monotonic();
    let sent = upstream_client.send(body_and_id).await;
    let checked = sent.and_then(|response| {
        check_kind(response.headers(), stream)?;
        Ok(response)
    });
    let now = app.clock.monotonic();
    match &checked {
        Err(UpstreamError::JournalUnavailable(_)) => {}
        Err(error) if error.is_upstream_fault() => {
            upstream_client.failed(error, app.clock.now(), now);
        }
        Ok(_) | Err(_) => upstream_client.answered(now.saturating_sub(sent_at), now),
    }
    let (head, body) = checked?.into_parts();
    Ok(Begun { headers: client_headers(&head.headers), body, upstream_client })
}

impl Begun {
    /// Tells the client in a header, and notes on the record, what was lost or mended.
    pub(super) fn report(&mut self, report: &Report, guard: &mut RequestGuard) {
        guard.noted(report.notes().iter().map(ToString::to_string));
        report_in(&mut self.headers, report);
    }
}

/// Adds the header that names what was lost or mended.
pub(super) fn report_in(headers: &mut HeaderMap, report: &Report) {
    if let Some(value) = report.header().and_then(|text| HeaderValue::try_from(text).ok()) {
        headers.append(report::HEADER, value);
    }
}

/// Says that the client asked for more output than its balance or its quotas pay for.
fn report_cap(begun: &mut Begun, guard: &mut RequestGuard) {
    if let Some(cap) = guard.output_cap() {
        let mut report = Report::default();
        report.add(Loss::OutputCapLowered, cap.to_string());
        begun.report(&report, guard);
    }
}

/// What a client may see of an upstream's headers: its time. Its rate limits are those of the gateway,
/// which has its own for its clients; cookies, the server's name and everything about the connection
/// stay here, too.
fn client_headers(upstream: &HeaderMap) -> HeaderMap {
    const SHOWN: HeaderName = HeaderName::from_static("openai-processing-ms");
    let mut headers = HeaderMap::with_capacity(HEADERS);
    if let Some(value) = upstream.get(&SHOWN) {
        headers.insert(SHOWN, value.clone());
    }
    headers
}

fn misconfigured(what: &str) -> UpstreamError {
    UpstreamError::Misconfigured(what.to_owned())
}

/// Refuses a page of HTML, and JSON in the place of a stream, whatever status they came with.
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
