//! A connection that the response body can abort after all earlier bytes were flushed.
//!
//! A body error would also close the connection, but hyper then discards its write buffer, so the
//! position of the cut would not be deterministic.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection that its [`CutHandle`] can abort.
pub(super) struct CuttableIo<I> {
    io: I,
    cut_handle: CutHandle,
}

/// A handle that aborts a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct CutHandle(Arc<AtomicBool>);

impl<I> CuttableIo<I> {
    pub(super) fn new(io: I, cut_handle: CutHandle) -> Self {
        Self { io, cut_handle }
    }
}

impl CutHandle {
    /// Aborts the connection after the next flush, which happens when the body is pending.
    pub(super) fn cut(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for CuttableIo<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for CuttableIo<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.io).poll_flush(cx))?;
        if self.cut_handle.0.load(Ordering::Relaxed) {
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
