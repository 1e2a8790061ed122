//! Adapts an upstream's chat stream to the client: the same chat stream, or Responses events.

use std::task::{Context, Poll, ready};

use bytes::BytesMut;

use super::forwarded_request::ForwardedRequest;
use super::outcome::RequestOutcome;
use super::passthrough::ChatPassthrough;
use super::responses_adapter::ResponsesAdapter;
use crate::upstream::UpstreamError;

/// The adapter of one stream.
pub enum StreamAdapter {
    /// Chat to chat.
    Chat(ChatPassthrough),
    /// Chat to Responses.
    Responses(Box<ResponsesAdapter>),
    /// The adapter was taken out of a relay that has ended.
    Taken,
}

impl StreamAdapter {
    /// Appends to `out` the events that `bytes` completes.
    ///
    /// # Errors
    /// The upstream reports an error, or the input is not a chat stream. Earlier events are in `out`.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        request: &mut ForwardedRequest,
        out: &mut BytesMut,
    ) -> Result<(), UpstreamError> {
        match self {
            Self::Chat(stream) => stream.push(bytes, &mut request.coverage.meter, out),
            Self::Responses(stream) => stream.push(bytes, &mut request.coverage.meter, out),
            Self::Taken => Ok(()),
        }
    }

    /// Returns the memory that the stream takes now or will take for what it has received, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Chat(stream) => stream.memory_bytes(),
            Self::Responses(stream) => stream.memory_bytes(),
            Self::Taken => 0,
        }
    }

    /// Returns whether the upstream has sent its end marker.
    pub(super) fn is_done(&self) -> bool {
        match self {
            Self::Chat(stream) => stream.is_done(),
            Self::Responses(stream) => stream.is_done(),
            Self::Taken => true,
        }
    }

    /// Handles the end of the upstream's body: appends its last event if that lacks its blank line.
    ///
    /// # Errors
    /// Those of [`push`](Self::push); the event is incomplete.
    pub(super) fn finish_input(
        &mut self,
        request: &mut ForwardedRequest,
        out: &mut BytesMut,
    ) -> Result<(), UpstreamError> {
        match self {
            Self::Chat(stream) => stream.finish_input(&mut request.coverage.meter, out),
            Self::Responses(stream) => stream.finish_input(&mut request.coverage.meter, out),
            Self::Taken => Ok(()),
        }
    }

    /// Ends the answer, without further input: appends what a complete answer lacks. Ready with the outcome.
    ///
    /// # Errors
    /// The answer was incomplete.
    pub(super) fn poll_end(
        &mut self,
        context: &mut Context<'_>,
        request: &mut ForwardedRequest,
        out: &mut BytesMut,
    ) -> Poll<Result<RequestOutcome, UpstreamError>> {
        match self {
            Self::Chat(stream) => {
                stream.check_finished(&request.coverage.meter)?;
                ready!(request.poll_usage(context));
                stream.write_done(out);
                Poll::Ready(Ok(RequestOutcome::answered(&request.coverage.meter)))
            }
            Self::Responses(stream) => stream.poll_end(context, request, out),
            Self::Taken => Poll::Pending,
        }
    }

    /// Ends the answer as a length limit does, because no more of it is covered. A chat client does not get
    /// the `uncovered` bytes. A Responses client does, because the final events of its stream repeat all
    /// text.
    pub(super) fn cut_short(
        &mut self,
        request: &mut ForwardedRequest,
        uncovered: &mut BytesMut,
        out: &mut BytesMut,
    ) {
        match self {
            Self::Chat(stream) => {
                request.withhold(uncovered);
                stream.cut_short(&mut request.coverage.meter, out);
            }
            Self::Responses(stream) => {
                out.unsplit(std::mem::take(uncovered));
                stream.cut_short(&mut request.coverage.meter, out);
            }
            Self::Taken => {}
        }
    }

    /// Appends the first event of a stream whose head is sent to the client before any event has arrived. A chat
    /// stream has none.
    pub(super) fn commit(&mut self, out: &mut BytesMut) {
        if let Self::Responses(stream) = self {
            stream.start(out);
        }
    }

    /// Returns whether a silent client gets keep-alives.
    pub(super) fn has_keep_alive(&self) -> bool {
        matches!(self, Self::Responses(_))
    }

    /// Appends a keep-alive.
    pub(super) fn keep_alive(&mut self, out: &mut BytesMut) {
        if let Self::Responses(stream) = self {
            stream.keep_alive(out);
        }
    }
}
