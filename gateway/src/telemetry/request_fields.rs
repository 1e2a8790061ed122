//! The fields of a request in the log, from its record: for the lines of the access log and for the log records that are
//! exported.

use std::fmt::{self, Write as _};
use std::time::Duration;

use jiff::Timestamp;
use uuid::fmt::Hyphenated;

use domain::id::ModelId;
use domain::record::RequestRecord;

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldValue<'a> {
    /// A text, which may be from a client and have any characters.
    Text(&'a str),
    /// A word. Has no character that JSON escapes.
    Word(&'a str),
    /// An id, a time or an amount. Has no character that any format escapes.
    Symbol(&'a str),
    /// A number.
    Number(u64),
    /// True or false.
    Flag(bool),
}

/// Visits the fields of records. Reuses its buffers.
#[derive(Clone, Default)]
pub struct RequestFields {
    started_at: TimestampText,
    text: String,
}

/// The text of a time. Keeps the date and the time of day of the last second, because computing them takes ten times as
/// long as the rest.
#[derive(Clone, Default)]
struct TimestampText {
    text: String,
    /// The second that the text begins with; `None` if there is none.
    second: Option<i64>,
    /// The length of the text of the second.
    length: usize,
}

// === impl RequestFields ===

impl RequestFields {
    /// Passes the fields of `record` to `field`, in the order of the line.
    pub fn visit(
        &mut self,
        record: &RequestRecord,
        mut field: impl FnMut(&'static str, FieldValue<'_>),
    ) {
        use FieldValue::{Flag, Number, Symbol, Text, Word};

        let Self { started_at, text } = self;
        let mut id = [0; Hyphenated::LENGTH];
        let millis = |time: Duration| Number(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        field("request_id", Symbol(record.id.0.as_hyphenated().encode_lower(&mut id)));
        field("account", Symbol(record.account.0.as_hyphenated().encode_lower(&mut id)));
        field("key", Text(record.key.as_str()));
        field("endpoint", Word(record.endpoint.as_str()));
        if let Some(model) = record.model.as_ref().map(ModelId::as_str) {
            field("model", Text(model));
        }
        if let Some(deployment) = &record.deployment {
            field("upstream", Text(deployment.upstream.as_str()));
        }
        field("stream", Flag(record.stream));
        field("status", Word(record.status.as_str()));
        if let Some(status) = record.http_status {
            field("http_status", Number(status.into()));
        }
        if let Some(code) = record.error_word() {
            field("error_code", Word(code));
        }
        field("started_at", Symbol(started_at.format(record.started_at)));
        field("duration_ms", millis(record.duration));
        if let Some(ttft) = record.ttft {
            field("ttft_ms", millis(ttft));
        }
        if let Some(usage) = &record.usage {
            field("input_tokens", Number(usage.input.0));
            field("output_tokens", Number(usage.output.0));
        }
        if let Some(cost) = record.cost {
            field("cost_usd", symbol(text, cost));
        }
        field("requests", Number(record.count.get().into()));
        if let Some(trace) = record.trace.as_deref() {
            field("trace_id", symbol(text, trace.trace_id));
            field("span_id", symbol(text, trace.span_id));
        }
    }
}

/// Returns the text of a value, which is written to `buffer`.
fn symbol(buffer: &mut String, value: impl fmt::Display) -> FieldValue<'_> {
    buffer.clear();
    // Writing to a string does not fail.
    _ = write!(buffer, "{value}");
    FieldValue::Symbol(buffer)
}

// === impl TimestampText ===

impl TimestampText {
    /// Returns the text of a time as `jiff` shows it.
    fn format(&mut self, at: Timestamp) -> &str {
        let second = at.as_second();
        let Ok(fraction) = u32::try_from(at.subsec_nanosecond()) else {
            // Before 1970, it is negative.
            *self = Self { text: at.to_string(), ..Self::default() };
            return &self.text;
        };
        if self.second != Some(second) {
            self.text.clear();
            _ = write!(self.text, "{at:.0}");
            // Without the `Z` at its end.
            (self.second, self.length) = (Some(second), self.text.len() - 1);
        }
        self.text.truncate(self.length);
        if fraction > 0 {
            // The leading one keeps the zeros behind it.
            let mut digits = itoa::Buffer::new();
            let digits = &digits.format(1_000_000_000 + fraction)[1..];
            self.text.push('.');
            self.text.push_str(digits.trim_end_matches('0'));
        }
        self.text.push('Z');
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_by_jiff() {
        let mut text = TimestampText::default();
        for nanos in [
            0,
            1,
            999_999_999,
            1_000_000_000,
            1_500_000_000,
            1_500_000_001,
            1_764_146_526_123_456_000,
            1_764_146_526_000_000_000,
            1_764_146_526_000_100_000,
            -1,
            -1_500_000_000,
            1_764_146_526_120_000_000,
        ] {
            let at = Timestamp::from_nanosecond(nanos).unwrap();
            assert_eq!(text.format(at), at.to_string());
        }
    }
}
