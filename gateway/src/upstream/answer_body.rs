//! The body of an upstream's answer.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

use super::error::{TimeoutKind, UpstreamError};
use super::pool::PooledConnection;
use super::slots::Slot;

/// The body of an upstream's answer. If it is read to its end, its connection returns to the pool when it is
/// dropped; otherwise the connection is closed.
pub struct AnswerBody {
    incoming: Incoming,
    /// The connection, which reading drives; `None` if it has a task.
    connection: Option<PooledConnection>,
    is_at_end: bool,
    /// Whether the server may end its answer by resetting the stream; see
    /// [`allow_early_end`](Self::allow_early_end).
    allows_early_end: bool,
    /// The slot of the request, if the upstream has a bound.
    slot: Option<Slot>,
    /// The end of the time for the whole answer, if the upstream has such a deadline.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Gets a copy of what is read.
    tap: Option<Tap>,
}

/// Called with each piece of a body.
pub type Tap = Box<dyn FnMut(&[u8]) + Send>;

// === impl AnswerBody ===

impl AnswerBody {
    /// Creates a body that drives its connection.
    pub(super) fn with_connection(connection: PooledConnection, incoming: Incoming) -> Self {
        let mut body = Self::with_task(incoming);
        body.is_at_end = body.incoming.is_end_stream();
        body.connection = Some(connection);
        body
    }

    /// Creates a body whose connection has a task.
    pub(super) fn with_task(incoming: Incoming) -> Self {
        Self {
            incoming,
            connection: None,
            is_at_end: false,
            allows_early_end: false,
            slot: None,
            deadline: None,
            tap: None,
        }
    }

    /// Passes a copy of what is read to `tap`.
    #[must_use]
    pub fn with_tap(self, tap: Tap) -> Self {
        let mut body = self;
        body.tap = Some(tap);
        body
    }

    /// Accepts an HTTP/2 stream that the server resets with `NO_ERROR` as the end of the answer. A server may reset the stream
    /// after a complete answer to stop the rest of a request body (RFC 9113, 8.1). Must be called for refusals only: a reset
    /// in any other answer means that it is cut off.
    pub(super) fn allow_early_end(self) -> Self {
        let mut body = self;
        body.allows_early_end = true;
        body
    }

    /// Keeps the slot of the request until the body is dropped.
    pub(super) fn with_slot(self, slot: Option<Slot>) -> Self {
        let mut body = self;
        body.slot = slot;
        body
    }

    /// Sets the time by which the answer must have ended.
    pub(super) fn with_deadline(self, deadline: Option<Instant>) -> Self {
        let mut body = self;
        body.deadline = deadline.map(|deadline| Box::pin(tokio::time::sleep_until(deadline)));
        body
    }

    /// Returns whether a task reads the connection, so that yielding to it may bring more.
    pub fn has_task(&self) -> bool {
        self.connection.is_none()
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = UpstreamError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UpstreamError>>> {
        let Self { incoming, connection, is_at_end, allows_early_end, slot: _, deadline, tap } =
            &mut *self;
        if let Some(deadline) = deadline
            && deadline.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Some(Err(UpstreamError::TimedOut(TimeoutKind::Total))));
        }
        let mut read = |context: &mut Context<'_>| Pin::new(&mut *incoming).poll_frame(context);
        let polled = match connection {
            Some(connection) => connection.poll_read(context, read),
            None => read(context),
        };
        if let Poll::Ready(frame) = &polled {
            // hyper returns the same for a stream of HTTP/2 that was reset without an error as for one that was ended.
            let is_reset = connection.is_none() && !incoming.is_end_stream();
            if frame.is_none() && is_reset && !*allows_early_end {
                return Poll::Ready(Some(Err(UpstreamError::CutOff)));
            }
            *is_at_end = frame.is_none() || incoming.is_end_stream();
            if let (Some(tap), Some(Ok(frame))) = (tap, frame)
                && let Some(data) = frame.data_ref()
            {
                tap(data);
            }
        }
        polled.map_err(|_| UpstreamError::CutOff)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl fmt::Debug for AnswerBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnswerBody").field(&self.incoming).finish()
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take()
            && self.is_at_end
        {
            connection.put_back(self.slot.take());
        }
    }
}
