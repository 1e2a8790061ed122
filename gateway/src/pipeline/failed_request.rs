//! A request that got no answer, with the reason.

use super::Fault;
use super::admit::RefusedRequest;
use super::forward::ForwardError;
use super::open_request::OpenRequest;
use super::outcome::RequestOutcome;
use super::sent_request::SentRequest;
use domain::limit::LimitStatus;

/// A request that got no answer. The caller reports `fault` to the client and closes it.
pub struct FailedRequest {
    /// The reason.
    pub fault: Fault,
    request: UnansweredRequest,
}

/// A request in the phase in which it failed.
enum UnansweredRequest {
    Open(OpenRequest),
    Sent(Box<SentRequest>),
}

impl FailedRequest {
    /// Creates the failure of a request that was not sent upstream.
    pub fn before_sending(request: OpenRequest, fault: impl Into<Fault>) -> Box<Self> {
        Box::new(Self { fault: fault.into(), request: UnansweredRequest::Open(request) })
    }

    /// Creates the failure of a request that was sent upstream.
    pub fn after_sending(request: Box<SentRequest>, fault: impl Into<Fault>) -> Box<Self> {
        Box::new(Self { fault: fault.into(), request: UnansweredRequest::Sent(request) })
    }

    /// Returns the state of the request's limits at admission or refusal.
    pub fn limit_status(&self) -> &LimitStatus {
        match &self.request {
            UnansweredRequest::Open(request) => request.limit_status(),
            UnansweredRequest::Sent(request) => request.limit_status(),
        }
    }

    /// Settles the request.
    pub fn close(self, outcome: RequestOutcome) {
        match self.request {
            UnansweredRequest::Open(request) => request.close(outcome),
            UnansweredRequest::Sent(request) => request.fail(&self.fault, outcome),
        }
    }
}

impl From<RefusedRequest> for Box<FailedRequest> {
    fn from(refused: RefusedRequest) -> Self {
        let RefusedRequest { refusal, request } = refused;
        FailedRequest::before_sending(request, refusal)
    }
}

impl From<ForwardError> for Box<FailedRequest> {
    fn from(error: ForwardError) -> Self {
        let ForwardError { fault, request } = error;
        FailedRequest::after_sending(request, fault)
    }
}
