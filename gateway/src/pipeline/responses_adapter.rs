//! Translates a chat stream into a Responses stream, and stores the response.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use jiff::Timestamp;

use super::forwarded_request::ForwardedRequest;
use super::meter::{MAX_ANSWER_BYTES, Meter};
use super::outcome::RequestOutcome;
use super::stream_memory::EVENT_COPIES;
use crate::clock::Clock;
use crate::memory_budget::MemoryGuard;
use crate::response_store::ResponseStore;
use crate::upstream::UpstreamError;
use domain::id::{AccountId, RequestId};
use domain::record::RequestStatus;
use domain::response::StoredResponse;
use domain::wire::chunk::{AnswerForm, LENGTH_LIMIT_CHUNK};
use domain::wire::error::ReportedError;
use domain::wire::sse::{self, Fields, Splitter};
use domain::wire::usage::AnswerUsage;
use translate::answer::{
    self, AnswerOutcome, KeepAlive, ProtocolViolation, ResponseStream, StreamFailure,
};

/// How much memory the text of an answer takes at its end, as a multiple of its length: the final events repeat it four
/// times (as a text, a part, an item and the response), the text and its item are kept until then, and the response is
/// stored. Measured with texts of 10 MiB: 6.9.
const TEXT_COPIES: usize = 7;

/// A stream that is translated.
pub struct ResponsesAdapter {
    splitter: Splitter,
    stream: ResponseStream,
    keep_alive: KeepAlive,
    /// `None` if the response is not stored, or already is.
    to_store: Option<ResponseToStore>,
    clock: Arc<dyn Clock>,
    /// Whether the chat stream is known to be complete.
    is_finished: bool,
}

/// What is stored of a response beside its output.
pub struct ResponseToStore {
    /// The store of responses.
    pub responses: Arc<ResponseStore>,
    /// The request id.
    pub id: RequestId,
    /// The owner.
    pub account: AccountId,
    /// The response that it continues.
    pub previous: Option<RequestId>,
    /// The arrival time of the request.
    pub created_at: Timestamp,
    /// The input as a JSON array of items.
    pub input: Arc<str>,
    /// The memory of the input.
    pub memory: MemoryGuard,
}

impl ResponsesAdapter {
    /// Creates the translation of a chat stream.
    pub fn new(
        stream: ResponseStream,
        keep_alive: KeepAlive,
        to_store: Option<ResponseToStore>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let splitter = Splitter::default();
        Self { splitter, stream, keep_alive, to_store, clock, is_finished: false }
    }

