//! The life of a request to `/v1`, a file per phase: authenticate, admit, route, forward, relay,
//! settle.
//!
//! Knows no HTTP status and no admin plane. Start with [`serve::serve`], then [`chat::chat`], which reads
//! as the list of phases; [`responses::responses`] is the same with a translation in the middle.

pub mod admit;
pub mod arrival;
pub mod authenticate;
mod believed;
mod calls;
pub mod chat;
mod choices;
mod collect;
pub mod count;
mod coverage;
mod drain;
pub mod forward;
mod idle_timeout;
pub mod meter;
mod modalities;
pub mod outcome;
pub mod passthrough;
mod pieces;
mod read_batcher;
pub mod relay;
pub mod replay;
pub mod request_guard;
pub mod responses;
pub mod responses_stream;
pub mod route;
pub mod serve;
mod settle;
pub mod standing;
pub mod stream_adapter;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::{Clock, Entropy};
use crate::control::credentials::Credentials;
use crate::control::directory::Directory;
use crate::control::seal::Sealer;
use crate::ledger::Ledger;
use crate::limits::Limiter;
use crate::state::State;
use crate::upstream::{UpstreamClients, UpstreamError};
use count::Counter;
use domain::record::RequestStatus;
use domain::refusal::Refusal;
use replay::Replays;
use responses::Policy;

/// What every request needs. Built once, by `app`.
pub struct AppState {
    /// Keys, accounts and the catalogue.
    pub directory: Arc<Directory>,
    /// Balances and records.
    pub ledger: Arc<Ledger>,
    /// Requests and tokens per minute, concurrency, tokens per month.
    pub limiter: Arc<Limiter>,
    /// The upstreams' clients.
    pub upstream_clients: Arc<UpstreamClients>,
    /// The upstreams' credentials.
    pub credentials: Arc<Credentials>,
    /// The responses that are kept; `None` if none are.
    pub state: Option<Arc<State>>,
    /// Requests that came with an idempotency key; `None` if that makes no difference.
    pub replays: Option<Arc<Replays>>,
    /// How `/v1/responses` is answered.
    pub responses: Policy,
    /// Wraps reasoning for clients to keep.
    pub sealer: Arc<Sealer>,
    /// The longest conversation that a request may continue, in bytes.
    pub max_chain_bytes: u64,
    /// Counts tokens where an upstream does not.
    pub counter: Counter,
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

impl Fault {
    /// How a request ends that gets no answer for this reason.
    pub fn status(&self) -> RequestStatus {
        match self {
            Self::Refused(Refusal::ShuttingDown) => RequestStatus::Interrupted,
            Self::Refused(_) | Self::Upstream(UpstreamError::JournalUnavailable(_)) => {
                RequestStatus::Rejected
            }
            Self::Upstream(_) => RequestStatus::Failed,
        }
    }
}
