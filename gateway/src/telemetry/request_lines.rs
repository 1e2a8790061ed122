//! The lines of the access log. They have the form of the log's events, but are made without one: those of a batch of
//! records are written into one buffer and queued at once, which costs a tenth.

use std::io::Write as _;

use jiff::Timestamp;

use super::LogFormat;
use super::journal;
use super::request_fields::{FieldValue, RequestFields};
use super::writer::{KEPT_BYTES, LineQueue};
use domain::record::RequestRecord;

/// Writes lines about requests to the log.
#[derive(Clone)]
pub struct RequestLines {
    queue: LineQueue,
    style: Style,
    fields: RequestFields,
    /// Reused for each batch.
    lines: Vec<u8>,
}

/// How lines look.
#[derive(Clone, Copy)]
pub(super) struct Style {
    pub(super) format: LogFormat,
    /// Whether text is coloured.
    pub(super) is_coloured: bool,
}

// === impl RequestLines ===

impl RequestLines {
    pub(super) fn new(queue: LineQueue, style: Style) -> Self {
        Self { queue, style, fields: RequestFields::default(), lines: Vec::new() }
    }

    /// Writes a line for each record, at the time `now`.
    pub(super) fn write(&mut self, records: &[&RequestRecord], now: Timestamp) {
        if !records.is_empty() {
            self.style.push(&mut self.lines, &mut self.fields, records, now);
            self.queue.push(&self.lines);
            self.lines.clear();
            self.lines.shrink_to(KEPT_BYTES);
        }
    }
}

// === impl Style ===

impl Style {
    /// Appends a line for each record.
    fn push(
        self,
        lines: &mut Vec<u8>,
        fields: &mut RequestFields,
        records: &[&RequestRecord],
        now: Timestamp,
    ) {
        let event = "request";
        let push = |line: &mut Vec<u8>, name: &str, value: FieldValue<'_>| match self.format {
            LogFormat::Human => push_human(line, name, value, self.is_coloured),
            LogFormat::Json | LogFormat::Journald => push_json(line, name, value),
        };
        let begin = match self.format {
            LogFormat::Human if self.is_coloured => {
                format!("\x1b[2m{now:.6}\x1b[0m \x1b[32m INFO\x1b[0m {event}")
            }
            LogFormat::Human => format!("{now:.6}  INFO {event}"),
            LogFormat::Json | LogFormat::Journald => {
                let prefix = match self.format {
                    LogFormat::Journald => journal::prefix(tracing::Level::INFO),
                    LogFormat::Human | LogFormat::Json => "",
                };
                format!(r#"{prefix}{{"timestamp":"{now:.6}","level":"INFO","message":"{event}""#)
            }
        };
        let mut begin = begin.into_bytes();
        push(&mut begin, "event", FieldValue::Word(event));
        let end: &[u8] = if self.format == LogFormat::Human { b"\n" } else { b"}\n" };
        for record in records {
            lines.extend_from_slice(&begin);
            fields.visit(record, |name, value| push(lines, name, value));
            lines.extend_from_slice(end);
        }
    }
}

/// Appends a member of a JSON object, after another one.
fn push_json(line: &mut Vec<u8>, name: &str, value: FieldValue<'_>) {
    line.extend_from_slice(b",\"");
    line.extend_from_slice(name.as_bytes());
    line.extend_from_slice(b"\":");
    match value {
        // Writing to a vector does not fail.
        FieldValue::Text(text) => _ = serde_json::to_writer(line, text),
        FieldValue::Word(word) | FieldValue::Symbol(word) => {
            line.push(b'"');
            line.extend_from_slice(word.as_bytes());
            line.push(b'"');
        }
        FieldValue::Number(number) => {
            line.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        }
        FieldValue::Flag(flag) => line.extend_from_slice(if flag { b"true" } else { b"false" }),
    }
}

fn push_human(line: &mut Vec<u8>, name: &str, value: FieldValue<'_>, is_coloured: bool) {
    _ = if is_coloured {
        write!(line, " \x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m")
    } else {
        write!(line, " {name}=")
    };
    _ = match value {
        // Quoted and escaped.
        FieldValue::Text(text) | FieldValue::Word(text) => write!(line, "{text:?}"),
        FieldValue::Symbol(symbol) => write!(line, "{symbol}"),
        FieldValue::Number(number) => write!(line, "{number}"),
        FieldValue::Flag(flag) => write!(line, "{flag}"),
    };
}

#[cfg(test)]
pub(super) mod tests {
    use std::num::NonZeroU32;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use tracing_subscriber::fmt::MakeWriter;
    use tracing_subscriber::fmt::format::Writer;
    use tracing_subscriber::fmt::time::FormatTime;
    use uuid::Uuid;

