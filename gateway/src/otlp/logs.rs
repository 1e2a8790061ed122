//! Encodes log records (`LogRecord`): of the events of the log, and of requests from their records.

use jiff::Timestamp;

use super::attributes::Value;
use super::protobuf::MessageWriter;
use crate::telemetry::{FieldValue, LogEvent, LogLevel, LogValue, RequestFields};
use domain::record::RequestRecord;
use otlp_proto::logs::v1::SeverityNumber;

/// The list of attributes.
const ATTRIBUTES: u32 = 6;

/// Returns the record of an event that happened at `at`. The fields `trace_id` and `span_id` are its place in a trace.
pub(super) fn of_event(event: &LogEvent, at: Timestamp) -> Vec<u8> {
    let mut encoded = Vec::new();
    let mut record = MessageWriter::new(&mut encoded);
    begin(&mut record, event.level, &event.message, &event.name, at);
    for (name, value) in &event.fields {
        let value = match (*name, value) {
            ("trace_id", LogValue::Text(id)) => {
                record.bytes(9, &bytes(id));
                continue;
            }
            ("span_id", LogValue::Text(id)) => {
                record.bytes(10, &bytes(id));
                continue;
            }
            (_, LogValue::Text(value)) => Value::Text(value),
            (_, LogValue::Integer(value)) => Value::Number(*value),
            (_, LogValue::Float(value)) => Value::Float(*value),
            (_, LogValue::Flag(value)) => Value::Flag(*value),
        };
        record.attribute(ATTRIBUTES, name, value);
    }
    encoded
}

/// Returns the records of requests, whose lines have the time `at`.
pub(super) fn of_requests(requests: &[&RequestRecord], at: Timestamp) -> Vec<Vec<u8>> {
    let (mut encoded, mut fields) = (Vec::new(), RequestFields::default());
    let encode = |request: &&RequestRecord| {
        encoded.clear();
        let mut record = MessageWriter::new(&mut encoded);
        begin(&mut record, LogLevel::Info, "request", "request", at);
        fields.visit(request, |name, value| {
            let value = match value {
                // They are no attributes.
                _ if matches!(name, "trace_id" | "span_id") => return,
                FieldValue::Text(text) | FieldValue::Word(text) | FieldValue::Symbol(text) => {
                    Value::Text(text)
                }
                FieldValue::Number(number) => Value::count(number),
                FieldValue::Flag(flag) => Value::Flag(flag),
            };
            record.attribute(ATTRIBUTES, name, value);
        });
        if let Some(trace) = request.trace.as_deref() {
            record.bytes(9, &trace.trace_id.0);
            record.bytes(10, &trace.span_id.0);
        }
        encoded.clone()
    };
    requests.iter().map(encode).collect()
}

/// Appends what all records have.
fn begin(
    record: &mut MessageWriter<'_>,
    level: LogLevel,
    message: &str,
    event_name: &str,
    at: Timestamp,
) {
    let at = u64::try_from(at.as_nanosecond()).unwrap_or_default();
    let (severity, severity_text) = match level {
        LogLevel::Error => (SeverityNumber::Error, "ERROR"),
        LogLevel::Warn => (SeverityNumber::Warn, "WARN"),
        LogLevel::Info => (SeverityNumber::Info, "INFO"),
        LogLevel::Debug => (SeverityNumber::Debug, "DEBUG"),
        LogLevel::Trace => (SeverityNumber::Trace, "TRACE"),
    };
    record.fixed64(1, at);
    record.number(2, u64::from(i32::from(severity).cast_unsigned()));
    record.text(3, severity_text);
    record.value(5, Value::Text(message));
    record.fixed64(11, at);
    record.text(12, event_name);
}

/// Returns the bytes of hexadecimal digits; none if the text has others.
fn bytes(digits: &str) -> Vec<u8> {
    data_encoding::HEXLOWER.decode(digits.as_bytes()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use otlp_proto::common::v1::any_value::Value as AnyValue;
    use otlp_proto::logs::v1::LogRecord;

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
                ("credential", LogValue::Integer(-2)),
                ("share", LogValue::Float(0.5)),
                ("whole", LogValue::Flag(true)),
            ],
        };
        let record = of_event(&event, Timestamp::from_second(3).unwrap());
        let record = LogRecord::decode(&*record).unwrap();
        assert_eq!((record.time_unix_nano, &*record.event_name), (3_000_000_000, "attempt_failed"));
        assert_eq!(record.observed_time_unix_nano, record.time_unix_nano);
        assert_eq!((record.severity_number, &*record.severity_text), (13, "WARN"));
        let body = record.body.and_then(|body| body.value);
        assert_eq!(body, Some(AnyValue::StringValue("a message".to_owned())));
        assert_eq!((record.trace_id.len(), record.span_id), (16, vec![1, 2, 3, 4, 5, 6, 7, 8]));
        let attributes = record.attributes.into_iter().map(|attribute| {
            (attribute.key, attribute.value.and_then(|value| value.value).unwrap())
        });
        let expected = [
            ("upstream", AnyValue::StringValue("a".to_owned())),
            ("credential", AnyValue::IntValue(-2)),
            ("share", AnyValue::DoubleValue(0.5)),
            ("whole", AnyValue::BoolValue(true)),
        ];
        let expected = expected.map(|(key, value)| (key.to_owned(), value));
        assert_eq!(attributes.collect::<Vec<_>>(), expected);
    }
}
