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
    /// The result of the health check; `None` without one, or before the first result.
    pub check: Option<CheckState>,
    /// The state of each credential, in order; empty if the upstream requires none.
    pub credentials: Vec<CredentialHealth>,
}

/// The state of one credential of an upstream. Its counts begin anew when the catalogue entry changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CredentialHealth {
    /// For how much longer other credentials are used first; `None` if it is used in turn.
    pub pause_left: Option<Duration>,
    /// The requests that were sent with it.
    pub requests: u64,
    /// How many of those requests were answered with a status that refuses the credential: 401, 402, 403 or 429.
    pub refusals: u64,
    /// The status of the most recent refusal.
    pub last_refusal: Option<u16>,
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

/// The result of an upstream's health check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckState {
    /// The last check, or the one before it, succeeded.
    Passing,
    /// The last two checks failed. Requests are sent to other upstreams where possible.
    Failing,
}

/// The most recent error of an upstream, for operators.
///
/// Invariant: it contains no credential. The body of an answer is never part of it, because it may
/// repeat the credential or the prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastError {
    /// The description.
    pub text: String,
    /// The time of the error.
    pub at: Timestamp,
}
