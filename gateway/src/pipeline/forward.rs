//! Sends a request upstream, to the next deployment when one fails before its answer begins.

use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Response};
use hyper::body::Incoming;

use super::settle::Tally;
use super::{Fault, Gate};
use crate::domain::model::Deployment;
use crate::upstream::{Remote, UpstreamError};
use crate::wire::chat::ChatRequest;
use crate::wire::splice;

/// An answer that has begun.
pub struct Begun {
    /// Its head, and the body to read.
    pub response: Response<Incoming>,
    /// Who sends it.
    pub remote: Arc<Remote>,
}

/// Tries `targets` in order until one answers.
///
/// # Errors
/// The last target's, or that of the first one that is not worth a failover.
pub async fn forward(
    gate: &Gate,
    request: &ChatRequest<'_>,
    body: &Bytes,
    targets: &[&Deployment],
    tally: &mut Tally,
) -> Result<Begun, Fault> {
    let mut failure = UpstreamError::Misconfigured("the model has no deployment".to_owned());
    for target in targets {
        tally.served_by(target);
        match attempt(gate, request, body, target, tally).await {
            Ok(begun) => return Ok(begun),
            Err(error) => {
                let retryable = error.is_retryable();
                let source = std::error::Error::source(&error);
                tracing::warn!(request_id = %tally.id(), upstream = %target.upstream, %error, source, "upstream failed");
                failure = error;
                if !retryable {
                    break;
                }
            }
        }
    }
    Err(failure.into())
}

async fn attempt(
    gate: &Gate,
    request: &ChatRequest<'_>,
    body: &Bytes,
    target: &Deployment,
    tally: &Tally,
) -> Result<Begun, UpstreamError> {
    let upstream = gate.directory.catalogue().upstreams.get(&target.upstream).cloned();
    let upstream =
        upstream.ok_or_else(|| UpstreamError::Misconfigured("it was removed".to_owned()))?;
    let remote = gate.fleet.remote(&upstream, || {
        let credential = gate.credentials.find(&upstream.name);
        credential.ok_or("its credential is not known yet")?.as_ref().clone()
    })?;
    let payload = splice::splice(body, &request.edits(&target.upstream_model));
    let response = remote.send(payload, tally.id_header()).await?;
    check_kind(response.headers(), request.stream)?;
    Ok(Begun { response, remote })
}

/// Refuses a page of HTML, and JSON in the place of a stream, whatever status they came with.
fn check_kind(headers: &HeaderMap, stream: bool) -> Result<(), UpstreamError> {
    let wanted = if stream { "text/event-stream" } else { "application/json" };
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or(wanted);
    if kind.trim_start().to_ascii_lowercase().starts_with(wanted) {
        return Ok(());
    }
    Err(UpstreamError::Invalid(format!(
        "its answer is `{}`, not `{wanted}`",
        kind.escape_default()
    )))
}
