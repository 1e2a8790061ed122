//! A connection that can be dropped from within, with nothing lost of what was sent before.
//!
//! An error of the body would also end the connection, but hyper then throws away what it has not
//! written yet, and the client would see a cut at a place of its own.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection with a [`Cutter`].
pub(super) struct Line<I> {
    io: I,
    cutter: Cutter,
}

/// What drops the connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Cutter(Arc<AtomicBool>);

impl<I> Line<I> {
    pub(super) fn new(io: I, cutter: Cutter) -> Self {
        Self { io, cutter }
    }
}

impl Cutter {
    /// Drops the connection at the next flush, which comes when the body has nothing to send.
    pub(super) fn cut(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Line<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Line<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.io).poll_flush(cx))?;
        if self.cutter.0.load(Ordering::Relaxed) {
            return Poll::Ready(Err(ErrorKind::ConnectionAborted.into()));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
