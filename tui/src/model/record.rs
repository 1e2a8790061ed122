//! Request records and their sums, in our own words.
//!
//! `None` means unknown and is shown as `–`, never as 0. Amounts are exact decimals in US dollars
//! and stay text as the server wrote them.

use jiff::Timestamp;

/// Token counts of a request or a sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Those of the prompt, the cached ones included.
    pub input: Option<u64>,
    /// Those of `input` that came from a cache.
    pub cached: Option<u64>,
    /// Those of the answer, the reasoning ones included.
    pub output: Option<u64>,
    /// Those of `output` that were spent on reasoning.
    pub reasoning: Option<u64>,
}

/// A sum over requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// How many.
    pub requests: u64,
    /// How many of them failed or were refused.
    pub errors: u64,
    /// What they used.
    pub tokens: Tokens,
    /// What they cost.
    pub cost_usd: Option<String>,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestStatus {
    /// The answer reached its end.
    Completed,
    /// The answer was cut by a limit or a filter.
    Incomplete,
    /// The upstream or the gateway failed.
    Failed,
    /// The client went away.
    Cancelled,
    /// The gateway died meanwhile.
    Interrupted,
    /// It was refused.
    Rejected,
}

/// Where token counts come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageBasis {
    /// The upstream said so.
    Upstream,
    /// The gateway counted.
    Counted,
    /// Only a bound is known.
    Bounded,
    /// Nothing was used.
    Nothing,
}

/// One request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// The id, which the client saw as `x-request-id`.
    pub id: String,
    /// The account's name.
    pub account: String,
    /// The key's public id.
    pub key: String,
    /// The endpoint.
    pub endpoint: String,
    /// The model.
    pub model: Option<String>,
    /// Where it was served.
    pub deployment: Option<String>,
    /// Whether a stream was asked for.
    pub stream: bool,
    /// How it ended.
    pub status: Option<RequestStatus>,
    /// The HTTP status that the client got.
    pub http_status: Option<u32>,
    /// The code of the error that the client got.
    pub error_code: Option<String>,
    /// What it used.
    pub tokens: Tokens,
    /// Where `tokens` comes from.
    pub basis: Option<UsageBasis>,
    /// What it cost.
    pub cost_usd: Option<String>,
    /// The price version that it was charged by.
    pub price_version: Option<u32>,
    /// When it came in.
    pub started_at: Option<Timestamp>,
    /// From its arrival to the end of the answer.
    pub duration_ms: Option<f64>,
    /// From its arrival to the first piece of the answer.
    pub ttft_ms: Option<f64>,
    /// What was lost or mended in translation.
    pub notes: Vec<String>,
    /// The number of requests that the record stands for; 0 means 1.
    pub count: u32,
}

/// A piece of the request log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogBatch {
    /// Whether the log begins anew with this piece, because it is another log or the cursor was not
    /// accepted.
    pub restarted: bool,
    /// The records, oldest first.
    pub records: Vec<Record>,
    /// How many were skipped before these.
    pub dropped: u64,
    /// Whether all history was sent.
    pub live: bool,
}

// === impl Tokens ===

impl Tokens {
    /// Returns input and output together, if both are known.
    pub fn total(&self) -> Option<u64> {
        Some(self.input?.saturating_add(self.output?))
    }
}

// === impl Status ===

impl RequestStatus {
    /// Returns the word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Incomplete => "incomplete",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
            Self::Rejected => "rejected",
        }
    }
}

// === impl Basis ===

impl UsageBasis {
    /// Says who counted.
    pub fn name(self) -> &'static str {
        match self {
            Self::Upstream => "the upstream",
            Self::Counted => "the gateway",
            Self::Bounded => "nobody: only a bound is known",
            Self::Nothing => "nobody: nothing was used",
        }
    }
}
