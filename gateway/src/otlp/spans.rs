//! Makes the spans of a request from its record.
//!
//! The span of the request has the attributes of the semantic conventions for HTTP servers and for generative AI, and
//! those of Tollgate (`tollgate.…`), which have the names of the fields of records, and the text of prompt and answer if
//! the key has opted in. Below it are the admission, each
//! attempt with its wait for a connection, the time to the first token, and the settlement.

use std::time::Duration;

use jiff::Timestamp;

use super::attributes::{flag, float, number, text};
use domain::endpoint::Endpoint;
use domain::money::Nanos;
use domain::record::{RequestRecord, RequestStatus};
use domain::trace::{AttemptNumber, AttemptTrace, ChildSpan, RequestTrace};
use otlp_proto::common::v1::KeyValue;
use otlp_proto::trace::v1::Span;
use otlp_proto::trace::v1::span::SpanKind;
use otlp_proto::trace::v1::status::StatusCode;

/// The attributes with the text of a request and of its answer.
const CONTENT: [&str; 2] = ["gen_ai.input.messages", "gen_ai.output.messages"];
/// The label of an attempt that was cancelled because another one was answered.
const CANCELLED: &str = "cancelled";
/// The flags of a span: it is sampled, and it is known whether its parent is remote.
const SAMPLED: u32 = 0x101;
/// The flag of a span with a remote parent.
const HAS_REMOTE_PARENT: u32 = 0x200;

/// Removes the text of a request and of its answer from its span.
pub(super) fn remove_text(span: &mut Span) {
    span.attributes.retain(|attribute| !CONTENT.contains(&attribute.key.as_str()));
}

/// Returns the spans of a request; the first one, that of the request itself, has the text of a request whose key has
/// opted in. `model` is the id in the catalogue of the model that was requested.
pub(super) fn of(record: &RequestRecord, trace: &RequestTrace, model: Option<String>) -> Vec<Span> {
    let times = Times { started_at: record.started_at, arrived_at: trace.arrived_at };
    let answered = trace.arrived_at + record.duration;
    let ended = trace.settled_at.unwrap_or(answered).max(answered);
    let (name, mut attributes) = server_attributes(record);
    attributes.extend(gen_ai_attributes(record, model));
    attributes.extend(own_attributes(record));
    if let Some(content) = trace.content.as_deref() {
        let messages = [&content.input_messages, &content.output_messages];
        let messages = CONTENT.into_iter().zip(messages);
        attributes.extend(messages.filter_map(|(name, it)| Some(text(name, it.as_ref()?))));
    }
    let parent = trace.parent_id.map_or_else(Vec::new, |parent| parent.0.to_vec());
    let remote = if trace.parent_id.is_some() { HAS_REMOTE_PARENT } else { 0 };
    let mut spans = vec![Span {
        trace_id: trace.trace_id.0.to_vec(),
        span_id: trace.span_id.0.to_vec(),
        parent_span_id: parent,
        flags: SAMPLED | remote,
        name,
        kind: SpanKind::Server.into(),
        start_time_unix_nano: times.unix_nanos(trace.arrived_at),
        end_time_unix_nano: times.unix_nanos(ended),
        attributes,
        status: failed(record).then(|| error_status(error_label(record))),
        ..Span::default()
    }];
    let mut child = |span, name: &str, from, to| {
        spans.push(Span {
            span_id: trace.child(span).0.to_vec(),
            parent_span_id: trace.span_id.0.to_vec(),
            name: name.to_owned(),
            kind: SpanKind::Internal.into(),
            ..times.span(trace, from, to)
        });
    };
    if let Some((_, first)) = trace.attempts().next() {
        child(ChildSpan::Admission, "admission", trace.arrived_at, first.began_at);
    }
    let answering = trace.attempts().filter(|(_, it)| it.ended_at.is_none()).last();
    if let (Some((_, attempt)), Some(ttft)) = (answering, record.ttft) {
        child(ChildSpan::FirstToken, "first_token", attempt.began_at, trace.arrived_at + ttft);
    }
    if trace.attempts().next().is_some() {
        child(ChildSpan::Settlement, "settlement", answered, ended);
    }
    for (attempt_number, attempt) in trace.attempts() {
        let answer_error = is_error(record)
            .then(|| AttemptError { label: error_label(record), is_failure: failed(record) });
        let error = match attempt.error.as_deref() {
            Some(label) => Some(AttemptError { label, is_failure: label != CANCELLED }),
            None => answer_error.filter(|_| attempt.ended_at.is_none()),
        };
        spans.extend(attempt_spans(trace, &times, attempt_number, attempt, error, answered));
    }
    spans
}

/// The error of an attempt.
struct AttemptError<'a> {
    label: &'a str,
    /// Whether something failed; otherwise the attempt was cancelled.
    is_failure: bool,
}

