//! Request records, log batches and usage totals, independent of the generated types.
//!
//! `None` means unknown and is displayed as `–`, never as 0. Amounts are exact decimals in US
//! dollars and keep the server's text.

use jiff::{SignedDuration, Timestamp};

use super::table::{Tabular, Value};

/// The greatest plausible duration of a request: 30 days.
const MAX_DURATION_MS: f64 = 30.0 * 86_400_000.0;

/// The token counts of a request or of a set of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Input tokens, including cached ones.
    pub input: Option<u64>,
    /// Input tokens read from a cache.
    pub cached: Option<u64>,
    /// Output tokens, including reasoning tokens.
    pub output: Option<u64>,
    /// Output tokens used for reasoning.
    pub reasoning: Option<u64>,
}

/// The totals of a set of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The number of requests.
    pub requests: u64,
    /// The number of failed or refused requests.
    pub errors: u64,
    /// The token usage.
    pub tokens: Tokens,
    /// The total cost in US dollars.
    pub cost_usd: Option<String>,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestStatus {
    /// The response is complete.
    Completed,
    /// The response was truncated by a limit or a filter.
    Incomplete,
    /// The upstream or the gateway failed.
    Failed,
    /// The client disconnected.
    Cancelled,
    /// The gateway terminated during the request.
    Interrupted,
    /// The gateway refused the request.
    Rejected,
}

/// The source of the token counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageBasis {
    /// Reported by the upstream.
    Upstream,
    /// Counted by the gateway.
    Counted,
    /// An upper bound.
    Bounded,
    /// No tokens were used.
    Nothing,
}

/// The record of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// The id that the client received in `x-request-id`.
    pub id: String,
    /// The account's name.
    pub account: String,
    /// The key's public id.
    pub key: String,
    /// The API endpoint, such as `chat.completions`.
    pub endpoint: String,
    /// The requested model; `None` if the request could not be parsed.
    pub model: Option<String>,
    /// The deployment that served it.
    pub deployment: Option<String>,
    /// Whether the client requested a stream.
    pub stream: bool,
    /// The outcome; `None` if unknown.
    pub status: Option<RequestStatus>,
    /// The HTTP status sent to the client.
    pub http_status: Option<u32>,
    /// The error code sent to the client.
    pub error_code: Option<String>,
    /// The token usage.
    pub tokens: Tokens,
    /// The source of the token counts.
    pub basis: Option<UsageBasis>,
    /// The cost in US dollars.
    pub cost_usd: Option<String>,
    /// The version of the price that was applied.
    pub price_version: Option<u32>,
    /// The time of arrival.
    pub started_at: Option<Timestamp>,
    /// Milliseconds from arrival to the end of the response.
    pub duration_ms: Option<f64>,
    /// Milliseconds from arrival to the first chunk of the response.
    pub ttft_ms: Option<f64>,
    /// Request features that the translation dropped or adapted.
    pub notes: Vec<String>,
    /// The number of requests that the record represents; 0 means 1.
    pub count: u32,
}

/// A batch of the request log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogBatch {
    /// Whether the log starts over with this batch because the stream was opened without a cursor:
    /// after sign-in, after a filter change, or after the server rejected the cursor.
    pub restarted: bool,
    /// The records, oldest first.
    pub records: Vec<Record>,
    /// The number of records that the server skipped before this batch.
    pub dropped: u64,
    /// Whether the whole history has been sent.
    pub live: bool,
}

/// A page of the request log before the newest records.
#[derive(Clone, Debug, PartialEq)]
pub struct OlderPage {
    /// The filter expression.
    pub filter: String,
    /// The records, newest first. They may be in the log already.
    pub records: Vec<Record>,
    /// Whether there are no older records.
    pub is_last: bool,
}

// === impl Record ===

impl Record {
    /// Returns when the request ended. The gateway lists records in the order of this time.
    pub fn ended_at(&self) -> Option<Timestamp> {
        let took = self.duration_ms.filter(|it| !it.is_nan()).unwrap_or(0.0);
        let took = took.clamp(0.0, MAX_DURATION_MS);
        let took = SignedDuration::from_secs_f64(took / 1_000.0);
        self.started_at?.checked_add(took).ok()
    }
}

impl Tabular for Record {
    const COLUMNS: &'static [&'static str] = &[
        "started", "account", "model", "endpoint", "status", "error", "in", "out", "ttft", "took",
        "cost", "key", "id",
    ];
    const SHOWN: &'static [&'static str] = &[
        "started", "account", "model", "endpoint", "status", "error", "in", "out", "ttft", "took",
        "cost",
    ];

    fn value(&self, column: &str) -> Value {
        match column {
            "started" => Value::time(self.started_at),
            "account" => Value::text(&self.account),
            "model" => Value::optional_text(self.model.as_deref()),
            "endpoint" => Value::text(&self.endpoint),
            "status" => Value::optional_text(self.status.map(RequestStatus::name)),
            "error" => Value::optional_text(self.error_code.as_deref()),
            "in" => Value::count(self.tokens.input),
            "out" => Value::count(self.tokens.output),
            "ttft" => Value::milliseconds(self.ttft_ms),
            "took" => Value::milliseconds(self.duration_ms),
            "cost" => Value::amount(self.cost_usd.as_deref()),
            "key" => Value::text(&self.key),
            "id" => Value::text(&self.id),
            _ => Value::Unknown,
        }
    }
}

// === impl Tokens ===

impl Tokens {
    /// Returns the sum of input and output, if both are known.
    pub fn total(&self) -> Option<u64> {
        Some(self.input?.saturating_add(self.output?))
    }
}

// === impl RequestStatus ===

impl RequestStatus {
    /// All outcomes.
    pub const ALL: [Self; 6] = [
        Self::Completed,
        Self::Incomplete,
        Self::Failed,
        Self::Cancelled,
        Self::Interrupted,
        Self::Rejected,
    ];

    /// Returns the display name.
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

// === impl UsageBasis ===

impl UsageBasis {
    /// Returns the text for the "counted by" row.
    pub fn name(self) -> &'static str {
        match self {
            Self::Upstream => "the upstream",
            Self::Counted => "the gateway",
            Self::Bounded => "not counted: upper bound only",
            Self::Nothing => "not counted: nothing was used",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_implausible_duration_does_not_panic() {
        let start = Timestamp::from_second(1_795_010_000).ok();
        for (duration_ms, seconds) in [
            (Some(1_500.0), Some(1)),
            (Some(f64::NAN), Some(0)),
            (Some(f64::INFINITY), Some(30 * 86_400)),
            (Some(-5.0), Some(0)),
            (None, Some(0)),
        ] {
            let record = Record { started_at: start, duration_ms, ..Record::default() };
            let took = record.ended_at().zip(start).map(|(end, start)| end.duration_since(start));
            assert_eq!(took.map(|it| it.as_secs()), seconds, "{duration_ms:?}");
        }
        assert_eq!(Record { started_at: None, ..Record::default() }.ended_at(), None);
    }
}
