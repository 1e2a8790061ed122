//! Plain answers: read whole, checked, converted, and settled before they are sent.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use futures_util::future::poll_fn;
use http_body::{Body, Frame};

use super::answer::Answer;
use super::failed_request::FailedRequest;
use super::forward::BegunAnswer;
use super::idle_timeout::IdleTimeout;
use super::meter::{MAX_ANSWER_BYTES, Meter};
use super::outcome::RequestOutcome;
use crate::upstream::{AnswerBody, Phase, UpstreamError};
use domain::wire::usage::AnswerUsage;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

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
    let meter = &mut request.coverage.meter;
    let read = collect(body, upstream_client.idle_deadline()).await.and_then(|body| {
        let json = std::str::from_utf8(&body)
            .map_err(|_| UpstreamError::Invalid("its answer is not valid UTF-8".to_owned()))?;
        let checked = plain.check(json, meter)?;
        meter.check_choices()?;
        Ok((checked, body))
    });
    let (checked, body) = match read {
        Ok(read) => read,
        Err(error) => {
            let error = upstream_client.redact(error);
            return Err(FailedRequest::after_forwarding(request, error));
        }
    };
    request.open.set_first_output();
    let usage = poll_fn(|context| request.poll_usage(context)).await;
    let (body, outcome) = plain.finish(checked, body, usage, &request.coverage.meter);
    request.close(outcome);
    Ok(Answer::Whole { headers, body })
}

/// Reads a body to its end; the idle timeout applies to each read.
async fn collect(mut body: AnswerBody, idle: Duration) -> Result<Bytes, UpstreamError> {
    let mut idle_timeout = IdleTimeout::new(idle);
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    while let Some(frame) =
        poll_fn(|context| poll_frame(&mut body, &mut idle_timeout, context)).await?
    {
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + whole.len() + data.len() > MAX_ANSWER_BYTES {
            let message = format!("its answer is longer than {MAX_ANSWER_BYTES} bytes");
            return Err(UpstreamError::Invalid(message));
        }
        // Most answers arrive in one read and need not be copied.
        if first.is_empty() && whole.is_empty() {
            first = data;
        } else {
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
        return Poll::Ready(Err(UpstreamError::TimedOut(Phase::Idle)));
    };
    idle_timeout.reset();
    Poll::Ready(read.transpose())
}
