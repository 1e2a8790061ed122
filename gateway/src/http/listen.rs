//! Accepts connections, and lets them finish when the gateway stops.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::rt::{Executor, Read, Write};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::handler::Handler;
use crate::coalesce::Coalesced;
use crate::outbox::Outbox;

/// How long a client may take to send the head of a request, and before that for its TLS handshake.
const HEAD_DEADLINE: Duration = Duration::from_secs(30);
/// The wait after a failed accept, which is nearly always "too many open files".
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// When to stop, and how.
pub struct Stop {
    /// Ends the accepting; requests under way go on.
    pub shutdown: CancellationToken,
    /// How long they may.
    pub drain: Duration,
    /// Cancelled by us after that; connections are dropped then.
    pub cut_off: CancellationToken,
}

/// Runs the requests of an HTTP/2 connection, each a task, where a shutdown waits for them.
#[derive(Clone)]
struct Tracked(TaskTracker);

impl<F> Executor<F> for Tracked
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, request: F) {
        self.0.spawn(request);
    }
}

/// Serves HTTP/1.1 and HTTP/2 on `listener`, within TLS if there is any, until `stop` says so, then waits
/// for what is under way. Answers leave through `outbox`.
pub async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    handler: Arc<Handler>,
    outbox: Outbox,
    tasks: TaskTracker,
    stop: Stop,
) {
    let graceful = GracefulShutdown::new();
    let mut builder = auto::Builder::new(Tracked(tasks.clone()));
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_DEADLINE);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(Duration::from_secs(30)))
        .max_concurrent_streams(1_000);
    // they are aborted in the end: a token would be asked, under its lock, at every turn of each
    let mut connections = JoinSet::new();
    while let Some(accepted) = stop.shutdown.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, _)) => {
                let server = Server {
                    builder: builder.clone(),
                    handler: handler.clone(),
                    outbox: outbox.clone(),
                    watcher: graceful.watcher(),
                };
                accept(stream, tls.clone(), server, &tasks, &mut connections);
                while connections.try_join_next().is_some() {}
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_BACKOFF).await;
            }
        }
    }
    drop(listener);
    handler.drain();
    if tokio::time::timeout(stop.drain, graceful.shutdown()).await.is_err() {
        tracing::warn!(
            waited_ms = stop.drain.as_millis(),
            "cutting off requests that are still under way"
        );
    }
    stop.cut_off.cancel();
    connections.shutdown().await;
}

/// What serves one connection.
struct Server {
    builder: auto::Builder<Tracked>,
    handler: Arc<Handler>,
    outbox: Outbox,
    watcher: Watcher,
}

impl Server {
    /// Serves `stream`. What it takes to begin is let go before the first await.
    fn serve<S>(self, stream: S) -> impl Future<Output = ()> + Send + 'static
    where
        S: Read + Write + Unpin + Send + 'static,
    {
        let handler = self.handler;
        let stream = self.outbox.connection(stream);
        // boxed, so that a stream does not hold the memory of all that went before its first event
        let service = service_fn(move |request| Box::pin(handler.clone().serve(request)));
        let connection = self.builder.serve_connection(stream, service).into_owned();
        // boxed, because each future around it would have room for it twice
        let connection = Box::pin(self.watcher.watch(connection));
        async move {
            if let Err(error) = connection.await {
                tracing::debug!(error = describe(&*error), "a connection ended badly");
            }
        }
    }
}

fn accept(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    server: Server,
    tasks: &TaskTracker,
    connections: &mut JoinSet<()>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection was gone at once");
        return;
    }
    match tls {
        None => {
            let stream = Coalesced::new(TokioIo::new(stream));
            connections.spawn(tasks.track_future(server.serve(stream)));
        }
        Some(tls) => {
            let shaking = tokio::time::timeout(HEAD_DEADLINE, tls.accept(stream));
            let connection = async move {
                match shaking.await {
                    Ok(Ok(stream)) => server.serve(TokioIo::new(stream)).await,
                    Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                    Err(_) => tracing::debug!("a TLS handshake took too long"),
                }
            };
            connections.spawn(tasks.track_future(connection));
        }
    }
}

fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    match error.downcast_ref::<io::Error>() {
        Some(io) => io.to_string(),
        None => error.to_string(),
    }
}
