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

use super::lingering_close::LingeringClose;
use super::shutdown::Shutdown;
use super::small_frames::SmallFrames;
use crate::connections::Activity;
use crate::timers::IdleTimeout;

/// The most bytes that are read in one poll of a connection; other connections of the worker come before more. A
/// frame of HTTP/2 has nine bytes or more, and takes a tenth of a microsecond or more.
pub(super) const MAX_READ_IN_POLL: usize = 64 * 1024;
/// The same while a longer body of known length is received over HTTP/1, which costs little more than its copy. If a
/// body is received in several polls, other bodies displace it from the caches before it is parsed and sent.
const MAX_BODY_READ_IN_POLL: usize = 256 * 1024;
/// The most bytes that a client may send while it has no request: more than the head of one, and than a client of
/// HTTP/2 may send of the body of one that was refused.
const MAX_UNREQUESTED: usize = 2 * 1024 * 1024;
/// The most small frames of HTTP/2 that a client may send while it has no request.
const MAX_SMALL_FRAMES: u32 = 1_024;
/// How often an incomplete head may be parsed, multiplied by the size that it may have. hyper parses it from its
/// beginning after each read, so that a long head in short pieces would take a time that is quadratic in its length.
const MAX_PARSES: usize = 128;

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
    /// The longest head, in bytes.
    max_head_bytes: usize,
    protocol: Protocol,
    /// Whether bytes were read after the last write.
    has_unanswered: bool,
    /// Whether `stream` accepted all of the last write.
    is_accepted: bool,
    /// The time for the next head.
    next_head: IdleTimeout,
    /// The number of requests before that head.
    seen: u64,
    /// The part of an error that is not written yet.
    reply: Bytes,
    /// The number of requests that hyper has polled: it polls a request, then flushes.
    polled_requests: u64,
    unrequested: Unrequested,
    small_frames: SmallFrames,
    /// Whether the connection ends after `reply`, because a head has not been completed in time.
    is_late: bool,
    /// Set when the sending side of a connection of HTTP/2 is closed.
    lingering: Option<LingeringClose>,
    /// The time of the next check whether a connection of HTTP/2 is unused in a shutdown, and the number of requests so
    /// far if it had none in progress at the last one.
    unused: Option<(Pin<Box<Sleep>>, Option<u64>)>,
}

