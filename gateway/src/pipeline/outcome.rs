//! How a request ended, as far as the client saw.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::meter::Meter;
use domain::record::RequestStatus;

/// How a request ended, as far as the client saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestOutcome {
    /// How.
    pub status: RequestStatus,
    /// The HTTP status that the client got.
    pub http_status: Option<u16>,
    /// The `code` of the error that it got.
    pub error_code: Option<String>,
}

/// Whether the client was sent the head of a stream, known also to whom the guard is not at hand.
#[derive(Clone, Debug, Default)]
pub struct Commitment(Arc<AtomicBool>);

/// Whether the client is there still, where the request goes on without it.
#[derive(Clone, Debug, Default)]
pub struct Presence(Arc<AtomicBool>);

// === impl RequestOutcome ===

impl RequestOutcome {
    /// An answer that reached its end.
    pub fn answered(meter: &Meter) -> Self {
        let status = if meter.cut { RequestStatus::Incomplete } else { RequestStatus::Completed };
        Self { status, http_status: Some(200), error_code: None }
    }

    /// The same, of a request whose client had gone before.
    pub(super) fn unseen(self) -> Self {
        let status = match self.status {
            RequestStatus::Completed | RequestStatus::Incomplete => RequestStatus::Cancelled,
            other => other,
        };
        Self { status, http_status: None, error_code: None }
    }
}

// === impl Presence ===

impl Presence {
    /// The client has gone.
    pub(super) fn end(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

// === impl Commitment ===

impl Commitment {
    /// The client was sent the head.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
