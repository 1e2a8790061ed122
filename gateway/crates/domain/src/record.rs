//! Request records: what is known of each request of a known key, once it has ended.

use std::num::NonZeroU32;
use std::time::Duration;

use jiff::Timestamp;

use super::endpoint::Endpoint;
use super::id::{AccountId, KeyId, ModelId, RequestId};
use super::idempotency::IdempotencyDigest;
use super::ledger::{Entry, EntryKind, HOUSE};
use super::model::Deployment;
use super::money::Nanos;
use super::usage::{Usage, UsageBasis};

/// One request. `None` is "unknown", never zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    /// Its id.
    pub id: RequestId,
    /// Who pays.
    pub account: AccountId,
    /// With which key.
    pub key: KeyId,
    /// What was asked for.
    pub endpoint: Endpoint,
    /// The model as the catalogue names it; else as the client named it.
    pub model: Option<ModelId>,
    /// Where it was served.
    pub deployment: Option<ServedBy>,
    /// Whether a stream was asked for.
    pub stream: bool,
    /// How it ended.
    pub status: RequestStatus,
    /// The HTTP status that the client got.
    pub http_status: Option<u16>,
    /// The `code` of the error that the client got.
    pub error_code: Option<String>,
    /// What it used.
    pub usage: Option<Usage>,
    /// Where `usage` comes from.
    pub basis: UsageBasis,
    /// What it cost.
    pub cost: Option<Nanos>,
    /// What it cost beyond what its account could pay; the house's loss.
    pub overrun: Nanos,
    /// The price version that it was charged by.
    pub price_version: Option<u32>,
    /// When it came in.
    pub started_at: Timestamp,
    /// From its arrival to the end of the answer.
    pub duration: Duration,
    /// From its arrival to the first piece of the answer.
    pub ttft: Option<Duration>,
    /// What was lost or mended in translation.
    pub notes: Vec<String>,
    /// What its retries are known by, if it came with an idempotency key and was answered in whole.
    pub idempotency: Option<IdempotencyDigest>,
    /// The number of requests that the record stands for. More than one only where requests that never
    /// went upstream came faster than they are recorded individually; the other fields are then those
    /// of the first one, as far as all agree.
    pub count: NonZeroU32,
}

/// Where a request was served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedBy {
    /// The upstream.
    pub upstream: super::id::UpstreamName,
    /// What the model is called there.
    pub upstream_model: std::sync::Arc<str>,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestStatus {
    /// The answer reached its end.
    Completed,
    /// The answer was cut by a length limit or a content filter.
    Incomplete,
    /// The upstream, or we, failed.
    Failed,
    /// The client went away.
    Cancelled,
    /// We died while it was under way.
    Interrupted,
    /// It was refused before an upstream was called.
    Rejected,
}

impl RequestRecord {
    /// Returns it as a store gives it back, which keeps times to the microsecond.
    #[must_use]
    pub fn to_the_microsecond(self) -> Self {
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

    /// What it changes in balances, if anything: what its account pays, and what the house loses by it.
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

    /// The word for it.
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

    /// Whether it counts as an error: the client got no answer, and did not choose to.
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
