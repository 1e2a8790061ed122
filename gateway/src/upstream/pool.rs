//! The connections to one upstream: idle HTTP/1.1 connections, or one of HTTP/2 that all requests share.

mod idle;

use std::error::Error as _;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use h2::Reason;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper::rt::Executor;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout, timeout_at};

pub(super) use self::idle::Idle;
use self::idle::{Connection, SharedConnection, max_idle};
use super::answer_body::AnswerBody;
use super::connect::{Connect, Connected, Protocol};
use super::driven::DrivenConnection;
use super::early_response::EarlyResponseStream;
use super::error::{TimeoutKind, UpstreamError};
use super::head_limit::{HeadLimit, HeadLimitedStream};
use super::outbound::{Outbound, SendStatus};
use super::pool_stats::PoolStats;
use super::slots::{Slot, Slots};
use crate::coalescing_writer::CoalescingWriter;
use crate::journal_barrier::JournalBarrier;
use domain::id::AccountId;

/// How long a connection may take to become ready after its answer was read.
const READY_TIMEOUT: Duration = Duration::from_secs(1);
/// The interval of HTTP/2 pings, and how long their answer may take. All requests share the connection, so its
/// loss is to be found soon.
const PING_INTERVAL: Duration = Duration::from_secs(15);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// The connections of one worker to one upstream.
pub(super) struct Pool {
    connector: Box<dyn Connect>,
    /// How long a request waits for a connection.
    connect_timeout: Duration,
    journal_barrier: JournalBarrier,
    idle: Arc<Idle>,
    /// `None` if the connections are not bounded.
    slots: Option<Arc<Slots>>,
    stats: Arc<PoolStats>,
    /// Held while a connection is opened to a server that has chosen HTTP/2 before, because one is enough.
    connecting: tokio::sync::Mutex<()>,
}

/// Why a connection gave no answer.
enum Failure {
    /// The deadline of the head has passed.
    TimedOut,
    /// The connection broke, or the server ended the request.
    Broken {
        error: hyper::Error,
        /// Whether the connection took the request; it may have been sent.
        was_accepted: bool,
        is_connection_loss: bool,
    },
}

/// An HTTP/1.1 connection in use. Dropping it closes the connection.
pub(super) struct PooledConnection {
    connection: Box<DrivenConnection>,
    idle: Arc<Idle>,
    /// How long the connection may be idle.
    max_idle: Duration,
}

// === impl Pool ===

impl Pool {
    /// Creates a pool of the connections that `connector` opens, which write through `journal_barrier`. A request
    /// waits for one up to `connect_timeout`. `slots` bound the connections of all workers, and `stats` count them.
    pub(super) fn new(
        connector: Box<dyn Connect>,
        connect_timeout: Duration,
        journal_barrier: JournalBarrier,
        slots: Option<Arc<Slots>>,
        stats: Arc<PoolStats>,
    ) -> Self {
        let idle = Arc::default();
        stats.add_pool(&idle);
        if let Some(slots) = &slots {
            slots.add_pool(&idle);
        }
        Self {
            connector,
            connect_timeout,
            journal_barrier,
            idle,
            slots,
            stats,
            connecting: tokio::sync::Mutex::default(),
        }
    }

    /// Takes a slot for a request of `account`, to be kept until its answer has ended; `None` if connections are not bounded.
    ///
    /// # Errors
    /// [`UpstreamError::Overloaded`] if there is none within the connect timeout.
    pub(super) async fn slot(
        &self,
        account: Option<AccountId>,
        send_status: &SendStatus,
    ) -> Result<Option<Slot>, UpstreamError> {
        match &self.slots {
            Some(slots) => slots.take(account, self.connect_timeout, send_status).await.map(Some),
            None => Ok(None),
        }
    }

    /// Sends the request that `request` builds for the connection's protocol, and waits for the head of the
    /// answer until `deadline`.
    ///
    /// A connection may close while it is idle, and a request may be sent before that is known. So a request that
    /// fails on a connection which had served others is sent again: on any connection if it has not left, and on
    /// a new one otherwise, which `send_status` records.
    ///
    /// # Errors
    /// There is no connection in time, or it broke before the head.
    pub(super) async fn send(
        &self,
        request: &impl Fn(Protocol) -> Request<Outbound>,
        send_status: &SendStatus,
        deadline: Instant,
    ) -> Result<Response<AnswerBody>, UpstreamError> {
        while let Some(connection) = self.idle.take() {
            let began_at = Instant::now();
            match self.send_on(connection, request, deadline).await {
                Ok(response) => return Ok(response),
                Err(Failure::Broken { was_accepted: false, .. }) => {}
                Err(Failure::Broken { is_connection_loss: true, .. }) => {
                    send_status.set_lost(began_at.elapsed());
                    break;
                }
                Err(failure) => return Err(failure.into()),
            }
        }
        // Boxed because it is rare: the future of every request would have to hold it.
        let connection = Box::pin(self.connect_until(deadline)).await?;
        Ok(self.send_on(connection, request, deadline).await?)
    }