    /// Appends the final events of a stream that ends early because of `failure`.
    pub fn fail(
        &mut self,
        failure: &StreamFailure<'_>,
        usage: Option<AnswerUsage>,
        out: &mut BytesMut,
    ) {
        self.stream.fail(failure, usage, out);
        self.store(out);
    }

    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        meter: &mut Meter,
        out: &mut BytesMut,
    ) -> Result<(), UpstreamError> {
        let mut outcome = Ok(());
        let stream = &mut self.stream;
        let split = self.splitter.push(bytes, |event| {
            if outcome.is_ok() && !stream.is_done() {
                outcome = push_event(stream, event, meter, out);
            }
        });
        outcome?;
        split.map_err(|error| UpstreamError::Invalid(error.to_string()))?;
        if self.stream.buffered_bytes() > MAX_ANSWER_BYTES {
            let message = format!("its answer is longer than {MAX_ANSWER_BYTES} bytes");
            return Err(UpstreamError::Invalid(message));
        }
        Ok(())
    }

    /// Returns the memory that the answer takes now or will take at its end, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        EVENT_COPIES * self.splitter.partial_bytes() + TEXT_COPIES * self.stream.buffered_bytes()
    }

    pub(super) fn is_done(&self) -> bool {
        self.stream.is_done()
    }

    pub(super) fn poll_end(
        &mut self,
        context: &mut Context<'_>,
        request: &mut ForwardedRequest,
        out: &mut BytesMut,
    ) -> Poll<Result<RequestOutcome, UpstreamError>> {
        if !self.is_finished {
            self.stream.close().map_err(violation)?;
            self.is_finished = true;
        }
        let usage = ready!(request.poll_usage(context));
        let now = self.clock.now().as_second();
        let outcome = self.stream.end(answer::CompletionInfo { completed_at: now, usage }, out);
        self.store(out);
        Poll::Ready(Ok(ended(outcome)))
    }

    pub(super) fn cut_short(&mut self, meter: &mut Meter, out: &mut BytesMut) {
        meter.is_ended_by_gateway = true;
        for data in [LENGTH_LIMIT_CHUNK, "[DONE]"] {
            self.stream.push(data, out, |_| {}).expect("an end of our own is a chat chunk");
        }
    }

    pub(super) fn start(&mut self, out: &mut BytesMut) {
        self.stream.start(out);
    }

    pub(super) fn keep_alive(&mut self, out: &mut BytesMut) {
        self.stream.keep_alive(self.keep_alive, out);
    }

    pub(super) fn finish_input(
        &mut self,
        meter: &mut Meter,
        out: &mut BytesMut,
    ) -> Result<(), UpstreamError> {
        let mut rest = self.splitter.finish();
        if self.stream.is_done() || rest.trim_ascii().is_empty() {
            return Ok(());
        }
        // The last event of some servers lacks its blank line; a partial event is not valid JSON.
        rest.extend_from_slice(b"\n\n");
        push_event(&mut self.stream, &rest, meter, out).map_err(|error| match error {
            UpstreamError::Reported(_) => error,
            _ => UpstreamError::CutOff,
        })
    }

    /// Stores the response of the terminal event that was written to `out`.
    fn store(&mut self, out: &[u8]) {
        if let Some((to_store, object)) = self.to_store.take().zip(self.stream.object(out)) {
            to_store.store(object);
        }
    }
}

impl ResponseToStore {
    /// Stores the response in the background.
    pub fn store(self, object: &[u8]) {
        self.responses.keep(StoredResponse {
            id: self.id,
            account: self.account,
            previous: self.previous,
            created_at: self.created_at,
            input: self.input,
            object: std::str::from_utf8(object).expect("a response is text").into(),
            items: Vec::new(),
        });
    }
}

/// Returns the outcome of a request whose answer is complete.
pub(super) fn ended(outcome: AnswerOutcome) -> RequestOutcome {
    let status = match outcome {
        AnswerOutcome::Completed => RequestStatus::Completed,
        AnswerOutcome::Incomplete => RequestStatus::Incomplete,
    };
    RequestOutcome { status, http_status: Some(200), error_code: None }
}

/// Converts a violation of the chat protocol into an upstream error.
pub(super) fn violation(violation: ProtocolViolation) -> UpstreamError {
    match violation {
        ProtocolViolation::Invalid(text) => UpstreamError::Invalid(text),
        ProtocolViolation::Reported(said) => UpstreamError::Reported(said),
        ProtocolViolation::CutOff => UpstreamError::CutOff,
        ProtocolViolation::Model(text) => UpstreamError::ConstraintViolation(text),
    }
}

fn push_event(
    stream: &mut ResponseStream,
    event: &[u8],
    meter: &mut Meter,
    out: &mut BytesMut,
) -> Result<(), UpstreamError> {
    let Fields { data, is_error } = sse::fields(event);
    if is_error {
        return Err(UpstreamError::Reported(ReportedError::parse(&data.unwrap_or_default())));
    }
    let Some(data) = data else { return Ok(()) };
    let json = std::str::from_utf8(&data)
        .map_err(|_| UpstreamError::Invalid("a chunk is not valid UTF-8".to_owned()))?;
    stream.push(json, out, |chunk| meter.observe(chunk, AnswerForm::Stream)).map_err(violation)
}
