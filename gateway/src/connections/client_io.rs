//! Connection IO that fails if the client does nothing for too long.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::RequestTimeouts;
use super::acceptor::Accepted;
use super::activity::Activity;
use super::hang_up::has_hung_up;
use super::proxies::ClientAddress;
use super::proxy_header::ProxyHeaderReader;
use super::slots::ConnectionGuard;
use crate::timers::IdleTimeout;

/// How long a client may do nothing, and what happens then.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// How long written bytes may wait without the client taking one; `None` for no limit.
    pub write: Option<Duration>,
    /// How long a request may be awaited.
    pub request: RequestTimeouts,
    /// What happens to an idle connection.
    pub idle: IdlePolicy,
}

/// What happens to a connection that had requests and has had none for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdlePolicy {
    /// It is closed.
    Close,
    /// The protocol layer decides.
    Keep,
}

/// A client's connection, below TLS. Reads fail if no request arrives in time, writes if the client takes
/// nothing for too long.
#[derive(Debug)]
pub struct ClientIo<S> {
    stream: S,
    address: ClientAddress,
    preamble: Preamble,
    activity: Arc<Activity>,
    waiting: Waiting,
    /// The interval of idle checks.
    idle: Duration,
    write: IdleTimeout,
    /// Returns whether the client has hung up; `None` if it is not checked.
    has_hung_up: Option<fn(&S) -> bool>,
    slot: ConnectionGuard,
}

/// What precedes the bytes of the client.
#[derive(Debug)]
enum Preamble {
    /// A header of the PROXY protocol.
    Header(ProxyHeaderReader),
    /// Bytes of the client that arrived with the header.
    Rest(Bytes),
    /// Nothing more.
    Done,
}

/// What the connection waits for besides bytes.
#[derive(Debug)]
enum Waiting {
    /// Its first request.
    Opening(Pin<Box<Sleep>>, IdlePolicy),
    /// The time of the next idle check, and the number of requests at the last one.
    Idle(Pin<Box<Sleep>>, u64),
    /// Nothing.
    Nothing,
}

impl<S> ClientIo<S> {
    /// Wraps a newly accepted connection. It keeps its slot until it is dropped.
    pub fn new(accepted: Accepted<S>, timeouts: Timeouts) -> Self {
        let Accepted { stream, address, slot, has_proxy_header } = accepted;
        let preamble = if has_proxy_header {
            Preamble::Header(ProxyHeaderReader::default())
        } else {
            Preamble::Done
        };
        Self {
            stream,
            address: ClientAddress::new(address, has_proxy_header),
            preamble,
            activity: Arc::default(),
            waiting: Waiting::Opening(Box::pin(sleep(timeouts.request.first)), timeouts.idle),
            idle: timeouts.request.idle,
            write: IdleTimeout::new(timeouts.write.unwrap_or(Duration::MAX)),
            has_hung_up: None,
            slot,
        }
    }

    /// Fails with the flush after [`Activity::check_hang_up`] if the client has hung up by then.
    #[must_use]
    pub fn checking_hang_ups(self) -> Self
    where
        S: AsFd,
    {
        Self { has_hung_up: Some(has_hung_up), ..self }
    }

    /// Returns the activity to which requests are reported.
    pub fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }

    /// Returns the client's address.
    pub const fn address(&self) -> &ClientAddress {
        &self.address
    }

    /// Ready when the client has done nothing for too long. Called when there is nothing to read.
    fn poll_silent(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            match &mut self.waiting {
                Waiting::Opening(timer, _) if !self.activity.has_begun() => {
                    return timer.as_mut().poll(context);
                }
                Waiting::Opening(_, IdlePolicy::Keep) => self.waiting = Waiting::Nothing,
                Waiting::Opening(_, IdlePolicy::Close) => {
                    let timer = Box::pin(sleep(self.idle));
                    self.waiting = Waiting::Idle(timer, self.activity.started());
                }
                Waiting::Idle(timer, seen) => {
                    ready!(timer.as_mut().poll(context));
                    let started = self.activity.started();
                    if self.activity.is_idle() && started == *seen {
                        return Poll::Ready(());
                    }
                    *seen = started;
                    timer.as_mut().reset(Instant::now() + self.idle);
                }
                Waiting::Nothing => return Poll::Pending,
            }
        }
    }

    /// Fails a write that was blocked for too long.
    fn observe_write(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.write.reset();
            return written;
        }
        ready!(self.write.poll_elapsed(context));
        Poll::Ready(Err(timed_out("the client takes nothing of what it is sent")))
    }
}

