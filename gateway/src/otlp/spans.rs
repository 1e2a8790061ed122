//! Encodes the spans (`Span`) of a request, from its record.
//!
//! The span of the request has the attributes of the semantic conventions for HTTP servers and for generative AI, and
//! those of Tollgate (`tollgate.…`), which have the names of the fields of records. Below it are the admission, each
//! attempt with its wait for a connection, the time to the first token, and the settlement.

use std::time::Duration;

use jiff::Timestamp;
use uuid::fmt::Hyphenated;

use super::attributes::Value;
use super::protobuf::MessageWriter;
use domain::endpoint::Endpoint;
use domain::money::Nanos;
use domain::record::{RequestRecord, RequestStatus};
use domain::trace::{AttemptNumber, AttemptTrace, ChildSpan, RequestTrace, SpanId};
use otlp_proto::trace::v1::span::SpanKind;
use otlp_proto::trace::v1::status::StatusCode;

/// The list of attributes.
const ATTRIBUTES: u32 = 9;
/// The memory that is first reserved for the span of a request, and for another one.
const TYPICAL_SERVER_SPAN_BYTES: usize = 1_024;
const TYPICAL_SPAN_BYTES: usize = 192;
/// The attributes with the text of a request and of its answer.
const CONTENT: [&str; 2] = ["gen_ai.input.messages", "gen_ai.output.messages"];
/// The label of an attempt that was cancelled because another one was answered.
const CANCELLED: &str = "cancelled";
/// The flags of a span: it is sampled, and it is known whether its parent is remote.
const SAMPLED: u32 = 0x101;
/// The flag of a span with a remote parent.
const HAS_REMOTE_PARENT: u32 = 0x200;

/// What each span has. Times are monotonic.
struct Span<'a> {
    id: SpanId,
    parent: Option<SpanId>,
    flags: u32,
    name: &'a str,
    kind: SpanKind,
    from: Duration,
    to: Duration,
}

/// The error of an attempt.
struct AttemptError<'a> {
    label: &'a str,
    /// Whether something failed; otherwise the attempt was cancelled.
    is_failure: bool,
}

/// Encodes the spans of one request.
struct Encoder<'a> {
    trace: &'a RequestTrace,
    /// When the request arrived.
    started_at: Timestamp,
    spans: Vec<Vec<u8>>,
}

/// Returns the attributes of a span with the messages of a request and of its answer, as JSON.
pub(super) fn text(messages: [Option<&str>; 2]) -> Vec<u8> {
    let mut encoded = Vec::new();
    let mut span = MessageWriter::new(&mut encoded);
    for (name, messages) in CONTENT.into_iter().zip(messages) {
        if let Some(messages) = messages {
            span.attribute(ATTRIBUTES, name, Value::Text(messages));
        }
    }
    encoded
}

/// Returns the spans of a request; the first one is that of the request itself. `model` is the id in the catalogue of the
/// model that was requested.
pub(super) fn of(
    record: &RequestRecord,
    trace: &RequestTrace,
    model: Option<&str>,
) -> Vec<Vec<u8>> {
    let answered = trace.arrived_at + record.duration;
    let ended = trace.settled_at.unwrap_or(answered).max(answered);
    let mut encoder = Encoder { trace, started_at: record.started_at, spans: Vec::new() };
    encoder.request(record, model, ended);
    if let Some((_, first)) = trace.attempts().next() {
        encoder.child(ChildSpan::Admission, "admission", trace.arrived_at, first.began_at);
    }
    let answering = trace.attempts().filter(|(_, it)| it.ended_at.is_none()).last();
    if let (Some((_, attempt)), Some(ttft)) = (answering, record.ttft) {
        let first_token = trace.arrived_at + ttft;
        encoder.child(ChildSpan::FirstToken, "first_token", attempt.began_at, first_token);
    }
    if trace.attempts().next().is_some() {
        encoder.child(ChildSpan::Settlement, "settlement", answered, ended);
    }
    for (attempt_number, attempt) in trace.attempts() {
        let answer_error = is_error(record)
            .then(|| AttemptError { label: error_label(record), is_failure: failed(record) });
        let error = match attempt.error.as_deref() {
            Some(label) => Some(AttemptError { label, is_failure: label != CANCELLED }),
            None => answer_error.filter(|_| attempt.ended_at.is_none()),
        };
        encoder.attempt(attempt_number, attempt, error.as_ref(), answered);
    }
    encoder.spans
}

// === impl Encoder ===

