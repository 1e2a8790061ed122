//! Runs one connection of the API, and ends it or its requests early if necessary.
//!
//! hyper runs the protocol. This layer tells the connection about a shutdown, closes it when idle, and resets
//! an HTTP/2 stream whose client takes nothing, without affecting the others.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::rt::Executor;
use hyper_util::server::graceful::GracefulConnection;
use tokio::task::futures::TaskLocalFuture;
use tokio::task_local;
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::task::TaskTracker;

use super::body::Reply;
use super::shutdown::{PhaseWatch, Shutdown, ShutdownPhase};
use crate::cancellation::Cancellations;
use crate::connections::{Activity, ActivityGuard, RequestTimeouts};
use crate::timers::IdleTimeout;
use domain::refusal::Refusal;

/// How long an idle connection may take to end after it was asked to.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);

/// An answer over HTTP/2 up to this length, in bytes, counts as sent once hyper has it: it fits into the smallest window
/// that clients have.
const MAX_UNWATCHED_BYTES: usize = 16 * 1024;

task_local! {
    /// The stream whose task is running.
    static STREAM: Arc<StreamProgress>;
}

/// Runs a connection until it ends. A shutdown and a long time without requests end it.
pub(super) struct ServedConnection<C> {
    /// Boxed: each future around it would have to hold it twice.
    connection: Pin<Box<C>>,
    activity: Arc<Activity>,
    phase: PhaseWatch,
    /// Whether the connection ends with its first request, which may still come.
    awaits_last_request: bool,
    /// The interval of idle checks.
    idle_timeout: Duration,
    idle: IdleWatch,
    /// The time of the next check whether the client has hung up.
    hang_up: IdleTimeout,
}

/// The state of the idle timeout of HTTP/2. HTTP/1 is timed by [`ProtocolIo`](super::protocol_io::ProtocolIo).
enum IdleWatch {
    /// The connection is not known to be multiplexed.
    Off,
    /// The time of the next check, and the number of requests at the last one.
    Watching(Pin<Box<Sleep>>, u64),
    /// The connection was asked to end, and is dropped at this time.
    Closing(Pin<Box<Sleep>>),
}

/// Spawns the requests of HTTP/2 connections as tasks that a shutdown waits for.
#[derive(Clone)]
pub(super) struct StreamExecutor {
    pub(super) tasks: TaskTracker,
    pub(super) shutdown: Arc<Shutdown>,
    /// How long a stream may wait for its client to take a byte.
    pub(super) client_idle: Option<Duration>,
}

/// A request of HTTP/2. Ending the task resets its stream.
struct StreamTask<F> {
    request: Pin<Box<TaskLocalFuture<Arc<StreamProgress>, F>>>,
    progress: Arc<StreamProgress>,
    phase: PhaseWatch,
    stalled: IdleTimeout,
    /// The number of frames taken at the last check.
    seen: u64,
}

/// Counts the frames of a stream that were taken: hyper polls for the next frame only when there is window
/// for it.
#[derive(Debug, Default)]
pub(super) struct StreamProgress {
    pieces: AtomicU64,
    is_blocked: AtomicBool,
}

/// The body of a response on a connection.
pub(super) struct ClientBody {
    reply: Reply,
    shutdown: Arc<Shutdown>,
    cancellations: Arc<Cancellations>,
    /// `None` on a connection without streams.
    progress: Option<Arc<StreamProgress>>,
    /// The bytes so far.
    bytes: usize,
    _request: ActivityGuard,
}

// === impl ServedConnection ===

impl<C> ServedConnection<C> {
    /// Creates a connection that ends when it has had no request for `idle` of `timeouts` to twice that.
    pub(super) fn new(
        connection: C,
        activity: Arc<Activity>,
        shutdown: &Shutdown,
        timeouts: RequestTimeouts,
    ) -> Self {
        let (connection, phase) = (Box::pin(connection), shutdown.watch());
        let (idle, hang_up) = (IdleWatch::Off, IdleTimeout::new(timeouts.hang_up));
        let idle_timeout = timeouts.idle;
        let awaits_last_request = false;
        Self { connection, activity, phase, awaits_last_request, idle_timeout, idle, hang_up }
    }
}

