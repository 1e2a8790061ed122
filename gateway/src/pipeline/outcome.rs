//! How a request ended from the client's point of view.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::meter::Meter;
use domain::record::RequestStatus;

/// How a request ended from the client's point of view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestOutcome {
    /// The status on the record.
    pub status: RequestStatus,
    /// The HTTP status that the client got.
    pub http_status: Option<u16>,
    /// The `code` of the error that the client got.
    pub error_code: Option<String>,
}

/// Whether the head of a stream was sent to the client; shared by the HTTP layer and the guard.
#[derive(Clone, Debug, Default)]
pub struct HeadSent(Arc<AtomicBool>);

/// Whether the client of a drained request is still connected; shared by the drain and the guard.
#[derive(Clone, Debug, Default)]
pub struct ClientPresence(Arc<AtomicBool>);

// === impl RequestOutcome ===

impl RequestOutcome {
    /// Returns the outcome of an answer that reached its end.
    pub fn answered(meter: &Meter) -> Self {
        let status = if meter.cut { RequestStatus::Incomplete } else { RequestStatus::Completed };
        Self { status, http_status: Some(200), error_code: None }
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

// === impl Presence ===

impl ClientPresence {
    /// Records that the client has disconnected.
    pub(super) fn end(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

// === impl Commitment ===

impl HeadSent {
    /// Records that the head was sent to the client.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