impl Encoder<'_> {
    /// Adds the span of the request.
    fn request(&mut self, record: &RequestRecord, model: Option<&str>, ended: Duration) {
        let (method, route) = method_and_route(record.endpoint);
        let name = [method.unwrap_or("HTTP"), route].join(" ");
        let parent = self.trace.parent_id;
        let remote = if parent.is_some() { HAS_REMOTE_PARENT } else { 0 };
        let span = Span {
            id: self.trace.span_id,
            parent,
            flags: SAMPLED | remote,
            name: name.trim_end(),
            kind: SpanKind::Server,
            from: self.trace.arrived_at,
            to: ended,
        };
        self.span(&span, |span| {
            put_http_attributes(span, record, method, route);
            if let Some(model) = model {
                put_gen_ai_attributes(span, record, model);
            }
            put_own_attributes(span, record);
            if failed(record) {
                put_error_status(span, error_label(record));
            }
        });
    }

    /// Adds a span below that of the request.
    fn child(&mut self, span: ChildSpan, name: &str, from: Duration, to: Duration) {
        let (id, parent) = (self.trace.child(span), Some(self.trace.span_id));
        let kind = SpanKind::Internal;
        self.span(&Span { id, parent, flags: SAMPLED, name, kind, from, to }, |_| {});
    }

    /// Adds the span of an attempt that ended with `error`, if any, and that of its wait for a connection.
    fn attempt(
        &mut self,
        attempt_number: AttemptNumber,
        attempt: &AttemptTrace,
        error: Option<&AttemptError<'_>>,
        answered: Duration,
    ) {
        let AttemptTrace { served_by, credential, began_at, ended_at, queued_for, error: _ } =
            attempt;
        let id = self.trace.child(ChildSpan::Attempt(attempt_number));
        let span = Span {
            id,
            parent: Some(self.trace.span_id),
            flags: SAMPLED,
            name: &format!("chat {}", served_by.upstream_model),
            kind: SpanKind::Client,
            from: *began_at,
            to: ended_at.unwrap_or(answered),
        };
        self.span(&span, |span| {
            let mut put = |key, value| span.attribute(ATTRIBUTES, key, value);
            put("gen_ai.operation.name", Value::Text("chat"));
            put("gen_ai.provider.name", Value::Text(served_by.upstream.as_str()));
            put("gen_ai.request.model", Value::Text(&served_by.upstream_model));
            if let Some(number) = *credential {
                put("tollgate.credential", Value::count(number));
            }
            if let Some(&AttemptError { label, is_failure }) = error {
                put("error.type", Value::Text(label));
                if is_failure {
                    put_error_status(span, label);
                }
            }
        });
        if let Some(waited) = *queued_for {
            let span = Span {
                id: self.trace.child(ChildSpan::Queue(attempt_number)),
                parent: Some(id),
                flags: SAMPLED,
                name: "queue",
                kind: SpanKind::Internal,
                from: *began_at,
                to: *began_at + waited,
            };
            self.span(&span, |_| {});
        }
    }

    /// Adds a span, with what `rest` appends to it.
    fn span(&mut self, span: &Span<'_>, rest: impl FnOnce(&mut MessageWriter<'_>)) {
        let mut encoded = Vec::with_capacity(match span.kind {
            SpanKind::Server => TYPICAL_SERVER_SPAN_BYTES,
            _ => TYPICAL_SPAN_BYTES,
        });
        let mut writer = MessageWriter::new(&mut encoded);
        writer.bytes(1, &self.trace.trace_id.0);
        writer.bytes(2, &span.id.0);
        if let Some(parent) = span.parent {
            writer.bytes(4, &parent.0);
        }
        writer.text(5, span.name);
        writer.number(6, u64::from(i32::from(span.kind).cast_unsigned()));
        writer.fixed64(7, self.unix_nanos(span.from));
        writer.fixed64(8, self.unix_nanos(span.to.max(span.from)));
        writer.fixed32(16, span.flags);
        rest(&mut writer);
        self.spans.push(encoded);
    }

    /// Converts a monotonic time to that of the wall clock, by the arrival.
    fn unix_nanos(&self, monotonic: Duration) -> u64 {
        let at = self.started_at + monotonic.saturating_sub(self.trace.arrived_at);
        u64::try_from(at.as_nanosecond()).unwrap_or_default()
    }
}