    use super::*;
    use domain::endpoint::Endpoint;
    use domain::id::{AccountId, KeyId, ModelId, RequestId, UpstreamName};
    use domain::money::Nanos;
    use domain::record::{RequestStatus, ServedBy};
    use domain::trace::RequestTrace;
    use domain::usage::{Tokens, Usage, UsageBasis};

    /// Shows always the same time.
    struct FixedTime(Timestamp);

    /// Keeps what is written.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl FormatTime for FixedTime {
        fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
            write!(writer, "{:.6}", self.0)
        }
    }

    impl std::io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Kept {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    pub(in super::super) fn refused() -> RequestRecord {
        RequestRecord {
            id: RequestId(Uuid::from_u128(1)),
            account: AccountId(Uuid::from_u128(2)),
            key: KeyId::new("k"),
            endpoint: Endpoint::ChatCompletions,
            model: Some(ModelId::new("a\"b\nc\u{1b}é")),
            deployment: None,
            stream: false,
            status: RequestStatus::Rejected,
            http_status: Some(404),
            error_code: Some("model_not_found".to_owned()),
            usage: None,
            basis: UsageBasis::Upstream,
            cost: None,
            overrun: Nanos::ZERO,
            price_version: None,
            started_at: Timestamp::from_second(1_764_146_526).unwrap(),
            duration: Duration::from_micros(1_999),
            ttft: None,
            notes: Vec::new(),
            idempotency: None,
            count: NonZeroU32::MIN,
            trace: None,
        }
    }

    fn answered() -> RequestRecord {
        let upstream = UpstreamName::new("u");
        let (input, output) = (Tokens(30), Tokens(u64::MAX));
        RequestRecord {
            model: Some(ModelId::new("m")),
            deployment: Some(ServedBy { upstream, upstream_model: "n".into() }),
            stream: true,
            status: RequestStatus::Completed,
            http_status: Some(200),
            error_code: None,
            usage: Some(Usage { input, cached: None, output, reasoning: None }),
            cost: Some(Nanos(1_500)),
            started_at: Timestamp::from_nanosecond(1_764_146_526_120_000_000).unwrap(),
            ttft: Some(Duration::from_millis(7)),
            trace: Some(Box::new(RequestTrace::new(
                RequestId(Uuid::from_u128(1)),
                None,
                Duration::ZERO,
            ))),
            ..refused()
        }
    }

    /// Logs the requests as events.
    fn log_events() {
        tracing::info!(
            event = "request",
            request_id = %Uuid::from_u128(1),
            account = %Uuid::from_u128(2),
            key = "k",
            endpoint = "chat.completions",
            model = "a\"b\nc\u{1b}é",
            stream = false,
            status = "rejected",
            http_status = 404,
            error_code = "model_not_found",
            started_at = %"2025-11-26T08:42:06Z",
            duration_ms = 1_u64,
            requests = 1,
            "request"
        );
        tracing::info!(
            event = "request",
            request_id = %Uuid::from_u128(1),
            account = %Uuid::from_u128(2),
            key = "k",
            endpoint = "chat.completions",
            model = "m",
            upstream = "u",
            stream = true,
            status = "completed",
            http_status = 200,
            started_at = %"2025-11-26T08:42:06.12Z",
            duration_ms = 1_u64,
            ttft_ms = 7_u64,
            input_tokens = 30,
            output_tokens = u64::MAX,
            cost_usd = %"0.0000015",
            requests = 1,
            trace_id = %"00000000000000000000000000000001",
            span_id = %"0000000000000001",
            "request"
        );
    }

    #[test]
    fn lines_have_the_form_of_events() {
        let now = Timestamp::from_nanosecond(1_764_146_527_000_123_999).unwrap();
        for (format, is_coloured) in [
            (LogFormat::Human, false),
            (LogFormat::Human, true),
            (LogFormat::Json, false),
            (LogFormat::Journald, false),
        ] {
            let events = Kept::default();
            let builder = tracing_subscriber::fmt()
                .with_timer(FixedTime(now))
                .with_writer(events.clone())
                .with_ansi(is_coloured)
                .with_target(false);
            if format == LogFormat::Human {
                tracing::subscriber::with_default(builder.finish(), log_events);
            } else {
                let builder = builder.json().flatten_event(true);
                let builder = builder.with_current_span(false).with_span_list(false);
                tracing::subscriber::with_default(builder.finish(), log_events);
            }
            let events = String::from_utf8(std::mem::take(&mut *events.0.lock().unwrap())).unwrap();
            let (records, style) = ([refused(), answered()], Style { format, is_coloured });
            let mut lines = Vec::new();
            style.push(&mut lines, &mut RequestFields::default(), &records.each_ref()[..], now);
            let lines = String::from_utf8(lines).unwrap();
            let prefix = if format == LogFormat::Journald { "<6>" } else { "" };
            let events: Vec<_> = events.lines().map(|line| format!("{prefix}{line}")).collect();
            assert_eq!(lines.lines().collect::<Vec<_>>(), events);
        }
    }
}