impl<S: AsyncRead + Unpin> ClientIo<S> {
    /// Reads the header of a proxy, and counts the connection for the address that it reports.
    fn poll_header(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Preamble::Header(reader) = &mut self.preamble else { return Poll::Ready(Ok(())) };
        let Poll::Ready(read) = reader.poll_read(&mut self.stream, context) else {
            ready!(self.poll_silent(context));
            return Poll::Ready(Err(timed_out("the proxy sends no header")));
        };
        let header = read.inspect_err(|error| {
            let proxy = self.address.get().map(tracing::field::display);
            tracing::warn!(%error, proxy, "a connection from a trusted proxy is closed");
        })?;
        if let Some(source) = header.source {
            self.address.report(source);
            self.slot.set_address(source.ip()).map_err(io::Error::other)?;
        }
        self.preamble = Preamble::Rest(header.rest);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ClientIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !matches!(self.preamble, Preamble::Done) {
            ready!(self.poll_header(context))?;
            if let Preamble::Rest(rest) = &mut self.preamble
                && !rest.is_empty()
            {
                let length = rest.len().min(buffer.remaining());
                buffer.put_slice(&rest.split_to(length));
                return Poll::Ready(Ok(()));
            }
            self.preamble = Preamble::Done;
        }
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() || matches!(self.waiting, Waiting::Nothing) {
            return read;
        }
        ready!(self.poll_silent(context));
        Poll::Ready(Err(timed_out("the client sends no request")))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ClientIo<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.observe_write(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        self.observe_write(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.activity.take_hang_up_check()
            && self.has_hung_up.is_some_and(|has_hung_up| has_hung_up(&self.stream))
        {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

fn timed_out(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::super::slots::{ConnectionLimits, ConnectionSlots};
    use super::*;

    const WRITE_TIMEOUT: Duration = Duration::from_secs(7);
    /// Early enough for a write not to fail.
    const IN_TIME: Duration = Duration::from_secs(6);

    /// Returns a connection that buffers `buffer` bytes until its client reads.
    fn connection(buffer: usize, idle: IdlePolicy) -> (DuplexStream, ClientIo<DuplexStream>) {
        let (client, server) = duplex(buffer);
        let slot = ConnectionSlots::new(ConnectionLimits::default()).take(None).unwrap();
        let request = RequestTimeouts::default();
        let timeouts = Timeouts { write: Some(WRITE_TIMEOUT), request, idle };
        let accepted = Accepted { stream: server, address: None, slot, has_proxy_header: false };
        (client, ClientIo::new(accepted, timeouts))
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_no_request_is_not_waited_for() {
        // Nothing, part of the HTTP/2 preface, all of it.
        for bytes in ["", "P", "PRI", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
            let (mut client, mut server) = connection(1_024, IdlePolicy::Keep);
            client.write_all(bytes.as_bytes()).await.unwrap();
            let began = Instant::now();
            let mut read = vec![0; bytes.len()];
            server.read_exact(&mut read).await.unwrap();
            let error = server.read_u8().await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{bytes:?}");
            assert!(began.elapsed() >= RequestTimeouts::default().first);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_had_a_request_is_kept_while_another_is_under_way() {
        let (_client, mut server) = connection(1_024, IdlePolicy::Close);
        let request = server.activity().begin();
        let idle = RequestTimeouts::default().idle;
        let long = tokio::time::timeout(idle * 10, server.read_u8()).await;
        assert!(long.is_err(), "a request is under way");
        drop(request);
        let began = Instant::now();
        assert_eq!(server.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() <= idle * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_client_does_not_take_is_not_kept_for_it() {
        let (mut client, mut server) = connection(10, IdlePolicy::Keep);
        let write = async {
            let began = Instant::now();
            (server.write_all(&[0; 1_000]).await, began.elapsed())
        };
        let read = async {
            // A byte now and then suffices.
            for _ in 0..10 {
                tokio::time::sleep(IN_TIME).await;
                client.read_u8().await.unwrap();
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            (written, took) = write => {
                assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
                assert!(took >= IN_TIME * 10 + WRITE_TIMEOUT);
            }
            () = read => unreachable!("it waits"),
        }
    }
}