/// What was read without a request in progress.
#[derive(Default)]
struct Unrequested {
    /// The number of requests before it.
    requests: u64,
    bytes: usize,
    small_frames: u32,
    /// The bytes that hyper has parsed, if the protocol is HTTP/1.
    parsed: usize,
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
            max_head_bytes,
            protocol: Protocol::Unknown,
            has_unanswered: false,
            is_accepted: true,
            next_head: IdleTimeout::new(head_timeout),
            seen: 0,
            reply: Bytes::new(),
            polled_requests: 0,
            unrequested: Unrequested::default(),
            small_frames: SmallFrames::default(),
            is_late: false,
            lingering: None,
            unused: None,
        }
    }

    /// Ready when the next head of HTTP/1 is late. The deadline of the first is below this layer. Called when
    /// there is nothing to read or to write.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.protocol != Protocol::Http1 || !self.activity.is_idle() {
            return Poll::Pending;
        }
        let started = self.activity.started();
        if std::mem::replace(&mut self.seen, started) != started {
            self.next_head.reset();
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

    /// Counts bytes that were read. Returns whether the client sends ever more of what only costs time: frames of
    /// HTTP/2 without a request, or a head in small pieces.
    fn is_flood(&mut self, bytes: &[u8]) -> bool {
        self.activity.count_read(bytes.len());
        let small_frames = self.small_frames.count(bytes);
        let (requests, unrequested) = (self.activity.started(), &mut self.unrequested);
        if !self.activity.is_idle() || unrequested.requests != requests {
            *unrequested = Unrequested { requests, ..Unrequested::default() };
            return false;
        }
        unrequested.bytes += bytes.len();
        unrequested.small_frames += small_frames;
        if self.protocol != Protocol::Http2 {
            unrequested.parsed += unrequested.bytes;
        }
        unrequested.bytes > MAX_UNREQUESTED
            || unrequested.small_frames > MAX_SMALL_FRAMES
            || unrequested.parsed / MAX_PARSES > self.max_head_bytes
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
                    let is_flood = this.is_flood(&buffer.filled()[before..]);
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
mod tests {
    use std::task::Waker;

    use futures_util::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::super::shutdown::Phase;
    use super::*;

    const HEAD_TIMEOUT: Duration = Duration::from_secs(7);
    const MAX_HEAD: usize = 64 * 1024;
    const ERROR: &[u8] =
        b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

    /// Returns a connection that buffers `buffer` bytes until its client reads.
    fn connection(
        buffer: usize,
    ) -> (DuplexStream, ProtocolIo<DuplexStream, impl Fn(StatusCode) -> Bytes>) {
        let (client, server) = duplex(buffer);
        let render = |status: StatusCode| format!("[error {}]", status.as_u16()).into();
        let shutdown = Arc::new(Shutdown::new(Arc::default()));
        (client, ProtocolIo::new(server, Arc::default(), shutdown, HEAD_TIMEOUT, MAX_HEAD, render))
    }

    /// Writes all of `writes`, closes the connection, and returns what the client read, a byte at a time.
    async fn written(writes: &[&[u8]], with_request: bool) -> String {
        let (mut client, mut server) = connection(1);
        let _request = with_request.then(|| server.activity.begin());
        let write = async {
            for bytes in writes {
                server.write_all(bytes).await.unwrap();
            }
            server.shutdown().await.unwrap();
        };
        let mut read = String::new();
        let (read_all, ()) = tokio::join!(client.read_to_string(&mut read), write);
        read_all.unwrap();
        read
    }

    #[tokio::test]
    async fn an_error_head_of_hyper_is_replaced() {
        assert_eq!(written(&[ERROR], false).await, "[error 431]");
        let after_http_1_0 = std::str::from_utf8(ERROR).unwrap().replace("1.1", "1.0");
        assert_eq!(written(&[after_http_1_0.as_bytes()], false).await, "[error 431]");
    }

    /// Time is paused, because the client of the last case does not close its connection.
    #[tokio::test(start_paused = true)]
    async fn anything_else_is_written_as_it_is() {
        let text = std::str::from_utf8(ERROR).unwrap();
        let with_id = text.replace("connection", "x-request-id: 1\r\nconnection");
        let with_body = text.replace("length: 0", "length: 10");
        for other in [&with_id, &with_body, &text.replace("431", "200"), &text[1..], &text[..60]] {
            assert_eq!(&written(&[other.as_bytes()], false).await, other);
        }
        assert_eq!(written(&[ERROR], true).await, text, "a request is in progress");
        // HTTP/2 begins with a frame of settings.
        assert_eq!(written(&[b"\0\0", ERROR], false).await, format!("\0\0{text}"));
    }

    #[tokio::test]
    async fn the_rest_of_a_partial_write_is_not_replaced() {
        let (mut client, mut server) = connection(4);
        let answer = [b"body", ERROR].concat();
        let mut context = Context::from_waker(Waker::noop());
        let taken = Pin::new(&mut server).poll_write(&mut context, &answer);
        assert!(matches!(taken, Poll::Ready(Ok(4))));
        let mut read = vec![0; answer.len()];
        let (rest, all) =
            tokio::join!(server.write_all(&answer[4..]), client.read_exact(&mut read));
        rest.unwrap();
        all.unwrap();
        assert_eq!(read, answer);
    }

    #[tokio::test]
    async fn several_buffers_are_never_replaced() {
        let (mut client, mut server) = connection(1_024);
        let buffers = [IoSlice::new(ERROR), IoSlice::new(b"body")];
        assert_eq!(server.write_vectored(&buffers).await.unwrap(), ERROR.len() + 4);
        let mut read = vec![0; ERROR.len() + 4];
        client.read_exact(&mut read).await.unwrap();
        assert_eq!(read, [ERROR, b"body"].concat());
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_head_is_answered_only_if_a_part_has_arrived() {
        for (part, expected) in [("", ""), ("GET / HT", "[error 408]")] {
            let (mut client, mut server) = connection(1_024);
            drop(server.activity.begin());
            server.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            client.write_all(part.as_bytes()).await.unwrap();
            let began = Instant::now();
            let error = server.read_to_end(&mut Vec::new()).await.unwrap_err();
            assert_eq!(
                (error.kind(), began.elapsed() >= HEAD_TIMEOUT),
                (io::ErrorKind::TimedOut, true)
            );
            drop(server);
            let mut read = String::new();
            client.read_to_string(&mut read).await.unwrap();
            assert_eq!(read.strip_prefix("HTTP/1.1 200 OK\r\n\r\n"), Some(expected));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_head_is_late_while_a_request_is_in_progress() {
        let (mut client, mut server) = connection(1_024);
        server.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.unwrap();
        client.write_all(b"body").await.unwrap();
        let request = server.activity.begin();
        let mut read = Vec::new();
        let long = tokio::time::timeout(HEAD_TIMEOUT * 10, server.read_to_end(&mut read)).await;
        assert!(long.is_err());
        drop(request);
        assert!(server.read_to_end(&mut read).await.is_err());
    }

    #[tokio::test]
    async fn a_shutdown_closes_a_connection_without_a_request() {
        let (mut client, mut server) = connection(4);
        client.write_all(b"GET").await.unwrap();
        let request = server.activity.begin();
        server.shutdown.enter(Phase::Draining);
        let mut read = [0; 3];
        server.read_exact(&mut read).await.unwrap();
        assert!(server.read_u8().now_or_never().is_none(), "a request is in progress");
        drop(request);
        assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
        assert_eq!(client.read(&mut read).await.unwrap(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_poll_of_the_connection_reads_a_bounded_number_of_bytes() {
        const SENT: usize = 2 * MAX_READ_IN_POLL + 2 * MAX_BODY_READ_IN_POLL;
        let (mut client, mut server) = connection(SENT);
        let activity = server.activity.clone();
        let _request = activity.begin();
        client.write_all(&vec![0; SENT]).await.unwrap();
        let mut read_all = || {
            let mut bytes = vec![0; 4 * 1024];
            let mut total = 0;
            while let Some(read) = server.read(&mut bytes).now_or_never() {
                total += read.unwrap();
            }
            total
        };
        assert_eq!((read_all(), read_all()), (MAX_READ_IN_POLL, 0));
        activity.begin_poll();
        assert_eq!(read_all(), MAX_READ_IN_POLL);
        activity.begin_poll();
        activity.set_large_body(true);
        assert_eq!((read_all(), read_all()), (MAX_BODY_READ_IN_POLL, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_in_small_pieces_is_parsed_a_bounded_number_of_times() {
        for (size, is_refused) in [(8, true), (1_024, false)] {
            let (client, mut server) = connection(size);
            let (mut answers, mut client) = tokio::io::split(client);
            let pieces = MAX_HEAD / size;
            let write = async {
                for _ in 0..pieces {
                    if client.write_all(&vec![b'a'; size]).await.is_err() {
                        break;
                    }
                }
            };
            let read = async move {
                let mut bytes = vec![0; size];
                for _ in 0..pieces {
                    server.activity.begin_poll();
                    if server.read(&mut bytes).await.is_err() {
                        return true;
                    }
                }
                false
            };
            let mut answer = Vec::new();
            let receive = answers.read_to_end(&mut answer);
            assert_eq!(tokio::join!(write, read, receive).1, is_refused, "{size}");
            assert_eq!(answer == b"[error 408]", is_refused);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_without_a_request_is_not_read_for_long() {
        let (mut client, mut server) = connection(1_024);
        server.protocol = Protocol::Http2;
        let flood = async {
            while client.write_all(&[0; 1_024]).await.is_ok() {}
            std::future::pending::<()>().await;
        };
        let activity = server.activity.clone();
        let read = async {
            let (mut total, mut bytes) = (0, [0; 1_024]);
            loop {
                activity.begin_poll();
                match server.read(&mut bytes).await {
                    Ok(read) => total += read,
                    Err(error) => return (total, error.kind()),
                }
                // A request begins a new count.
                if total == MAX_UNREQUESTED {
                    drop(activity.begin());
                }
            }
        };
        tokio::select! {
            // The read that follows a request may be a part of it, and does not count.
            read = read => assert_eq!(read, (2 * MAX_UNREQUESTED + 1_024, io::ErrorKind::TimedOut)),
            () = flood => unreachable!("it waits"),
        }
    }
}
