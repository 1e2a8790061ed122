//! Request records: one for each request of a valid key that has ended, however it ended.

use std::num::NonZeroU32;
use std::time::Duration;

use jiff::Timestamp;

use super::endpoint::Endpoint;
use super::id::{AccountId, KeyId, ModelId, RequestId};
use super::idempotency::IdempotencyDigest;
use super::ledger::{Entry, EntryKind, HOUSE};
use super::model::Deployment;
use super::money::Nanos;
use super::trace::RequestTrace;
use super::usage::{Usage, UsageBasis};

/// The longest error code that [`RequestRecord::error_word`] returns, in bytes.
const MAX_WORD_BYTES: usize = 48;

/// The record of a request. `None` means unknown, never zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    /// The request's id.
    pub id: RequestId,
    /// The account that pays.
    pub account: AccountId,
    /// The key that authenticated the request.
    pub key: KeyId,
    /// The requested endpoint.
    pub endpoint: Endpoint,
    /// The model's id in the catalogue; for unknown models, the name in the request.
    pub model: Option<ModelId>,
    /// The deployment of the last attempt; `None` if there was none.
    pub deployment: Option<ServedBy>,
    /// Whether the client requested a stream.
    pub stream: bool,
    /// The outcome.
    pub status: RequestStatus,
    /// The HTTP status that the client got; `None` if it left before.
    pub http_status: Option<u16>,
    /// The `code` of the error that ended the request, whether or not the client could still receive it.
    pub error_code: Option<String>,
    /// The tokens used.
    pub usage: Option<Usage>,
    /// The origin of `usage`.
    pub basis: UsageBasis,
    /// The amount charged to the account.
    pub cost: Option<Nanos>,
    /// The cost in excess of the account's balance, which is booked to the house account.
    pub overrun: Nanos,
    /// The version of the price that was applied.
    pub price_version: Option<u32>,
    /// The time of arrival.
    pub started_at: Timestamp,
    /// Time from arrival to the end of the answer.
    pub duration: Duration,
    /// Time from arrival to the first part of the answer.
    pub ttft: Option<Duration>,
    /// What else happened: losses and repairs in translation, failed attempts, a client that left, limits that were only
    /// observed.
    pub notes: Vec<String>,
    /// The digest that identifies retries, for requests that had an idempotency key and were
    /// answered completely.
    pub idempotency: Option<IdempotencyDigest>,
    /// The number of requests that this record represents. Greater than one only if requests that
    /// were not sent upstream arrived faster than the limit for individual records. The other
    /// fields are then those of the first request, as far as all requests agree.
    pub count: NonZeroU32,
    /// The trace of a request that was sampled. It is exported and not stored. Of the requests that a record
    /// represents, only the first one can have a trace.
    pub trace: Option<Box<RequestTrace>>,
}

/// The deployment of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedBy {
    /// The upstream.
    pub upstream: super::id::UpstreamName,
    /// The upstream's name for the model.
    pub upstream_model: std::sync::Arc<str>,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestStatus {
    /// The answer is complete.
    Completed,
    /// The answer was truncated by a length limit or a content filter.
    Incomplete,
    /// The upstream or the gateway failed.
    Failed,
    /// The client disconnected, or a person cancelled the request.
    Cancelled,
    /// The gateway stopped while the request was in flight.
    Interrupted,
    /// The request was refused before an upstream was called.
    Rejected,
}

impl RequestRecord {
    /// Returns the record with times truncated to the microsecond, the precision of the store.
    #[must_use]
    pub fn truncated_to_microseconds(self) -> Self {
        let at = Timestamp::from_microsecond(self.started_at.as_microsecond());
        let span =
            |span: Duration| Duration::from_micros(span.as_micros().try_into().unwrap_or(u64::MAX));
        Self {
            started_at: at.unwrap_or(self.started_at),
            duration: span(self.duration),
            ttft: self.ttft.map(span),
            ..self
        }
    }

    /// Returns the error code for logs and metrics: `other` unless it is one or more words in lower case, because an
    /// upstream may send any text, even a secret.
    pub fn error_word(&self) -> Option<&str> {
        let code = self.error_code.as_deref()?;
        let is_word = code.len() <= MAX_WORD_BYTES
            && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        Some(if is_word { code } else { "other" })
    }

    /// Returns the ledger entries of the request, if any: the charge to its account and the overrun
    /// of the house account.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + use<> {
        let charge = (self.account, self.cost.unwrap_or_default(), EntryKind::Charge(self.id));
        let overrun = (HOUSE, self.overrun, EntryKind::Overrun(self.id));
        let at = self.started_at;
        let costs = [charge, overrun].into_iter().filter(|(_, cost, _)| *cost > Nanos::ZERO);
        costs.map(move |(account, cost, kind)| Entry { account, amount: -cost, kind, at })
    }
}

impl RequestStatus {
    /// Every status.
    pub const ALL: [Self; 6] = [
        Self::Completed,
        Self::Incomplete,
        Self::Failed,
        Self::Cancelled,
        Self::Interrupted,
        Self::Rejected,
    ];

    /// Returns the name in records and filters.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Incomplete => "incomplete",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
            Self::Rejected => "rejected",
        }
    }

    /// Whether the request counts as an error: the client received no answer and did not cancel.
    pub const fn is_error(self) -> bool {
        match self {
            Self::Failed | Self::Interrupted | Self::Rejected => true,
            Self::Completed | Self::Incomplete | Self::Cancelled => false,
        }
    }
}

impl From<&Deployment> for ServedBy {
    fn from(deployment: &Deployment) -> Self {
        Self {
            upstream: deployment.upstream.clone(),
            upstream_model: deployment.upstream_model.clone(),
        }
    }
}

impl std::fmt::Display for ServedBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.upstream, self.upstream_model)
    }
}
