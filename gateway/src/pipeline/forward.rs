//! Sends a request upstream, to the next deployment when one fails before its answer begins.

use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};
use hyper::body::Incoming;

use super::tally::Tally;
use super::{Fault, Gate, route, standing};
use crate::upstream::{Remote, UpstreamError};
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
    pub remote: Arc<Remote>,
}

/// Tries `targets` in order until one answers; `outgoing` makes what each is sent, or says why it
/// cannot serve the request.
///
/// # Errors
/// The last target's, or that of the first one that is not worth a failover.
pub async fn forward(
    gate: &Gate,
    targets: &[&Deployment],
    stream: bool,
    tally: &mut Tally,
    mut outgoing: impl FnMut(&Upstream, &Deployment) -> Result<Outgoing, Refusal>,
) -> Result<Begun, Fault> {
    let mut fault = misconfigured("the model has no deployment").into();
    let mut tried = false;
    let permits = |target: &Deployment| {
        let catalogue = gate.directory.catalogue();
        let upstream = catalogue.upstreams.get(&target.upstream);
        upstream.is_none_or(|upstream| gate.fleet.permits(upstream, gate.clock.monotonic()))
    };
    for target in route::turns(targets, permits) {
        let found = gate.directory.catalogue().upstreams.get(&target.upstream).cloned();
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
                    tally.goes_to(target, &outgoing.body)?;
                    gate.ledger.synced().await.map_err(|_| Refusal::RecorderBehind)?;
                    attempt(gate, &upstream, outgoing, stream, tally).await
                }
            },
        };
        match outcome {
            Ok(mut begun) => {
                tally.answered_by(begun.remote.clone());
                standing::show(&mut begun.headers, tally.standing());
                report_cap(&mut begun, tally);
                return Ok(begun);
            }
            Err(error) => {
                let retryable = error.is_retryable();
                let source = std::error::Error::source(&error);
                tracing::warn!(request_id = %tally.id(), upstream = %target.upstream, %error, source, "a request got no answer from an upstream");
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
    gate: &Gate,
    upstream: &Arc<Upstream>,
    outgoing: Outgoing,
    stream: bool,
    tally: &Tally,
) -> Result<Begun, UpstreamError> {
    let remote = gate.fleet.remote(upstream, || {
        let credential = gate.credentials.find(&upstream.name);
        credential.ok_or("its credential is not known yet")?.as_ref().clone()
    })?;
    let Outgoing { body, edits } = outgoing;
    let body_and_id = || (splice::splice(&body, &edits), tally.id_header());
    let sent_at = gate.clock.monotonic();
    let sent = remote.send(body_and_id).await;
    let checked = sent.and_then(|response| {
        check_kind(response.headers(), stream)?;
        Ok(response)
    });
    let now = gate.clock.monotonic();
    match &checked {
        Err(UpstreamError::KeptBack(_)) => {}
        Err(error) if error.is_its_fault() => remote.failed(error, gate.clock.now(), now),
        Ok(_) | Err(_) => remote.answered(now.saturating_sub(sent_at), now),
    }
    let (head, body) = checked?.into_parts();
    Ok(Begun { headers: client_headers(&head.headers), body, remote })
}

impl Begun {
    /// Tells the client in a header, and notes on the record, what was lost or mended.
    pub(super) fn report(&mut self, report: &Report, tally: &mut Tally) {
        tally.noted(report.notes().iter().map(ToString::to_string));
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
fn report_cap(begun: &mut Begun, tally: &mut Tally) {
    if let Some(cap) = tally.output_cap() {
        let mut report = Report::default();
        report.add(Loss::OutputCapLowered, cap.to_string());
        begun.report(&report, tally);
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
