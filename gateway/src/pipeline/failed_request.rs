//! A request that got no answer, with the reason.

use super::Fault;
use super::admit::RefusedRequest;
use super::forward::ForwardError;
use super::forwarded_request::ForwardedRequest;
use super::open_request::OpenRequest;
use super::outcome::RequestOutcome;
use domain::limit::LimitStatus;

/// A request that got no answer. The caller reports `fault` to the client and closes it.
pub struct FailedRequest {
    /// The reason.
    pub fault: Fault,
    request: UnansweredRequest,
}

/// A request in the phase in which it failed.
enum UnansweredRequest {
    Open(Box<OpenRequest>),
    Forwarded(Box<ForwardedRequest>),
}

impl FailedRequest {
    /// Creates the failure of a request before it is forwarded.
    pub fn before_forwarding(request: Box<OpenRequest>, fault: impl Into<Fault>) -> Box<Self> {
        Box::new(Self { fault: fault.into(), request: UnansweredRequest::Open(request) })
    }

    /// Creates the failure of a request that was forwarded.
    pub fn after_forwarding(request: Box<ForwardedRequest>, fault: impl Into<Fault>) -> Box<Self> {
        Box::new(Self { fault: fault.into(), request: UnansweredRequest::Forwarded(request) })
    }

    /// Returns the state of the request's limits at admission or refusal.
    pub fn limit_status(&self) -> &LimitStatus {
        match &self.request {
            UnansweredRequest::Open(request) => request.limit_status(),
            UnansweredRequest::Forwarded(request) => request.limit_status(),
        }
    }

    /// Settles the request.
    pub fn close(self, outcome: RequestOutcome) {
        match self.request {
            UnansweredRequest::Open(request) => request.close(outcome),
            UnansweredRequest::Forwarded(request) => request.fail(&self.fault, outcome),
        }
    }
}

impl From<RefusedRequest> for Box<FailedRequest> {
    fn from(refused: RefusedRequest) -> Self {
        let RefusedRequest { refusal, request } = refused;
        FailedRequest::before_forwarding(request, refusal)
    }
}

impl From<ForwardError> for Box<FailedRequest> {
    fn from(error: ForwardError) -> Self {
        let ForwardError { fault, request } = error;
        FailedRequest::after_forwarding(request, fault)
    }
}
