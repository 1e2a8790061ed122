//! Connection IO between hyper and a client that answers protocol errors of HTTP/1.
//!
//! hyper answers a head that it cannot read with a status and no body, and has no hook for it. [`ProtocolIo`]
//! recognizes such an answer and writes an error of the API instead. It also closes a connection whose client
//! does not complete a head, with an error if part of one has arrived, and a connection without a request when a
//! shutdown begins. At the end of a connection of HTTP/2, it waits until the client has closed it ([`LingeringClose`]).

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::flood::FloodDetector;
use super::lingering_close::LingeringClose;
use super::shutdown::Shutdown;
use crate::connections::Activity;
use crate::timers::IdleTimeout;

/// The most bytes that are read in one poll of a connection; other connections of the worker come before more. A
/// frame of HTTP/2 has nine bytes or more, and takes a tenth of a microsecond or more.
pub(super) const MAX_READ_IN_POLL: usize = 64 * 1024;
/// The same while a longer body of known length is received over HTTP/1, which costs little more than its copy. If a
/// body is received in several polls, other bodies displace it from the caches before it is parsed and sent.
const MAX_BODY_READ_IN_POLL: usize = 256 * 1024;
/// How long a connection of HTTP/2 may have no request in a shutdown. hyper ends it once the client has answered the ping
/// that follows the GOAWAY; a client that does not answer would hold it until the end of the drain.
const MAX_UNUSED_IN_DRAIN: Duration = Duration::from_secs(1);

/// The IO of one connection, which hyper reads and writes.
pub(super) struct ProtocolIo<S, R> {
    stream: S,
    activity: Arc<Activity>,
    shutdown: Arc<Shutdown>,
    /// Returns the whole answer, head and body, for a status.
    render: R,
    protocol: Protocol,
    /// Whether bytes were read after the last write.
    has_unanswered: bool,
    /// Whether `stream` accepted all of the last write.
    is_accepted: bool,
    /// The time for the next head, from the last write of the answer before it.
    next_head: IdleTimeout,
    /// The part of an error that is not written yet.
    reply: Bytes,
    /// The number of requests that hyper has polled: it polls a request, then flushes.
    polled_requests: u64,
    flood: FloodDetector,
    /// Whether the connection ends after `reply`, because a head has not been completed in time.
    is_late: bool,
    /// Set when the sending side of a connection of HTTP/2 is closed.
    lingering: Option<LingeringClose>,
    /// The time of the next check whether a connection of HTTP/2 is unused in a shutdown, and the number of requests so
    /// far if it had none in progress at the last one.
    unused: Option<(Pin<Box<Sleep>>, Option<u64>)>,
}

/// The protocol of a connection, which its first written bytes show.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    /// Nothing was written: an HTTP/2 server begins with its settings, so this is not HTTP/2 yet.
    Unknown,
    Http1,
    Http2,
}

impl<S, R> ProtocolIo<S, R> {
    /// Wraps a new connection, whose requests are reported to `activity`. `head_timeout` is the time between two requests
    /// of HTTP/1, to the end of the head of the second.
    pub(super) fn new(
        stream: S,
        activity: Arc<Activity>,
        shutdown: Arc<Shutdown>,
        head_timeout: Duration,
        max_head_bytes: usize,
        render: R,
    ) -> Self {
        Self {
            stream,
            activity,
            shutdown,
            render,
            protocol: Protocol::Unknown,
            has_unanswered: false,
            is_accepted: true,
            next_head: IdleTimeout::new(head_timeout),
            reply: Bytes::new(),
            polled_requests: 0,
            flood: FloodDetector::new(max_head_bytes),
            is_late: false,
            lingering: None,
            unused: None,
        }
    }

    /// Ready when the next head of HTTP/1 is late. The deadline of the first is below this layer. Called when there is
    /// nothing to read. A request ends when hyper has its whole answer, which may take long to be written.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.protocol != Protocol::Http1 || !self.activity.is_idle() || !self.is_accepted {
            return Poll::Pending;
        }
        self.next_head.poll_elapsed(context)
    }

    /// Returns whether the connection has no request and gets none, because the gateway shuts down, and the client
    /// has taken all of the last answer from hyper. hyper itself closes HTTP/2.
    fn is_drained(&self) -> bool {
        self.shutdown.is_draining()
            && (self.activity.started() > 0 || self.shutdown.ends_unused())
            && self.protocol != Protocol::Http2
            && self.is_accepted
            && self.activity.is_idle()
    }

    /// Ready when a connection of HTTP/2 has had no request for [`MAX_UNUSED_IN_DRAIN`] to twice that, since the shutdown
    /// began.
    fn poll_unused(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.protocol != Protocol::Http2 || !self.shutdown.is_draining() {
            return Poll::Pending;
        }
        let started = self.activity.is_idle().then(|| self.activity.started());
        let (timer, seen) =
            self.unused.get_or_insert_with(|| (Box::pin(sleep(MAX_UNUSED_IN_DRAIN)), started));
        while timer.as_mut().poll(context).is_ready() {
            if started.is_some() && *seen == started && self.is_accepted {
                return Poll::Ready(());
            }
            *seen = started;
            timer.as_mut().reset(Instant::now() + MAX_UNUSED_IN_DRAIN);
        }
        Poll::Pending
    }

    /// Returns the most bytes that are read in one poll of the connection.
    fn max_read_in_poll(&self) -> usize {
        if self.activity.has_large_body() { MAX_BODY_READ_IN_POLL } else { MAX_READ_IN_POLL }
    }

    /// Records what `stream` accepted of a write.
    fn observe_write(
        &mut self,
        first: Option<&u8>,
        length: usize,
        written: &Poll<io::Result<usize>>,
    ) {
        if self.protocol == Protocol::Unknown {
            let is_http1 = first == Some(&b'H');
            self.protocol = if is_http1 { Protocol::Http1 } else { Protocol::Http2 };
        }
        self.has_unanswered = false;
        self.next_head.reset();
        self.is_accepted = matches!(written, Poll::Ready(Ok(taken)) if *taken == length);
    }
}