    async fn send_on(
        &self,
        connection: Connection,
        request: &impl Fn(Protocol) -> Request<Outbound>,
        deadline: Instant,
    ) -> Result<Response<AnswerBody>, Failure> {
        match connection {
            Connection::Http1(mut connection) => {
                let sent = connection.send(request(Protocol::Http1), deadline).await;
                let response = sent.ok_or(Failure::TimedOut)?.map_err(Failure::broken)?;
                let (idle, max_idle) = (self.idle.clone(), max_idle(response.headers()));
                let connection = PooledConnection { connection, idle, max_idle };
                Ok(response.map(|body| AnswerBody::with_connection(connection, body)))
            }
            Connection::Http2(SharedConnection { mut sender, id, .. }) => {
                // Boxed: the future of a request over HTTP/1.1 would have to hold it.
                let sent = Box::pin(sender.try_send_request(request(Protocol::Http2)));
                let failure = match timeout_at(deadline, sent).await {
                    Ok(Ok(response)) => return Ok(response.map(AnswerBody::with_task)),
                    Ok(Err(failed)) => Failure::broken(failed),
                    Err(_) => Failure::TimedOut,
                };
                if failure.may_be_of_connection() {
                    // Its other requests continue, and so does a connection that has replaced it.
                    self.idle.forget(id);
                }
                Err(failure)
            }
        }
    }

    /// Opens a connection within the connect timeout and until `deadline`.
    async fn connect_until(&self, deadline: Instant) -> Result<Connection, UpstreamError> {
        let connecting = timeout(self.connect_timeout, self.connect());
        let connected = timeout_at(deadline, connecting).await;
        let connected = connected.map_err(|_| UpstreamError::TimedOut(TimeoutKind::FirstByte))?;
        connected.map_err(|_| UpstreamError::TimedOut(TimeoutKind::Connect))?
    }

    async fn connect(&self) -> Result<Connection, UpstreamError> {
        let is_http2 = self.idle.is_http2();
        let _connecting = if is_http2 { Some(self.connecting.lock().await) } else { None };
        if is_http2 && let Some(connection) = self.idle.take() {
            return Ok(connection);
        }
        if let Some(slots) = &self.slots {
            slots.make_room();
        }
        let began_at = Instant::now();
        let Connected { stream, protocol } =
            self.connector.connect().await.map_err(UpstreamError::Unreachable)?;
        let open = self.stats.record_opened(began_at.elapsed());
        let head_limit = HeadLimit::new();
        let stream = HeadLimitedStream::new(TokioIo::new(stream), head_limit.clone());
        let stream = CoalescingWriter::new(EarlyResponseStream::new(TokioIo::new(stream)));
        let stream = self.journal_barrier.connection(stream);
        let unreachable = |error: hyper::Error| UpstreamError::Unreachable(error.into());
        match protocol {
            Protocol::Http1 => {
                let (sender, connection) = http1::handshake(stream).await.map_err(unreachable)?;
                self.idle.note_http1();
                let connection = DrivenConnection::new(sender, connection, head_limit, open);
                Ok(Connection::Http1(Box::new(connection)))
            }
            Protocol::Http2 => {
                let handshake = http2::Builder::new(TokioExecutor::new())
                    .timer(TokioTimer::new())
                    .keep_alive_interval(PING_INTERVAL)
                    .keep_alive_timeout(PING_TIMEOUT)
                    .handshake(stream);
                let (sender, connection) = handshake.await.map_err(unreachable)?;
                spawn_detached(async move {
                    let _open = open;
                    if let Err(error) = connection.await {
                        tracing::debug!(%error, "an HTTP/2 connection to an upstream ended badly");
                    }
                });
                Ok(Connection::Http2(self.idle.share(sender)))
            }
        }
    }
}

// === impl Failure ===

impl Failure {
    fn broken(mut failed: TrySendError<Request<Outbound>>) -> Self {
        let was_accepted = failed.take_message().is_none();
        let error = failed.into_error();
        Self::Broken { was_accepted, is_connection_loss: is_connection_loss(&error), error }
    }

    /// Returns whether other requests on the connection may fail as well. After a timeout, the connection may be what
    /// fails, and an idle one would be kept although its server floods it.
    fn may_be_of_connection(&self) -> bool {
        match self {
            Self::TimedOut => true,
            Self::Broken { is_connection_loss, .. } => *is_connection_loss,
        }
    }
}

impl From<Failure> for UpstreamError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::TimedOut => Self::TimedOut(TimeoutKind::FirstByte),
            Failure::Broken { error, .. } => Self::Unreachable(error.into()),
        }
    }
}

/// Returns whether the connection was lost, rather than the request kept back or the answer malformed.
fn is_connection_loss(error: &hyper::Error) -> bool {
    if error.is_user() || error.is_parse() {
        return false;
    }
    let http2 = error.source().and_then(|source| source.downcast_ref::<h2::Error>());
    // The server ended the one request, unless it did not begin to process it (RFC 9113, 8.7).
    http2.is_none_or(|error| !error.is_reset() || error.reason() == Some(Reason::REFUSED_STREAM))
}

// === impl PooledConnection ===

impl PooledConnection {
    /// Drives the connection while `read` waits for something that the connection does.
    pub(super) fn poll_read<T>(
        &mut self,
        context: &mut Context<'_>,
        read: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.connection.poll_read(context, read)
    }

    /// Returns the connection, whose answer was read to the end, to the pool. If it still sends the request,
    /// this happens once that has been sent. `slot` is freed afterwards.
    pub(super) fn put_back(mut self, slot: Option<Slot>) {
        if Handle::try_current().is_err() {
            // The runtime has ended, and with it the connection.
            return;
        }
        if self.connection.is_ready() {
            self.idle.put(self.connection, self.max_idle);
        } else if !self.connection.is_closed() {
            spawn_detached(async move {
                let _slot = slot;
                if let Ok(true) = timeout(READY_TIMEOUT, self.connection.ready()).await
                    && self.connection.is_ready()
                {
                    self.idle.put(self.connection, self.max_idle);
                }
            });
        }
    }
}

/// Spawns a task that shutdown does not wait for: shutdown waits for requests, not for idle connections.
fn spawn_detached(work: impl Future<Output = ()> + Send + 'static) {
    TokioExecutor::new().execute(work);
}

#[cfg(test)]
mod tests;
