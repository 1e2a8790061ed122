//! How a request ended from the client's point of view.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::meter::Meter;
use domain::record::RequestStatus;

/// The `code` of the error of requests that a shutdown refuses or ends.
pub const SHUTTING_DOWN: &str = "server_shutting_down";
/// The `code` of the error of requests that a person cancelled.
pub const REQUEST_CANCELLED: &str = "request_cancelled";

/// How a request ended from the client's point of view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestOutcome {
    /// The status on the record.
    pub status: RequestStatus,
    /// The HTTP status that the client got.
    pub http_status: Option<u16>,
    /// The `code` of the error that ended the request, whether or not the client could still receive it.
    pub error_code: Option<String>,
}

/// The outcome of a request that is dropped before its end; shared by the HTTP layer and the request. It is unset
/// if the client disconnects.
#[derive(Clone, Debug, Default)]
pub struct DropOutcome(Arc<OnceLock<RequestOutcome>>);

/// Whether the head of a stream was sent to the client; shared by the relay and the request.
#[derive(Clone, Debug, Default)]
pub struct HeadSent(Arc<AtomicBool>);

/// Whether the client of a drained request has disconnected; shared by the drain and the request.
#[derive(Clone, Debug, Default)]
pub struct ClientDisconnected(Arc<AtomicBool>);

// === impl RequestOutcome ===

impl RequestOutcome {
    /// Returns the outcome of a request that was served with HTTP status 200 in full.
    pub fn completed() -> Self {
        Self { status: RequestStatus::Completed, http_status: Some(200), error_code: None }
    }

    /// Returns the outcome of an answer that reached its end.
    pub fn answered(meter: &Meter) -> Self {
        let is_whole = meter.is_finished_by_marker() && !meter.is_truncated;
        let status = if is_whole { RequestStatus::Completed } else { RequestStatus::Incomplete };
        Self { status, http_status: Some(200), error_code: None }
    }

    /// Returns the outcome of a request whose client disconnected before its end.
    pub(super) fn cancelled() -> Self {
        Self { status: RequestStatus::Cancelled, http_status: None, error_code: None }
    }

    /// Returns the outcome of a request that a person cancelled although its client did not receive the error.
    pub(super) fn cancelled_by_person() -> Self {
        let error_code = Some(REQUEST_CANCELLED.to_owned());
        Self { error_code, ..Self::cancelled() }
    }

    /// Returns the outcome of a request that a shutdown ended although its client did not receive the error.
    pub(super) fn cut_off() -> Self {
        let error_code = Some(SHUTTING_DOWN.to_owned());
        Self { status: RequestStatus::Interrupted, http_status: None, error_code }
    }

    /// Returns the outcome of a failure that no client sees.
    pub(super) fn unseen(status: RequestStatus) -> Self {
        Self { status, http_status: None, error_code: None }
    }

    /// Returns the outcome of the same request if its client had disconnected.
    pub(super) fn after_disconnect(self) -> Self {
        let status = match self.status {
            RequestStatus::Completed | RequestStatus::Incomplete => RequestStatus::Cancelled,
            other => other,
        };
        Self { status, http_status: None, error_code: None }
    }
}

// === impl DropOutcome ===

impl DropOutcome {
    /// Sets the outcome, before the request is dropped. The first call counts.
    pub fn set(&self, outcome: RequestOutcome) {
        _ = self.0.set(outcome);
    }

    pub(super) fn get(&self) -> Option<&RequestOutcome> {
        self.0.get()
    }
}

// === impl ClientDisconnected ===

impl ClientDisconnected {
    /// Records that the client has disconnected.
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

// === impl HeadSent ===

impl HeadSent {
    /// Records that the head was sent to the client.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
