//! A stream whose response can be read although the server no longer reads the request.
//!
//! A server may refuse a request before all of it has arrived, and close the connection (RFC 9112, 9.5). Writing
//! the rest then fails, often before the refusal was read. So a failed write is reported only once everything
//! that has arrived was read.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};

/// A stream that reads on after a write has failed.
pub(super) struct EarlyResponseStream<S> {
    stream: S,
    /// Whether a write has failed; later ones are discarded. Reading finds the end of the connection.
    write_failed: bool,
}

// === impl EarlyResponseStream ===

impl<S: Read + Write + Unpin> EarlyResponseStream<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, write_failed: false }
    }

    /// Writes `length` bytes with `write`, unless writing has failed or now fails.
    fn write_or_discard(
        &mut self,
        length: usize,
        write: impl FnOnce(Pin<&mut S>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if self.write_failed {
            return Poll::Ready(Ok(length));
        }
        match ready!(write(Pin::new(&mut self.stream))) {
            Err(error) if is_closed_by_peer(&error) => {
                self.write_failed = true;
                Poll::Ready(Ok(length))
            }
            written => Poll::Ready(written),
        }
    }
}

fn is_closed_by_peer(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

impl<S: Read + Write + Unpin> Read for EarlyResponseStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: Read + Write + Unpin> Write for EarlyResponseStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write_or_discard(bytes.len(), |stream| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = buffers.iter().map(|buffer| buffer.len()).sum();
        self.write_or_discard(length, |stream| stream.poll_write_vectored(context, buffers))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // TLS writes when it is flushed.
        let flush = |stream: Pin<&mut S>| stream.poll_flush(context).map_ok(|()| 0);
        self.write_or_discard(0, flush).map_ok(|_| ())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.write_failed {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
