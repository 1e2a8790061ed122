//! The life of a request to `/v1`. Its phases are authenticate, admit, route, forward, relay (for a plain
//! answer: `plain_answer`) and settle, each in the file of that name; the other files serve them.
//!
//! This module does not choose the HTTP status of an error, which is done by the table in
//! `http/error_reply.rs`. It only records the status that the client got, in a [`RequestOutcome`]. It does not
//! know the admin plane.
//!
//! Start with [`serve::serve`], then [`chat::chat`], which calls the phases in order;
//! [`responses::responses`] is the same with a translation in between. Rule ids in comments, such as `S-4` or
//! `§5.9`, refer to [`translate::rules`].
//!
//! [`RequestOutcome`]: outcome::RequestOutcome

pub mod admit;
pub mod answer;
pub mod authenticate;
mod calls;
pub mod chat;
mod choices;
pub mod count;
mod coverage;
mod drain;
mod event_pattern;
pub mod failed_request;
pub mod forward;
pub mod forwarded_request;
pub mod meter;
pub mod open_request;
pub mod outcome;
pub mod passthrough;
mod pending_text;
mod plain_answer;
mod plausible_usage;
pub mod propagation;
pub mod rate_limit_headers;
mod read_batcher;
mod recall;
pub mod relay;
pub mod replay;
mod request_copies;
pub mod responses;
pub mod responses_adapter;
pub mod serve;
mod settle;
pub mod stream_adapter;
pub mod stream_memory;
mod translations;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cancellation::Cancellations;
use crate::capture::Captures;
use crate::clock::{Clock, Entropy};
use crate::directory::Directory;
use crate::fleet::StoreContact;
use crate::ledger::Ledger;
use crate::limits::Limiter;
use crate::memory_budget::MemoryBudget;
use crate::offload::Offload;
use crate::response_store::ResponseStore;
use crate::secrets::Credentials;
use crate::secrets::seal::Sealer;
use crate::upstream::{UpstreamClients, UpstreamError};
use count::Counter;
use domain::record::{RequestRecord, RequestStatus};
use domain::refusal::Refusal;
use propagation::TraceSampler;
use replay::Replays;
use responses::ResponsesPolicy;

/// The state that the requests of a worker share. Built by `app`; only the clients differ between workers.
#[derive(Clone)]
pub struct AppState {
    /// Keys, accounts and the catalogue.
    pub directory: Arc<Directory>,
    /// Whether requests may be served from memory.
    pub contact: Arc<StoreContact>,
    /// Balances and records.
    pub ledger: Arc<Ledger>,
    /// Requests and tokens per minute, concurrency, tokens per month.
    pub limiter: Arc<Limiter>,
    /// The worker's clients of the upstreams.
    pub upstream_clients: Arc<UpstreamClients>,
    /// The credentials of the upstreams.
    pub credentials: Arc<Credentials>,
    /// The stored responses; `None` if responses are not stored.
    pub response_store: Option<Arc<ResponseStore>>,
    /// The requests with an idempotency key; `None` if replay is disabled.
    pub replays: Option<Arc<Replays>>,
    /// How `/v1/responses` is answered.
    pub responses_policy: ResponsesPolicy,
    /// Encrypts reasoning for clients to keep.
    pub sealer: Arc<Sealer>,
    /// The longest conversation that a request may continue, in bytes.
    pub max_chain_bytes: u64,
    /// The memory that copies of long requests and long answers may take.
    pub working_memory: Arc<MemoryBudget>,
    /// The threads for requests with large bodies.
    pub offload: Arc<Offload>,
    /// Decides which requests are traced; `None` if spans are not exported.
    pub trace_sampler: Option<TraceSampler>,
    /// Counts tokens that an upstream does not report.
    pub counter: Counter,
    /// The captured requests.
    pub captures: Arc<Captures>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Randomness and ids.
    pub entropy: Arc<dyn Entropy>,
    /// The tasks that a shutdown waits for.
    pub tasks: TaskTracker,
    /// Cancelled when a shutdown stops waiting.
    pub cut_off: CancellationToken,
    /// The requests that are to end now.
    pub cancellations: Arc<Cancellations>,
}

impl AppState {
    /// Flushes the journal after a request that ends without sending anything to the client; otherwise the
    /// write of the last bytes flushes it. A failure is logged and retried.
    fn flush(&self) {
        _ = self.ledger.flush_journal();
    }

    /// Records in the trace of a request, if it has one, that the ledger gets its record now.
    fn set_settled(&self, record: &mut RequestRecord) {
        if let Some(trace) = &mut record.trace {
            trace.settled_at = Some(self.clock.monotonic());
        }
    }
}

/// Why a request failed, before or during its answer.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The gateway refused it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The upstream failed.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
}

impl Fault {
    /// Returns the status of a request that fails for this reason.
    pub fn status(&self) -> RequestStatus {
        match self {
            Self::Refused(Refusal::ShuttingDown) => RequestStatus::Interrupted,
            Self::Refused(Refusal::RequestCancelled) => RequestStatus::Cancelled,
            Self::Refused(_) | Self::Upstream(UpstreamError::JournalUnavailable(_)) => {
                RequestStatus::Rejected
            }
            Self::Upstream(_) => RequestStatus::Failed,
        }
    }

    /// Returns the status of a request whose stream breaks for this reason. It has begun, so that it is not refused.
    pub fn status_of_stream(&self) -> RequestStatus {
        match self.status() {
            RequestStatus::Rejected => RequestStatus::Failed,
            status => status,
        }
    }
}
