//! How an upstream does.

use std::time::Duration;

use jiff::Timestamp;

use super::latency::Percentiles;

/// What is known of an upstream's last minutes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Whether requests are sent to it.
    pub breaker: BreakerState,
    /// Requests that it answered or failed within the last five minutes.
    pub requests: u64,
    /// How many of them failed by its fault.
    pub failures: u64,
    /// Answers within that time whose usage could not be true, and was not charged in full.
    pub miscounts: u64,
    /// From sending a request to the head of the answer; `None` if none was given.
    pub latency: Option<Percentiles>,
    /// What went wrong last.
    pub last_error: Option<LastError>,
}

/// Whether requests are sent to an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// They are.
    Closed,
    /// They go elsewhere where they can, for so long.
    Open {
        /// How long still.
        left: Duration,
    },
    /// One is sent to see whether it is well again.
    HalfOpen,
}

/// What went wrong with an upstream, as its operator should read it: without secrets, and without what
/// the upstream said, which may repeat them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastError {
    /// What.
    pub text: String,
    /// When.
    pub at: Timestamp,
}
