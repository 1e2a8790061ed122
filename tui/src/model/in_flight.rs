//! Requests in flight: those that went upstream and have not ended.

use jiff::Timestamp;

use super::fetched::ListEntry;
use super::recent::Recent;
use super::table::{Tabular, Value};

/// The bytes of text that count as one token in an estimate.
const BYTES_PER_TOKEN: u64 = 4;

/// The number of recent requests for a model from which on their durations say what is usual.
pub const MIN_RECENT_REQUESTS: u64 = 20;
/// The duration that is assumed to be usual for other models, in milliseconds.
const USUAL_MS: f64 = 60_000.0;

/// A request in flight.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InFlight {
    /// The id that the client receives in `x-request-id`.
    pub id: String,
    /// The account's name.
    pub account: String,
    /// The key's public id.
    pub key: String,
    /// The API endpoint, such as `chat.completions`.
    pub endpoint: String,
    /// The model id.
    pub model: String,
    /// The deployment that it was sent to last.
    pub deployment: String,
    /// Whether the client requested a stream.
    pub stream: bool,
    /// The time of arrival.
    pub started_at: Option<Timestamp>,
    /// The time since then by the gateway's clock, in milliseconds.
    pub age_ms: f64,
    /// The length of the text that was sent upstream, in bytes.
    pub input_bytes: u64,
    /// The length of the text that was received so far, in bytes.
    pub output_bytes: u64,
    /// The recent requests for its model that were answered, if there are any.
    pub recent: Option<Recent>,
}

// === impl InFlight ===

impl InFlight {
    /// Returns the age from which on it is late, in milliseconds: the 99th percentile of the durations
    /// of recent requests for its model, if there are enough of them.
    pub fn late_after_ms(&self) -> f64 {
        let known = self.recent.as_ref().filter(|recent| recent.requests >= MIN_RECENT_REQUESTS);
        known.and_then(|recent| recent.p99_ms).unwrap_or(USUAL_MS)
    }

    /// Returns whether it takes longer than requests for its model usually do.
    pub fn is_late(&self) -> bool {
        self.age_ms > self.late_after_ms()
    }

    /// Returns an estimate of the output tokens so far.
    pub fn output_tokens(&self) -> u64 {
        self.output_bytes.div_ceil(BYTES_PER_TOKEN)
    }
}

impl Tabular for InFlight {
    const COLUMNS: &'static [&'static str] =
        &["age", "account", "model", "endpoint", "≈ out", "served by", "key", "id"];

    fn value(&self, column: &str) -> Value {
        match column {
            "age" => Value::Milliseconds(self.age_ms),
            "account" => Value::text(&self.account),
            "model" => Value::text(&self.model),
            "endpoint" => Value::text(&self.endpoint),
            "≈ out" => Value::Count(self.output_tokens()),
            "served by" => Value::text(&self.deployment),
            "key" => Value::text(&self.key),
            "id" => Value::text(&self.id),
            _ => Value::Unknown,
        }
    }
}

impl ListEntry for InFlight {
    fn id(&self) -> &str {
        &self.id
    }

    fn texts(&self) -> Vec<&str> {
        vec![&self.id, &self.account, &self.model]
    }
}
