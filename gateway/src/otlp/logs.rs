//! Makes log records from events of the log.

use jiff::Timestamp;

use super::attributes::{flag, float, number, text, text_value};
use crate::telemetry::{LogEvent, LogLevel, LogValue};
use otlp_proto::logs::v1::{LogRecord, SeverityNumber};

/// Returns the record of an event that happened at `at`. The fields `trace_id` and `span_id` are its place in a trace.
pub(super) fn record(event: LogEvent, at: Timestamp) -> LogRecord {
    let at = u64::try_from(at.as_nanosecond()).unwrap_or_default();
    let (severity, severity_text) = match event.level {
        LogLevel::Error => (SeverityNumber::Error, "ERROR"),
        LogLevel::Warn => (SeverityNumber::Warn, "WARN"),
        LogLevel::Info => (SeverityNumber::Info, "INFO"),
        LogLevel::Debug => (SeverityNumber::Debug, "DEBUG"),
        LogLevel::Trace => (SeverityNumber::Trace, "TRACE"),
    };
    let mut record = LogRecord {
        time_unix_nano: at,
        observed_time_unix_nano: at,
        severity_number: severity.into(),
        severity_text: severity_text.to_owned(),
        body: Some(text_value(event.message)),
        event_name: event.name,
        ..LogRecord::default()
    };
    for (name, value) in event.fields {
        match (name, value) {
            ("trace_id", LogValue::Text(id)) => record.trace_id = bytes(&id),
            ("span_id", LogValue::Text(id)) => record.span_id = bytes(&id),
            (name, LogValue::Text(value)) => record.attributes.push(text(name, value)),
            (name, LogValue::Integer(value)) => record.attributes.push(number(name, value)),
            (name, LogValue::Float(value)) => record.attributes.push(float(name, value)),
            (name, LogValue::Flag(value)) => record.attributes.push(flag(name, value)),
        }
    }
    record
}

/// Returns the bytes of hexadecimal digits; none if the text has others.
fn bytes(digits: &str) -> Vec<u8> {
    data_encoding::HEXLOWER.decode(digits.as_bytes()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_its_name_severity_fields_and_trace() {
        let event = LogEvent {
            level: LogLevel::Warn,
            name: "attempt_failed".to_owned(),
            message: "a message".to_owned(),
            fields: vec![
                ("trace_id", LogValue::Text("0102030405060708090a0b0c0d0e0f10".to_owned())),
                ("span_id", LogValue::Text("0102030405060708".to_owned())),
                ("upstream", LogValue::Text("a".to_owned())),
                ("credential", LogValue::Integer(2)),
            ],
        };
        let record = record(event, Timestamp::from_second(3).unwrap());
        assert_eq!((record.time_unix_nano, &*record.event_name), (3_000_000_000, "attempt_failed"));
        assert_eq!((record.severity_number, &*record.severity_text), (13, "WARN"));
        assert_eq!((record.trace_id.len(), record.span_id), (16, vec![1, 2, 3, 4, 5, 6, 7, 8]));
        assert_eq!(record.attributes, [text("upstream", "a"), number("credential", 2)]);
    }
}
