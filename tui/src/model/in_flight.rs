//! Requests in flight: those that went upstream and have not ended.

use jiff::Timestamp;

use super::fetched::ListEntry;
use super::table::{Tabular, Value};

/// The bytes of text that count as one token in an estimate.
const BYTES_PER_TOKEN: u64 = 4;

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
}

// === impl InFlight ===

impl InFlight {
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
