//! A bound on what an HTTP/1.1 upstream sends before the head of its answer.
//!
//! A server may send any number of interim answers (1xx) first (RFC 9110, 15.2), which hyper reads and drops in one
//! poll for as long as more of them arrive. An endless row of them would keep the worker from all other requests,
//! and the request from its deadline.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// More than hyper's own bound on a head, which is 408 KiB.
const MAX_BYTES: usize = 512 * 1024;

/// The bytes that may still be read before the head of an answer; [`usize::MAX`] while none is awaited.
///
/// Only the connection's own task uses it at a time, so that plain loads and stores suffice.
#[derive(Clone)]
pub(super) struct HeadLimit(Arc<AtomicUsize>);

/// A stream that fails when the limit is exceeded.
pub(super) struct HeadLimitedStream<S> {
    stream: S,
    limit: HeadLimit,
}

// === impl HeadLimit ===

impl HeadLimit {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(usize::MAX)))
    }

    /// Begins to count: a request is sent.
    pub(super) fn set(&self) {
        self.0.store(MAX_BYTES, Ordering::Relaxed);
    }

    /// Stops to count: the head has arrived.
    pub(super) fn clear(&self) {
        self.0.store(usize::MAX, Ordering::Relaxed);
    }
}

// === impl HeadLimitedStream ===

impl<S> HeadLimitedStream<S> {
    pub(super) fn new(stream: S, limit: HeadLimit) -> Self {
        Self { stream, limit }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HeadLimitedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let left = self.limit.0.load(Ordering::Relaxed);
        if left == 0 {
            let message = format!("it sent {MAX_BYTES} bytes before the head of its answer");
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, message)));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if left != usize::MAX {
            let read = buffer.filled().len() - before;
            self.limit.0.store(left.saturating_sub(read), Ordering::Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HeadLimitedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
