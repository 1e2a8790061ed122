//! What becomes of a stream's bytes on their way: the same chat stream, or Responses events.

use std::task::{Context, Poll, ready};

use bytes::BytesMut;

use super::outcome::RequestOutcome;
use super::passthrough::ChatPassthrough;
use super::request_guard::RequestGuard;
use super::responses_stream::ResponsesStream;
use crate::upstream::UpstreamError;

/// A stream's way from what the upstream speaks to what the client does.
pub enum StreamAdapter {
    /// Chat to chat.
    Chat(ChatPassthrough),
    /// Chat to Responses.
    Responses(Box<ResponsesStream>),
    /// There is nothing left to carry.
    Ended,
}

impl StreamAdapter {
    /// Appends to `out` what `bytes` completes.
    ///
    /// # Errors
    /// The upstream reports an error, or this is no chat stream. What came before is in `out`.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        guard: &mut RequestGuard,
        out: &mut BytesMut,
    ) -> Result<(), UpstreamError> {
        match self {
            Self::Chat(stream) => stream.push(bytes, &mut guard.meter, out),
            Self::Responses(exchange) => exchange.push(bytes, &mut guard.meter, out),
            Self::Ended => Ok(()),
        }
    }

    /// Whether the upstream has said that nothing follows.
    pub(super) fn is_done(&self) -> bool {
        match self {
            Self::Chat(stream) => stream.is_done(),
            Self::Responses(exchange) => exchange.is_done(),
            Self::Ended => true,
        }
    }

    /// Nothing follows: appends what is missing of a whole answer, and tells how it ended.
    ///
    /// # Errors
    /// The answer was not at its end.
    pub(super) fn poll_end(
        &mut self,
        context: &mut Context<'_>,
        guard: &mut RequestGuard,
        out: &mut BytesMut,
    ) -> Poll<Result<RequestOutcome, UpstreamError>> {
        match self {
            Self::Chat(stream) => {
                stream.close(&mut guard.meter, out)?;
                ready!(guard.poll_used(context));
                stream.end(out);
                Poll::Ready(Ok(RequestOutcome::answered(&guard.meter)))
            }
            Self::Responses(exchange) => exchange.poll_end(context, guard, out),
            Self::Ended => Poll::Pending,
        }
    }

    /// Ends the answer as a length limit does, because nobody can pay for more of it. What is `uncovered`
    /// was to be passed on next: a chat client does not get it. The last events of a Responses stream repeat
    /// what the earlier ones said, so that its client does.
    pub(super) fn cut_short(
        &mut self,
        guard: &mut RequestGuard,
        uncovered: &mut BytesMut,
        out: &mut BytesMut,
    ) {
        match self {
            Self::Chat(stream) => {
                guard.withhold(uncovered);
                stream.cut_short(&mut guard.meter, out);
            }
            Self::Responses(exchange) => {
                out.unsplit(std::mem::take(uncovered));
                exchange.cut_short(out);
            }
            Self::Ended => {}
        }
    }

    /// The client is sent its head although nothing has come.
    pub(super) fn commit(&mut self, out: &mut BytesMut) {
        if let Self::Responses(exchange) = self {
            exchange.start(out);
        }
    }

    /// Whether a client that hears nothing is told that the stream is alive.
    pub(super) fn has_keep_alive(&self) -> bool {
        matches!(self, Self::Responses(_))
    }

    /// Appends such a sign of life.
    pub(super) fn keep_alive(&mut self, out: &mut BytesMut) {
        if let Self::Responses(exchange) = self {
            exchange.keep_alive(out);
        }
    }
}