impl<C: GracefulConnection> ServedConnection<C> {
    /// Ready when the connection must be polled again, to check whether its client has hung up. hyper always reads HTTP/2.
    fn poll_hang_up_check(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.activity.is_multiplexed() || self.activity.is_idle() {
            self.hang_up.reset();
            return Poll::Pending;
        }
        ready!(self.hang_up.poll_elapsed(context));
        self.hang_up.reset();
        self.activity.check_hang_up();
        Poll::Ready(())
    }

    /// Ready when the connection must be dropped because it is idle.
    fn poll_idle(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            match &mut self.idle {
                IdleWatch::Off if self.activity.is_multiplexed() => {
                    let timer = Box::pin(sleep(self.idle_timeout));
                    self.idle = IdleWatch::Watching(timer, self.activity.started());
                }
                IdleWatch::Off => return Poll::Pending,
                IdleWatch::Watching(timer, seen) => {
                    ready!(timer.as_mut().poll(context));
                    let started = self.activity.started();
                    if self.activity.is_idle() && started == *seen {
                        self.connection.as_mut().graceful_shutdown();
                        self.idle = IdleWatch::Closing(Box::pin(sleep(CLOSE_TIMEOUT)));
                        // Polls again, so that the client is sent a GOAWAY.
                        context.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    *seen = started;
                    timer.as_mut().reset(Instant::now() + self.idle_timeout);
                }
                IdleWatch::Closing(timer) => return timer.as_mut().poll(context),
            }
        }
    }
}

impl<C: GracefulConnection> Future for ServedConnection<C> {
    /// `None` if the connection was dropped because it was idle.
    type Output = Option<Result<(), C::Error>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.activity.begin_poll();
        loop {
            if let Poll::Ready(ended) = this.connection.as_mut().poll(context) {
                return Poll::Ready(Some(ended));
            }
            if this.awaits_last_request && this.activity.started() > 0 {
                this.awaits_last_request = false;
                this.connection.as_mut().graceful_shutdown();
                continue;
            }
            match this.phase.poll_woken(context) {
                Poll::Ready(ShutdownPhase::Grace) if this.activity.started() == 0 => {
                    this.awaits_last_request = true;
                }
                // A phase that follows immediately replaces the one before it, and one may come twice; requests check
                // the phase themselves.
                Poll::Ready(
                    ShutdownPhase::Grace | ShutdownPhase::Draining | ShutdownPhase::Ending,
                ) => {
                    this.awaits_last_request = false;
                    this.connection.as_mut().graceful_shutdown();
                }
                Poll::Ready(ShutdownPhase::Serving) => {}
                Poll::Pending if this.poll_hang_up_check(context).is_ready() => {}
                Poll::Pending => return this.poll_idle(context).map(|()| None),
            }
        }
    }
}

// === impl StreamExecutor ===

impl<F> Executor<F> for StreamExecutor
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, request: F) {
        let progress = Arc::<StreamProgress>::default();
        self.tasks.spawn(StreamTask {
            request: Box::pin(STREAM.scope(progress.clone(), request)),
            progress,
            phase: self.shutdown.watch(),
            stalled: IdleTimeout::new(self.client_idle.unwrap_or(Duration::MAX)),
            seen: 0,
        });
    }
}

impl<F: Future> Future for StreamTask<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        loop {
            if this.request.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            if this.phase.poll_woken(context).is_pending() {
                break;
            }
        }
        let pieces = this.progress.pieces.load(Ordering::Relaxed);
        if !this.progress.is_blocked.load(Ordering::Relaxed) {
            this.stalled.reset();
            return Poll::Pending;
        }
        if std::mem::replace(&mut this.seen, pieces) != pieces {
            this.stalled.reset();
        }
        this.stalled.poll_elapsed(context)
    }
}

impl StreamProgress {
    /// Returns the progress of the stream whose task is running; `None` on a connection without streams.
    pub(super) fn current() -> Option<Arc<Self>> {
        STREAM.try_with(Arc::clone).ok()
    }

    fn asked(&self) {
        self.is_blocked.store(false, Ordering::Relaxed);
    }

    fn handed_out(&self) {
        self.pieces.fetch_add(1, Ordering::Relaxed);
        self.is_blocked.store(true, Ordering::Relaxed);
    }
}

// === impl ClientBody ===