/// Returns the span of an attempt that ended with `error`, if any, and that of its wait for a connection.
fn attempt_spans(
    trace: &RequestTrace,
    times: &Times,
    attempt_number: AttemptNumber,
    attempt: &AttemptTrace,
    error: Option<AttemptError<'_>>,
    answered: Duration,
) -> impl Iterator<Item = Span> {
    let AttemptTrace { served_by, credential, began_at, ended_at, queued_for, error: _ } = attempt;
    let span_id = trace.child(ChildSpan::Attempt(attempt_number)).0.to_vec();
    let mut attributes = vec![
        text("gen_ai.operation.name", "chat"),
        text("gen_ai.provider.name", served_by.upstream.as_str()),
        text("gen_ai.request.model", &*served_by.upstream_model),
    ];
    attributes.extend(credential.map(|it| number("tollgate.credential", it)));
    attributes.extend(error.as_ref().map(|error| text("error.type", error.label)));
    let failure = error.filter(|error| error.is_failure);
    let span = Span {
        span_id: span_id.clone(),
        parent_span_id: trace.span_id.0.to_vec(),
        name: format!("chat {}", served_by.upstream_model),
        kind: SpanKind::Client.into(),
        attributes,
        status: failure.map(|error| error_status(error.label)),
        ..times.span(trace, *began_at, ended_at.unwrap_or(answered))
    };
    let queue = queued_for.map(|waited| Span {
        span_id: trace.child(ChildSpan::Queue(attempt_number)).0.to_vec(),
        parent_span_id: span_id,
        name: "queue".to_owned(),
        kind: SpanKind::Internal.into(),
        ..times.span(trace, *began_at, *began_at + waited)
    });
    [span].into_iter().chain(queue)
}

/// Returns the name of the span, and its attributes of the conventions for HTTP.
fn server_attributes(record: &RequestRecord) -> (String, Vec<KeyValue>) {
    let (method, route) = match record.endpoint {
        Endpoint::ChatCompletions => (Some("POST"), "/v1/chat/completions"),
        Endpoint::Responses => (Some("POST"), "/v1/responses"),
        // It has several methods, and the record does not say which.
        Endpoint::Response => (None, "/v1/responses/{id}"),
        Endpoint::Models => (Some("GET"), "/v1/models"),
        Endpoint::Model => (Some("GET"), "/v1/models/{id}"),
        Endpoint::Other => (None, ""),
    };
    let parts = [method.unwrap_or("HTTP"), route];
    let mut attributes = Vec::with_capacity(24);
    attributes.extend(method.map(|method| text("http.request.method", method)));
    if !route.is_empty() {
        attributes.push(text("http.route", route));
    }
    attributes.extend(record.http_status.map(|it| number("http.response.status_code", it)));
    if is_error(record) {
        attributes.push(text("error.type", error_label(record)));
    }
    (parts.join(" ").trim_end().to_owned(), attributes)
}

/// Returns the attributes of the conventions for generative AI. The gateway is the provider, as in the metrics.
fn gen_ai_attributes(record: &RequestRecord, model: Option<String>) -> Vec<KeyValue> {
    let Some(model) = model else { return Vec::new() };
    let mut attributes = vec![
        text("gen_ai.operation.name", "chat"),
        text("gen_ai.provider.name", "tollgate"),
        text("gen_ai.request.model", model),
    ];
    if let Some(usage) = &record.usage {
        attributes.push(number("gen_ai.usage.input_tokens", usage.input.0));
        attributes.push(number("gen_ai.usage.output_tokens", usage.output.0));
        attributes.extend(usage.cached.map(|it| number("tollgate.cached_tokens", it.0)));
        attributes.extend(usage.reasoning.map(|it| number("tollgate.reasoning_tokens", it.0)));
    }
    attributes
}

/// Returns the other fields of the record.
fn own_attributes(record: &RequestRecord) -> Vec<KeyValue> {
    let mut attributes = vec![
        text("tollgate.request_id", record.id.to_string()),
        text("tollgate.account", record.account.to_string()),
        text("tollgate.key", record.key.as_str()),
        text("tollgate.endpoint", record.endpoint.as_str()),
        text("tollgate.status", record.status.as_str()),
        flag("tollgate.stream", record.stream),
        number("tollgate.requests", record.count.get()),
    ];
    let served_by = record.deployment.as_ref();
    attributes.extend(served_by.map(|it| text("tollgate.upstream", it.upstream.as_str())));
    attributes.extend(record.cost.map(|cost| float("tollgate.cost_usd", dollars(cost))));
    attributes.extend(record.ttft.map(|ttft| float("tollgate.ttft_seconds", ttft.as_secs_f64())));
    attributes
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

fn error_status(message: &str) -> otlp_proto::trace::v1::Status {
    otlp_proto::trace::v1::Status { code: StatusCode::Error.into(), message: message.to_owned() }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "exact to the nanodollar up to nine million dollars"
)]
fn dollars(amount: Nanos) -> f64 {
    amount.0 as f64 / 1e9
}

/// Converts monotonic times of a request to those of the wall clock, by its arrival.
struct Times {
    started_at: Timestamp,
    arrived_at: Duration,
}

impl Times {
    fn unix_nanos(&self, monotonic: Duration) -> u64 {
        let at = self.started_at + monotonic.saturating_sub(self.arrived_at);
        u64::try_from(at.as_nanosecond()).unwrap_or_default()
    }

    /// Returns a span of the trace without an id and a name.
    fn span(&self, trace: &RequestTrace, from: Duration, to: Duration) -> Span {
        Span {
            trace_id: trace.trace_id.0.to_vec(),
            flags: SAMPLED,
            start_time_unix_nano: self.unix_nanos(from),
            end_time_unix_nano: self.unix_nanos(to.max(from)),
            ..Span::default()
        }
    }
}
