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
/// What clients may send ahead on one stream of HTTP/2 and on one connection, in bytes. Each frame takes some
/// hundred bytes until it is read, however short it is.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 512 * 1024;
/// How long clients may take for the errors that end their requests in a shutdown.
const ENDING_TIMEOUT: Duration = Duration::from_secs(2);

/// When to stop, and how.
pub struct Stop {
    /// Ends the accepting; requests under way go on.
    pub shutdown: CancellationToken,
    /// How long connections are still accepted while `/readyz` says that no requests should be sent.
    pub drain_delay: Duration,
    /// How long requests may go on after that.
    pub drain: Duration,
    /// Cancelled by us after that; requests are ended then.
    pub cut_off: CancellationToken,
}

/// The API's port.
pub struct Port {
    /// Where connections come from.
    pub acceptor: Acceptor<TcpListener>,
    /// What is within TLS, if anything is.
    pub tls: Option<TlsAcceptor>,
    /// What answers requests.
    pub handler: Arc<Handler>,
    /// How answers leave.
    pub journal_barrier: JournalBarrier,
    /// What a shutdown waits for.
    pub tasks: TaskTracker,
    /// How long a client may take nothing of what it is sent; `None` for as long as it wishes.
    pub client_idle: Option<Duration>,
}

// === impl Port ===

impl Port {
    /// Serves HTTP/1.1 and HTTP/2 until `stop` says so, then waits for what is under way.
    pub async fn serve(mut self, stop: Stop) {
        let shutdown = self.handler.shutdown();
        let builder = self.builder();
        // they are aborted in the end: a token would be asked, under its lock, at every turn of each
        let mut connections = JoinSet::new();
        stop.shutdown.run_until_cancelled(self.accept(&builder, &mut connections)).await;
        shutdown.set_unready();
        if !stop.drain_delay.is_zero() {
            tracing::info!(
                delay_ms = stop.drain_delay.as_millis(),
                "shutting down: no longer ready, accepting for a while"
            );
            // that it takes this long is how it ends
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

    /// Serves connections as they come, each in a task of `connections`.
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
                    // it ends with the first request's deadline
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

/// What serves one connection.
struct Server {
    builder: auto::Builder<StreamExecutor>,
    handler: Arc<Handler>,
    journal_barrier: JournalBarrier,
    activity: Arc<Activity>,
}

// === impl Server ===

impl Server {
    /// Serves `stream`. What it takes to begin is let go before the first await.
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
            // boxed, so that a stream does not hold the memory of all that went before its first event
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
