//! The health of an upstream: breaker state, failure counts, latency.

use std::time::Duration;

use jiff::Timestamp;

use super::latency::Percentiles;

/// The health of an upstream over the last five minutes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The state of the circuit breaker.
    pub breaker: BreakerState,
    /// Requests that completed or failed.
    pub requests: u64,
    /// Requests that failed because of the upstream.
    pub failures: u64,
    /// Answers whose reported usage was implausible and was not charged in full.
    pub miscounts: u64,
    /// Time from sending a request to the response head; `None` without any response.
    pub latency: Option<Percentiles>,
    /// The most recent error.
    pub last_error: Option<LastError>,
}

/// The state of an upstream's circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Requests are sent.
    Closed,
    /// Requests fail over to other upstreams where possible.
    Open {
        /// The time until the breaker becomes half-open.
        left: Duration,
    },
    /// One probe request is sent.
    HalfOpen,
}

/// An upstream's most recent error, for operators. Contains no secrets, and no text from the
/// upstream, which may repeat secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastError {
    /// The description.
    pub text: String,
    /// The time of the error.
    pub at: Timestamp,
}
