//! A stream that broke: the reason, and what is left to settle and to report.

use super::source::PendingAnswer;
use crate::ledger::DiskSync;
use crate::pipeline::Fault;
use crate::pipeline::forwarded_request::ForwardedRequest;
use crate::pipeline::outcome::RequestOutcome;
use crate::pipeline::stream_adapter::StreamAdapter;
use crate::pipeline::stream_memory::StreamMemory;
use domain::id::RequestId;
use domain::record::RequestStatus;
use domain::wire::usage::AnswerUsage;

/// A stream that broke after it had begun. The caller reports it to the client and settles the request.
pub struct BrokenStream {
    /// The reason.
    pub fault: Fault,
    /// The request.
    pub request: BrokenRequest,
    /// Formats the error for the client.
    pub adapter: StreamAdapter,
    /// The memory of the answer, whose final events may repeat it.
    pub memory: StreamMemory,
}

/// The request of a stream that broke.
pub enum BrokenRequest {
    /// An upstream had answered, or every one had failed.
    Forwarded(Box<ForwardedRequest>),
    /// No upstream had answered.
    Pending(PendingAnswer),
}

// === impl BrokenRequest ===

impl BrokenRequest {
    /// Returns the request id.
    pub fn id(&self) -> RequestId {
        match self {
            Self::Forwarded(request) => request.id(),
            Self::Pending(pending) => pending.id,
        }
    }

    /// Returns the usage known so far of a request that ends with `status`.
    pub fn known_usage(&self, status: RequestStatus) -> Option<AnswerUsage> {
        match self {
            Self::Forwarded(request) => request.known_usage(status),
            Self::Pending(_) => None,
        }
    }

    /// Settles the request, and reports the fault to the upstream's statistics. Returns the wait between
    /// settlement and the end of the stream.
    pub fn fail(self, fault: &Fault, outcome: RequestOutcome) -> Option<DiskSync> {
        match self {
            Self::Forwarded(request) => {
                let syncing = request.syncing();
                request.fail(fault, outcome);
                syncing
            }
            Self::Pending(PendingAnswer { forwarding, drop_outcome, syncing, .. }) => {
                drop_outcome.set(outcome);
                drop(forwarding);
                syncing
            }
        }
    }
}