/// Returns the method and the route of an endpoint.
fn method_and_route(endpoint: Endpoint) -> (Option<&'static str>, &'static str) {
    match endpoint {
        Endpoint::ChatCompletions => (Some("POST"), "/v1/chat/completions"),
        Endpoint::Responses => (Some("POST"), "/v1/responses"),
        // It has several methods, and the record does not say which.
        Endpoint::Response => (None, "/v1/responses/{id}"),
        Endpoint::Models => (Some("GET"), "/v1/models"),
        Endpoint::Model => (Some("GET"), "/v1/models/{id}"),
        Endpoint::Other => (None, ""),
    }
}

/// Appends the attributes of the conventions for HTTP.
fn put_http_attributes(
    span: &mut MessageWriter<'_>,
    record: &RequestRecord,
    method: Option<&str>,
    route: &str,
) {
    let mut put = |key, value| span.attribute(ATTRIBUTES, key, value);
    if let Some(method) = method {
        put("http.request.method", Value::Text(method));
    }
    if !route.is_empty() {
        put("http.route", Value::Text(route));
    }
    if let Some(status) = record.http_status {
        put("http.response.status_code", Value::count(status));
    }
    if is_error(record) {
        put("error.type", Value::Text(error_label(record)));
    }
}

/// Appends the attributes of the conventions for generative AI. The gateway is the provider, as in the metrics.
fn put_gen_ai_attributes(span: &mut MessageWriter<'_>, record: &RequestRecord, model: &str) {
    let mut put = |key, value| span.attribute(ATTRIBUTES, key, value);
    put("gen_ai.operation.name", Value::Text("chat"));
    put("gen_ai.provider.name", Value::Text("tollgate"));
    put("gen_ai.request.model", Value::Text(model));
    let Some(usage) = &record.usage else { return };
    put("gen_ai.usage.input_tokens", Value::count(usage.input.0));
    put("gen_ai.usage.output_tokens", Value::count(usage.output.0));
    if let Some(cached) = usage.cached {
        put("tollgate.cached_tokens", Value::count(cached.0));
    }
    if let Some(reasoning) = usage.reasoning {
        put("tollgate.reasoning_tokens", Value::count(reasoning.0));
    }
}

/// Appends the other fields of the record.
fn put_own_attributes(span: &mut MessageWriter<'_>, record: &RequestRecord) {
    let mut put = |key: &str, value: Value<'_>| span.attribute(ATTRIBUTES, key, value);
    for (key, id) in [("tollgate.request_id", record.id.0), ("tollgate.account", record.account.0)]
    {
        let mut buffer = [0; Hyphenated::LENGTH];
        put(key, Value::Text(id.as_hyphenated().encode_lower(&mut buffer)));
    }
    put("tollgate.key", Value::Text(record.key.as_str()));
    put("tollgate.endpoint", Value::Text(record.endpoint.as_str()));
    put("tollgate.status", Value::Text(record.status.as_str()));
    put("tollgate.stream", Value::Flag(record.stream));
    put("tollgate.requests", Value::count(record.count.get()));
    if let Some(served_by) = &record.deployment {
        put("tollgate.upstream", Value::Text(served_by.upstream.as_str()));
    }
    if let Some(cost) = record.cost {
        put("tollgate.cost_usd", Value::Float(dollars(cost)));
    }
    if let Some(ttft) = record.ttft {
        put("tollgate.ttft_seconds", Value::Float(ttft.as_secs_f64()));
    }
}

/// Returns whether the gateway or an upstream failed; a refusal is the client's error, and no failure of the server.
fn failed(record: &RequestRecord) -> bool {
    matches!(record.status, RequestStatus::Failed | RequestStatus::Interrupted)
        || record.http_status.is_some_and(|status| status >= 500)
}

/// Returns whether the request had no complete answer, for whatever reason.
fn is_error(record: &RequestRecord) -> bool {
    let is_answered = matches!(record.status, RequestStatus::Completed | RequestStatus::Incomplete);
    !is_answered || failed(record)
}

/// Returns the error code of a request without a complete answer; its status if there is none, as when the client
/// disconnected.
fn error_label(record: &RequestRecord) -> &str {
    record.error_word().unwrap_or_else(|| record.status.as_str())
}

fn put_error_status(span: &mut MessageWriter<'_>, message: &str) {
    span.message(15, |status| {
        status.text(2, message);
        status.number(3, u64::from(i32::from(StatusCode::Error).cast_unsigned()));
    });
}

#[expect(
    clippy::cast_precision_loss,
    reason = "exact to the nanodollar up to nine million dollars"
)]
fn dollars(amount: Nanos) -> f64 {
    amount.0 as f64 / 1e9
}