impl<S: AsyncWrite + Unpin, R: Fn(StatusCode) -> Bytes> ProtocolIo<S, R> {
    /// Ends a connection whose head is late: with an error if part of the head has arrived and nothing else is
    /// to be written, so that a client never takes the error for the answer to its next request.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        if !self.is_late {
            self.is_late = true;
            if self.has_unanswered
                && self.is_accepted
                && self.protocol != Protocol::Http2
                && self.activity.is_idle()
            {
                self.reply = (self.render)(StatusCode::REQUEST_TIMEOUT);
            }
        }
        if !self.reply.is_empty() {
            // The connection ends in any case.
            _ = ready!(self.poll_reply(context));
            self.reply.clear();
            _ = ready!(Pin::new(&mut self.stream).poll_shutdown(context));
        }
        let late = "the client does not complete the head of a request";
        Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, late))
    }

    /// Writes the rest of an error.
    fn poll_reply(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.reply.has_remaining() {
            match ready!(Pin::new(&mut self.stream).poll_write(context, &self.reply))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                taken => self.reply.advance(taken),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin, R: Fn(StatusCode) -> Bytes + Unpin> AsyncRead
    for ProtocolIo<S, R>
{
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.is_late {
            if this.activity.read_in_poll() >= this.max_read_in_poll() {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            let before = buffer.filled().len();
            match Pin::new(&mut this.stream).poll_read(context, buffer) {
                Poll::Ready(Ok(())) => {
                    let is_end = buffer.filled().len() == before;
                    let is_http2 = this.protocol == Protocol::Http2;
                    let bytes = &buffer.filled()[before..];
                    this.activity.count_read(bytes.len());
                    let is_flood = this.flood.observe(bytes, &this.activity, is_http2);
                    this.has_unanswered |= !is_end;
                    if is_flood {
                        return this.poll_end(context).map(Err);
                    }
                    // hyper drops a request when the input ends. One that was not polled has no record yet.
                    if is_end
                        && this.protocol != Protocol::Http2
                        && this.polled_requests != this.activity.started()
                    {
                        context.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(Err(error)) if error.kind() != io::ErrorKind::TimedOut => {
                    return Poll::Ready(Err(error));
                }
                Poll::Ready(Err(_)) => {}
                Poll::Pending if this.is_drained() => {
                    // The client has no request to lose; what was written before is written to its end.
                    return Pin::new(&mut this.stream).poll_shutdown(context);
                }
                // The end of the input ends the connection: it has no request, and all answers have been written.
                Poll::Pending if this.poll_unused(context).is_ready() => {
                    return Poll::Ready(Ok(()));
                }
                Poll::Pending => ready!(this.poll_late(context)),
            }
        }
        this.poll_end(context).map(Err)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin, R: Fn(StatusCode) -> Bytes + Unpin> AsyncWrite
    for ProtocolIo<S, R>
{
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        ready!(this.poll_reply(context))?;
        // The rest of a write is never the beginning of an answer.
        if this.is_accepted
            && this.protocol != Protocol::Http2
            && let Some(status) = protocol_error(buffers)
            && this.activity.is_idle()
        {
            this.protocol = Protocol::Http1;
            this.reply = (this.render)(status);
            return Poll::Ready(Ok(buffers[0].len()));
        }
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, buffers);
        let length = buffers.iter().map(|buffer| buffer.len()).sum();
        this.observe_write(buffers.iter().find_map(|buffer| buffer.first()), length, &written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        this.polled_requests = this.activity.started();
        ready!(this.poll_reply(context))?;
        ready!(Pin::new(&mut this.stream).poll_flush(context))?;
        // hyper need not read again after an answer, so the deadline of the next head is registered here.
        if this.poll_late(context).is_ready() {
            context.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.lingering.is_none() {
            ready!(this.poll_reply(context))?;
            ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
        }
        if this.protocol != Protocol::Http2 {
            return Poll::Ready(Ok(()));
        }
        let lingering = this.lingering.get_or_insert_with(LingeringClose::new);
        let is_draining = this.shutdown.is_draining();
        lingering.poll_closed(&mut this.stream, is_draining, context).map(Ok)
    }
}

/// Returns the status if `buffers` are an answer by hyper to a head that it cannot read: a head alone, without a
/// body and without the request id that every other answer has. An answer of a handler has two buffers or an id.
fn protocol_error(buffers: &[IoSlice<'_>]) -> Option<StatusCode> {
    let [head] = buffers else { return None };
    let rest = head.strip_prefix(b"HTTP/1.")?;
    let status = rest.get(1..5)?.strip_prefix(b" ")?;
    let contains = |text: &[u8]| head.windows(text.len()).any(|window| window == text);
    let is_error = status[0] == b'4'
        && head.ends_with(b"\r\n\r\n")
        && contains(b"\r\ncontent-length: 0\r\n")
        && !contains(b"\r\nx-request-id:");
    is_error.then(|| StatusCode::from_bytes(status).ok()).flatten()
}

#[cfg(test)]
mod tests;
