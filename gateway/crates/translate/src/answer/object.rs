//! Writes the response object (§4.1).

use bytes::BytesMut;

use super::events::{number, put, quoted, string};
use super::{AnswerUsage, Envelope, StreamFailure};
use crate::plan::ResponsePlan;
use domain::wire::text::encode;

/// The state of a response.
#[derive(Clone, Copy, Debug)]
pub(super) enum ResponseState<'a> {
    /// The answer is in progress.
    InProgress,
    /// The answer is complete; the time of completion in Unix seconds.
    Completed(i64),
    /// The answer was cut; the `reason` of `incomplete_details` if there is one.
    Incomplete(Option<&'static str>),
    /// The stream failed.
    Failed(StreamFailure<'a>),
}

/// The members common to all objects of a response.
#[derive(Debug)]
pub(super) struct ResponseHead {
    id: String,
    created_at: i64,
    /// The model name that the client sent, JSON-escaped without quotes.
    model: String,
}

impl ResponseHead {
    pub(super) fn new(envelope: &Envelope, plan: &ResponsePlan) -> Self {
        Self {
            id: encode(&envelope.id),
            created_at: envelope.created_at,
            model: encode(&plan.model),
        }
    }
}

/// Writes an object. `tier` is the upstream's service tier as JSON; `output` holds comma-separated
/// items.
pub(super) fn write(
    out: &mut BytesMut,
    (head, plan): (&ResponseHead, &ResponsePlan),
    state: ResponseState<'_>,
    tier: Option<&str>,
    output: &[u8],
    usage: Option<&AnswerUsage>,
) {
    out.reserve(output.len() + plan.echo.len() + 1_024);
    quoted(out, "{\"id\":", &head.id);
    put(out, ",\"object\":\"response\",\"created_at\":");
    number(out, head.created_at);
    put(out, ",\"completed_at\":");
    match state {
        ResponseState::Completed(completed_at) => number(out, completed_at),
        _ => put(out, "null"),
    }
    let status = match state {
        ResponseState::InProgress => "in_progress",
        ResponseState::Completed(_) => "completed",
        ResponseState::Incomplete(_) => "incomplete",
        ResponseState::Failed(_) => "failed",
    };
    quoted(out, ",\"status\":", status);
    put(out, ",\"error\":");
    match state {
        ResponseState::Failed(failure) => {
            put(out, "{\"code\":");
            string(out, failure.code);
            put(out, ",\"message\":");
            string(out, failure.message);
            put(out, "}");
        }
        _ => put(out, "null"),
    }
    put(out, ",\"incomplete_details\":");
    match state {
        ResponseState::Incomplete(Some(reason)) => {
            quoted(out, "{\"reason\":", reason);
            put(out, "}");
        }
        _ => put(out, "null"),
    }
    quoted(out, ",\"model\":", &head.model);
    put(out, ",\"output\":[");
    out.extend_from_slice(output);
    put(out, "],\"usage\":");
    match usage {
        Some(usage) => write_usage(out, usage),
        None => put(out, "null"),
    }
    put(out, ",\"service_tier\":");
    put(out, tier.unwrap_or("\"default\""));
    if !plan.echo.is_empty() {
        put(out, ",");
        put(out, &plan.echo);
    }
    put(out, "}");
}

/// Writes the usage, always with both detail objects (`R-7`).
fn write_usage(out: &mut BytesMut, report: &AnswerUsage) {
    let usage = &report.usage;
    put(out, "{\"input_tokens\":");
    number(out, usage.input.0);
    put(out, ",\"input_tokens_details\":{\"cached_tokens\":");
    number(out, usage.cached.unwrap_or_default().0);
    put(out, ",\"cache_write_tokens\":");
    number(out, report.cache_write.0);
    put(out, "},\"output_tokens\":");
    number(out, usage.output.0);
    put(out, ",\"output_tokens_details\":{\"reasoning_tokens\":");
    number(out, usage.reasoning.unwrap_or_default().0);
    put(out, "},\"total_tokens\":");
    number(out, report.total.0);
    put(out, "}");
}
