//! Plain answers: read whole, checked, converted, and settled before they are sent.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use futures_util::future::poll_fn;
use http_body::{Body, Frame};

use super::Fault;
use super::answer::Answer;
use super::failed_request::FailedRequest;
use super::forward::BegunAnswer;
use super::meter::{MAX_ANSWER_BYTES, Meter};
use super::outcome::RequestOutcome;
use crate::memory_budget::MemoryGuard;
use crate::timers::IdleTimeout;
use crate::upstream::{AnswerBody, TimeoutKind, UpstreamError};
use domain::refusal::Refusal;
use domain::wire::usage::AnswerUsage;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Answers that take up to this much memory, in bytes, do not count against the memory budget.
pub(super) const UNCOUNTED_BYTES: usize = 256 * 1024;

/// A plain answer in one of the two APIs.
pub(super) trait PlainAnswer {
    /// The checked answer.
    type Checked;

    /// Checks an upstream's answer and shows it to the meter.
    ///
    /// # Errors
    /// It is not a complete chat answer.
    fn check(&self, json: &str, meter: &mut Meter) -> Result<Self::Checked, UpstreamError>;

    /// Returns the body for the client, given the upstream's body, and the outcome of the request.
    fn finish(
        self,
        checked: Self::Checked,
        body: Bytes,
        usage: AnswerUsage,
        meter: &Meter,
    ) -> (Bytes, RequestOutcome);
}

/// Reads a plain answer to its end, and settles its request.
///
/// # Errors
/// The answer broke off, or it is not a complete chat answer.
pub(super) async fn answer(
    begun: BegunAnswer,
    plain: impl PlainAnswer,
) -> Result<Answer, Box<FailedRequest>> {
    let BegunAnswer { mut request, headers, body, upstream_client } = begun;
    request.set_answer_begun();
    let mut memory = request.open.memory_guard();
    let meter = &mut request.coverage.meter;
    let collected = collect(body, upstream_client.idle_deadline(), &mut memory).await;
    let read = collected.and_then(|body| {
        let json = std::str::from_utf8(&body)
            .map_err(|_| UpstreamError::Invalid("its answer is not valid UTF-8".to_owned()))?;
        let checked = plain.check(json, meter)?;
        meter.check_choices()?;
        if meter.has_no_choice() {
            return Err(UpstreamError::Invalid("its answer has no choice".to_owned()).into());
        }
        upstream_client.check_no_credential(&body)?;
        Ok((checked, body))
    });
    let (checked, body) = match read {
        Ok(read) => read,
        Err(fault) => {
            let fault = match fault {
                Fault::Upstream(error) => upstream_client.redact(error).into(),
                refused @ Fault::Refused(_) => refused,
            };
            return Err(FailedRequest::after_forwarding(request, fault));
        }
    };
    request.open.set_first_output();
    let usage = poll_fn(|context| request.poll_usage(context)).await;
    let (body, outcome) = plain.finish(checked, body, usage, &request.coverage.meter);
    request.close(outcome);
    let body = if body.len() > UNCOUNTED_BYTES { memory.attach(body) } else { body };
    Ok(Answer::Whole { headers, body })
}

/// Reads a body to its end; the idle timeout applies to each read. A long body is counted by `memory`, so that the
/// answers of all requests together stay within the budget.
///
/// # Errors
/// The body breaks off or is too long, or there is no memory for it.
async fn collect(
    mut body: AnswerBody,
    idle: Duration,
    memory: &mut MemoryGuard,
) -> Result<Bytes, Fault> {
    let mut idle_timeout = IdleTimeout::new(idle);
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    while let Some(frame) =
        poll_fn(|context| poll_frame(&mut body, &mut idle_timeout, context)).await?
    {
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + whole.len() + data.len() > MAX_ANSWER_BYTES {
            let message = format!("its answer is longer than {MAX_ANSWER_BYTES} bytes");
            return Err(UpstreamError::Invalid(message).into());
        }
        // Most answers arrive in one read and need not be copied.
        if first.is_empty() && whole.is_empty() {
            first = data;
        } else {
            let needed = first.len() + whole.len() + data.len();
            if needed > UNCOUNTED_BYTES && needed > whole.capacity() {
                let doubled = whole.capacity().saturating_mul(2).min(MAX_ANSWER_BYTES);
                let capacity = doubled.max(needed);
                memory.grow_to(capacity).await.map_err(|_| Refusal::BodyMemoryExhausted)?;
                whole.reserve(capacity - whole.len());
            }
            whole.extend_from_slice(&std::mem::take(&mut first));
            whole.extend_from_slice(&data);
        }
    }
    let mut body = if whole.is_empty() { first } else { whole.freeze() };
    if body.starts_with(BYTE_ORDER_MARK) {
        // JSON has no byte order mark, and readers may ignore it (RFC 8259, 8.1).
        body.advance(BYTE_ORDER_MARK.len());
    }
    Ok(body)
}

fn poll_frame(
    body: &mut AnswerBody,
    idle_timeout: &mut IdleTimeout,
    context: &mut Context<'_>,
) -> Poll<Result<Option<Frame<Bytes>>, UpstreamError>> {
    let Poll::Ready(read) = Pin::new(body).poll_frame(context) else {
        ready!(idle_timeout.poll_elapsed(context));
        return Poll::Ready(Err(UpstreamError::TimedOut(TimeoutKind::Idle)));
    };
    idle_timeout.reset();
    Poll::Ready(read.transpose())
}
