//! Gives the errors that hyper answers by itself the form of all other errors.
//!
//! hyper answers a request that it cannot parse with a head only, and offers no hook for it. This IO layer replaces such
//! a head on its way to the client. Every other answer has a request id, so none is taken for it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::StatusCode;
use hyper::rt::{Read, ReadBufCursor, Write};

use super::error_reply::ErrorReply;
use super::handler::Handler;

/// How each head begins that may be replaced.
const PREFIX: &[u8] = b"HTTP/1.1 4";
/// The header that hyper adds because there is no body.
const NO_BODY: &str = "content-length: 0\r\n";
/// The end of a head.
const END: &str = "\r\n\r\n";
/// Longer heads are not those of hyper's errors, in bytes.
const MAX_HEAD_BYTES: usize = 512;

/// A connection that hyper reads and writes.
pub(super) struct ProtocolErrorIo<S> {
    stream: S,
    handler: Arc<Handler>,
    replacement: Option<Replacement>,
}

/// The answer that replaces a head.
struct Replacement {
    answer: Vec<u8>,
    /// How much of the answer `stream` has accepted, in bytes.
    sent: usize,
}

impl<S> ProtocolErrorIo<S> {
    /// Wraps a connection. `handler` assigns request ids.
    pub(super) fn new(stream: S, handler: Arc<Handler>) -> Self {
        Self { stream, handler, replacement: None }
    }
}

impl<S: Write + Unpin> ProtocolErrorIo<S> {
    /// Ready when the replacement is written.
    fn poll_replacement(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(Replacement { answer, sent }) = &mut self.replacement else {
            return Poll::Ready(Ok(()));
        };
        while *sent < answer.len() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &answer[*sent..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            *sent += written;
        }
        self.replacement = None;
        Poll::Ready(Ok(()))
    }
}

/// Returns the answer in place of `head` if that is an error of hyper's.
fn replace(head: &[u8], handler: &Handler) -> Option<Vec<u8>> {
    let head = std::str::from_utf8(head).ok().filter(|head| head.len() <= MAX_HEAD_BYTES)?;
    let lines = head.strip_suffix(END).filter(|lines| !lines.contains(END))?;
    if lines.contains("x-request-id: ") || !head.contains(NO_BODY) {
        return None;
    }
    let status: u16 = head.get("HTTP/1.1 ".len()..)?.get(..3)?.parse().ok()?;
    let reply = ErrorReply::protocol_error(StatusCode::from_u16(status).ok()?)?;
    let (body, id) = (reply.body().to_json(), handler.new_request_id());
    tracing::debug!(request_id = ?id, status, "a request could not be parsed");
    let fields = format!(
        "content-type: application/json\r\nx-request-id: {}\r\ncontent-length: {}\r\n",
        id.to_str().unwrap_or_default(),
        body.len()
    );
    let mut answer = head.replacen(NO_BODY, &fields, 1).into_bytes();
    answer.extend_from_slice(&body);
    Some(answer)
}

impl<S: Write + Unpin> Write for ProtocolErrorIo<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.replacement.is_none() {
            let answer = bytes.starts_with(PREFIX).then(|| replace(bytes, &this.handler)).flatten();
            let Some(answer) = answer else {
                return Pin::new(&mut this.stream).poll_write(context, bytes);
            };
            this.replacement = Some(Replacement { answer, sent: 0 });
        }
        // hyper has written its head once the replacement is written.
        this.poll_replacement(context).map_ok(|()| bytes.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let [only] = buffers {
            return self.poll_write(context, only);
        }
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

impl<S: Read + Unpin> Read for ProtocolErrorIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}