impl ClientBody {
    pub(super) fn new(
        reply: Reply,
        shutdown: Arc<Shutdown>,
        cancellations: Arc<Cancellations>,
        progress: Option<Arc<StreamProgress>>,
        request: ActivityGuard,
    ) -> Self {
        let reply = if progress.is_some() { reply.in_pieces() } else { reply };
        Self { reply, shutdown, cancellations, progress, bytes: 0, _request: request }
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if this.shutdown.is_ending() {
            this.reply.interrupt(Refusal::ShuttingDown);
        } else if this.reply.is_cancelled(&this.cancellations) {
            this.reply.interrupt(Refusal::RequestCancelled);
        }
        let Some(progress) = &this.progress else {
            return Pin::new(&mut this.reply).poll_frame(context);
        };
        progress.asked();
        let polled = Pin::new(&mut this.reply).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            this.bytes += frame.data_ref().map_or(0, Bytes::len);
            progress.handed_out();
        }
        polled
    }

    /// Over HTTP/2, the end of a long answer, and of any one in a shutdown, is only reported by the next poll. hyper makes
    /// that once the client's window has room for all data, so the request does not end while some of it waits.
    fn is_end_stream(&self) -> bool {
        let may_wait = self.bytes > MAX_UNWATCHED_BYTES || self.shutdown.is_draining();
        self.reply.is_end_stream() && !(self.progress.is_some() && may_wait)
    }

    fn size_hint(&self) -> SizeHint {
        self.reply.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use hyper::service::service_fn;
    use hyper::{Request, Response};
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use hyper_util::server::conn::auto;
    use tokio::io::AsyncWriteExt;

    use super::*;
    use crate::http::protocol_io::ProtocolIo;

    fn never_idle() -> RequestTimeouts {
        RequestTimeouts { idle: Duration::MAX, ..RequestTimeouts::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_ends_gracefully_when_nobody_is_waited_for() {
        let (_client, server) = tokio::io::duplex(1_024);
        let service = service_fn(async |_: Request<hyper::body::Incoming>| {
            Ok::<_, Infallible>(Response::new(Reply::whole("")))
        });
        let builder = auto::Builder::new(TokioExecutor::new());
        let connection = builder.serve_connection(TokioIo::new(server), service).into_owned();
        let shutdown = Shutdown::new(Arc::default());
        let connection = ServedConnection::new(connection, Arc::default(), &shutdown, never_idle());
        shutdown.enter(ShutdownPhase::Draining);
        shutdown.enter(ShutdownPhase::Ending);
        let ended = tokio::time::timeout(Duration::from_mins(1), connection).await;
        assert!(matches!(ended, Ok(Some(_))), "it was asked to end");
    }

    /// Regression test: a client that does not answer the ping after a GOAWAY held its connection until the end of the
    /// drain.
    #[tokio::test(start_paused = true)]
    async fn an_unused_connection_of_http2_ends_in_a_drain_although_its_client_is_silent() {
        let (mut client, server) = tokio::io::duplex(64 * 1024);
        // The preface and empty settings.
        client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        let service = service_fn(async |_: Request<hyper::body::Incoming>| {
            Ok::<_, Infallible>(Response::new(Reply::whole("")))
        });
        let (activity, shutdown) =
            (Arc::<Activity>::default(), Arc::new(Shutdown::new(Arc::default())));
        let head_timeout = Duration::from_hours(1);
        let io = ProtocolIo::new(
            server,
            activity.clone(),
            shutdown.clone(),
            head_timeout,
            64 * 1024,
            |_| Bytes::new(),
        );
        let builder = auto::Builder::new(TokioExecutor::new());
        let connection = builder.serve_connection(TokioIo::new(io), service).into_owned();
        let request = activity.begin();
        let connection = ServedConnection::new(connection, activity, &shutdown, never_idle());
        let mut connection = std::pin::pin!(connection);
        let mut waiting = async |time| tokio::time::timeout(time, connection.as_mut()).await;
        assert!(waiting(Duration::from_secs(10)).await.is_err());
        shutdown.enter(ShutdownPhase::Draining);
        assert!(waiting(Duration::from_mins(10)).await.is_err(), "it has a request");
        drop(request);
        let ended = waiting(Duration::from_secs(10)).await;
        assert!(matches!(ended, Ok(Some(Ok(())))), "{}", ended.is_ok());
        drop(client);
    }
}
