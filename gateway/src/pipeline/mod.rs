//! The life of a request to `/v1`, a file per phase: authenticate, admit, route, forward, relay,
//! settle.
//!
//! Knows no HTTP status and no admin plane. Start with [`chat`], which reads as the list of phases.

pub mod admit;
pub mod authenticate;
pub mod count;
pub mod forward;
pub mod meter;
pub mod passthrough;
pub mod relay;
pub mod route;
pub mod settle;

use std::sync::Arc;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::{Clock, Entropy};
use crate::control::credentials::Credentials;
use crate::control::directory::Directory;
use crate::domain::refusal::Refusal;
use crate::ledger::Ledger;
use crate::limits::Limiter;
use crate::upstream::{Fleet, UpstreamError};
use crate::wire::chat::ChatRequest;
use authenticate::Principal;
use relay::Answer;
use settle::Tally;

/// What every request needs. Built once, by `app`.
pub struct Gate {
    /// Keys, accounts and the catalogue.
    pub directory: Arc<Directory>,
    /// Balances and records.
    pub ledger: Arc<Ledger>,
    /// Requests and tokens per minute, concurrency.
    pub limiter: Limiter,
    /// The upstreams' clients.
    pub fleet: Fleet,
    /// The upstreams' credentials.
    pub credentials: Arc<Credentials>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness and ids.
    pub entropy: Arc<dyn Entropy>,
    /// What shutdown waits for.
    pub tasks: TaskTracker,
    /// Cancelled when shutdown does not wait any longer.
    pub cut_off: CancellationToken,
}

/// Why a request got no answer.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// We refused it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The upstream failed.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
}

/// Serves one chat request. On an error the caller answers it and closes the tally.
///
/// # Errors
/// The request was refused, or no upstream answered it.
pub async fn chat(
    gate: &Arc<Gate>,
    principal: &Principal,
    body: Bytes,
    tally: &mut Option<Tally>,
) -> Result<Answer, Fault> {
    let open = tally.as_mut().expect("a request has a tally until it is answered");
    let request = ChatRequest::peek(&body)?;
    open.asked(request.stream, &request.model, &body);
    let model = admit::find_model(gate, principal, &request.model)?;
    open.admitted(admit::admit(gate, principal, &model)?, &model);
    let targets = route::order(&model.deployments, gate.entropy.as_ref());
    let reply = forward::forward(gate, &request, &body, &targets, open).await?;
    relay::relay(reply, &request, tally).await.inspect_err(|fault| {
        let request_id = tally.as_ref().map(|open| tracing::field::display(open.id()));
        tracing::warn!(request_id, error = %fault, "an answer is not one");
    })
}
