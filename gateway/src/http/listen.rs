//! Accepts connections, and lets them finish when the gateway stops.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::service::service_fn;
use hyper::{Request, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{ClientBody, ServedConnection, StreamExecutor, StreamProgress};
use super::handler::Handler;
use super::shutdown::Phase;
use crate::coalescing_writer::CoalescingWriter;
use crate::connections::{Acceptor, Activity, ClientIo, IdlePolicy, Timeouts};
use crate::journal_barrier::JournalBarrier;

/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest head, and the most that is read ahead of a request's body, in bytes.
const MAX_BUFFER: usize = 64 * 1024;
/// The flow-control windows of one HTTP/2 stream and of one connection, in bytes. An unread frame takes about
/// a hundred bytes of memory, however short it is.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 512 * 1024;
/// How long clients may take to receive the errors that end their requests in a shutdown.
const ENDING_TIMEOUT: Duration = Duration::from_secs(2);

/// When and how to stop.
pub struct Stop {
    /// Stops accepting; requests in progress continue.
    pub shutdown: CancellationToken,
    /// How long connections are still accepted while `/readyz` returns 503.
    pub drain_delay: Duration,
    /// How long requests may continue after that.
    pub drain: Duration,
    /// Cancelled after that, which ends requests.
    pub cut_off: CancellationToken,
}

/// The API's port.
pub struct Port {
    /// Accepts connections.
    pub acceptor: Acceptor<TcpListener>,
    /// Terminates TLS, if configured.
    pub tls: Option<TlsAcceptor>,
    /// Answers requests.
    pub handler: Arc<Handler>,
    /// Flushes the journal before writes.
    pub journal_barrier: JournalBarrier,
    /// The tasks that a shutdown waits for.
    pub tasks: TaskTracker,
    /// How long a client may take no byte of an answer; `None` for no limit.
    pub client_idle: Option<Duration>,
}

// === impl Port ===

impl Port {
    /// Serves HTTP/1.1 and HTTP/2 until `stop` is signalled, then waits for requests in progress.
    pub async fn serve(mut self, stop: Stop) {
        let shutdown = self.handler.shutdown();
        let builder = self.builder();
        // Connections are aborted at the end. A cancellation token would be polled, under its lock, on each
        // poll of each connection.
        let mut connections = JoinSet::new();
        stop.shutdown.run_until_cancelled(self.accept(&builder, &mut connections)).await;
        shutdown.set_unready();
        if !stop.drain_delay.is_zero() {
            tracing::info!(
                delay_ms = stop.drain_delay.as_millis(),
                "shutting down: no longer ready, accepting for a while"
            );
            // The delay always ends by the timeout.
            _ = timeout(stop.drain_delay, self.accept(&builder, &mut connections)).await;
        }
        drop(self.acceptor);
        shutdown.enter(Phase::Draining);
        let is_late = timeout(stop.drain, all(&mut connections)).await.is_err();
        stop.cut_off.cancel();
        if is_late {
            tracing::warn!(
                waited_ms = stop.drain.as_millis(),
                "ending requests that are still under way"
            );
            shutdown.enter(Phase::Ending);
            _ = timeout(ENDING_TIMEOUT, all(&mut connections)).await;
        }
        connections.shutdown().await;
    }

    fn builder(&self) -> auto::Builder<StreamExecutor> {
        let mut builder = auto::Builder::new(StreamExecutor {
            tasks: self.tasks.clone(),
            shutdown: self.handler.shutdown(),
            client_idle: self.client_idle,
        });
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(MAX_BUFFER);
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(Some(Duration::from_secs(30)))
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_concurrent_streams(1_000);
        builder
    }

    /// Spawns a task of `connections` for each accepted connection.
    async fn accept(
        &mut self,
        builder: &auto::Builder<StreamExecutor>,
        connections: &mut JoinSet<()>,
    ) -> Infallible {
        loop {
            let accepted = self.acceptor.accept().await;
            while connections.try_join_next().is_some() {}
            if let Err(error) = accepted.stream.set_nodelay(true) {
                tracing::debug!(%error, "a connection was gone at once");
                continue;
            }
            let timeouts = Timeouts { write: self.client_idle, idle: IdlePolicy::Keep };
            let stream = ClientIo::new(accepted, timeouts);
            let server = Server {
                builder: builder.clone(),
                handler: self.handler.clone(),
                journal_barrier: self.journal_barrier.clone(),
                activity: stream.activity().clone(),
            };
            match &self.tls {
                None => {
                    let stream = CoalescingWriter::new(TokioIo::new(stream));
                    connections.spawn(self.tasks.track_future(server.serve(stream)));
                }
                Some(tls) => {
                    // The deadline of the first request applies to the handshake.
                    let handshake = tls.accept(stream);
                    let connection = async move {
                        match handshake.await {
                            Ok(stream) => server.serve(TokioIo::new(stream)).await,
                            Err(error) => tracing::debug!(%error, "a TLS handshake failed"),
                        }
                    };
                    connections.spawn(self.tasks.track_future(connection));
                }
            }
        }
    }
}

/// Waits until all connections have ended.
async fn all(connections: &mut JoinSet<()>) {
    while connections.join_next().await.is_some() {}
}

/// Serves one connection.
struct Server {
    builder: auto::Builder<StreamExecutor>,
    handler: Arc<Handler>,
    journal_barrier: JournalBarrier,
    activity: Arc<Activity>,
}

// === impl Server ===

impl Server {
    /// Serves `stream`. Values that only the start needs are dropped before the first await.
    fn serve<S>(self, stream: S) -> impl Future<Output = ()> + Send + 'static
    where
        S: Read + Write + Unpin + Send + 'static,
    {
        let shutdown = self.handler.shutdown();
        let stream = self.journal_barrier.connection(stream);
        let (handler, requests) = (self.handler, self.activity.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let guard = requests.begin();
            if request.version() == Version::HTTP_2 {
                requests.set_multiplexed();
            }
            let (handler, shutdown) = (handler.clone(), handler.shutdown());
            // Boxed, so that a stream does not hold the memory of everything before its first event.
            Box::pin(async move {
                let response = handler.serve(request).await?;
                let progress = StreamProgress::current();
                Ok::<_, Infallible>(
                    response.map(|reply| ClientBody::new(reply, shutdown, progress, guard)),
                )
            })
        });
        let connection = self.builder.serve_connection(stream, service).into_owned();
        let connection = ServedConnection::new(connection, self.activity, &shutdown);
        async move {
            match connection.await {
                Some(Err(error)) => {
                    tracing::debug!(error = describe(&*error), "a connection ended badly");
                }
                Some(Ok(())) => {}
                None => tracing::debug!("an idle connection did not end when it was asked to"),
            }
        }
    }
}

fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    match error.downcast_ref::<io::Error>() {
        Some(io) => io.to_string(),
        None => error.to_string(),
    }
}
