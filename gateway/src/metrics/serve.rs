//! Serves `/metrics` on its own port.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::answering::Answering;
use super::{Exporter, Format};
use crate::connections::{
    Accepted, Acceptor, Activity, ClientIo, ConnectionLimits, ConnectionSlots, IdlePolicy,
    RequestTimeouts, Timeouts,
};

/// The maximum number of connections, which bounds the scrapes at a time. A further one takes the place of one without a
/// request.
const MAX_CONNECTIONS: usize = 8;
/// The time for which a connection may be idle; scrapes come every few seconds to minutes.
const IDLE: Duration = Duration::from_mins(2);
/// The time after which a client that does not read its answer is disconnected.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves the metrics of `exporter` until `stop`.
pub async fn serve(listener: TcpListener, exporter: Arc<Exporter>, stop: CancellationToken) {
    let slots = ConnectionSlots::new(ConnectionLimits::default());
    let mut acceptor = Acceptor::new(listener, "metrics", slots);
    let mut connections = Connections::default();
    while let Some(accepted) = stop.run_until_cancelled(acceptor.accept()).await {
        if stop.run_until_cancelled(connections.make_room()).await.is_none() {
            return;
        }
        connections.serve(accepted, exporter.clone());
    }
}

/// The connections. Dropping it ends them.
#[derive(Default)]
struct Connections {
    tasks: JoinSet<()>,
    open: Vec<Connection>,
    uses: Arc<Uses>,
}

struct Connection {
    task: AbortHandle,
    activity: Arc<Activity>,
    last_use: Arc<AtomicU64>,
}

/// The order of requests and new connections.
#[derive(Default)]
struct Uses {
    count: AtomicU64,
    /// Notified when the answer to a request is written, or abandoned.
    request_ended: Arc<Notify>,
}

// === impl Connections ===

impl Connections {
    /// Waits until there is room for one more connection. If there are as many as may be, the one that has been without
    /// a request for the longest time ends: idle connections do not prevent a scrape.
    async fn make_room(&mut self) {
        loop {
            while self.tasks.try_join_next().is_some() {}
            self.open.retain(|connection| !connection.task.is_finished());
            if self.open.len() < MAX_CONNECTIONS {
                return;
            }
            let idle = self.open.iter().enumerate().filter(|(_, it)| it.activity.is_idle());
            let idlest = idle.min_by_key(|(_, it)| it.last_use.load(Ordering::Relaxed));
            if let Some((idlest, _)) = idlest {
                self.open.swap_remove(idlest).task.abort();
                return;
            }
            // The answer of a scrape takes milliseconds, and one that its client does not read ends with `WRITE_TIMEOUT`.
            self.uses.request_ended.notified().await;
        }
    }

    fn serve(&mut self, accepted: Accepted<TcpStream>, exporter: Arc<Exporter>) {
        let timeouts = Timeouts {
            write: Some(WRITE_TIMEOUT),
            request: RequestTimeouts { idle: IDLE, ..RequestTimeouts::default() },
            idle: IdlePolicy::Close,
        };
        let stream = ClientIo::new(accepted, timeouts);
        let activity = stream.activity().clone();
        let (uses, last_use) = (self.uses.clone(), Arc::new(AtomicU64::new(self.uses.next())));
        let connection = connection(stream, exporter, uses, last_use.clone());
        self.open.push(Connection { task: self.tasks.spawn(connection), activity, last_use });
    }
}

impl Uses {
    fn next(&self) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed)
    }
}

async fn connection(
    stream: ClientIo<TcpStream>,
    exporter: Arc<Exporter>,
    uses: Arc<Uses>,
    last_use: Arc<AtomicU64>,
) {
    let answering = Answering::new(stream.activity().clone(), uses.request_ended.clone());
    let answering = Arc::new(answering);
    let io = TokioIo::new(answering.io(stream));
    let service = service_fn(move |request: Request<Incoming>| {
        last_use.store(uses.next(), Ordering::Relaxed);
        let (exporter, answering) = (exporter.clone(), answering.clone());
        let in_progress = answering.begin();
        async move {
            let answer = answer(&request, &exporter).await;
            Ok::<_, Infallible>(answer.map(|body| answering.body(in_progress, body)))
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(IDLE);
    let connection = builder.serve_connection(io, service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection to the metrics ended badly");
    }
}

async fn answer(request: &Request<Incoming>, exporter: &Arc<Exporter>) -> Response<Full<Bytes>> {
    let refused = |status, text: &'static str| {
        let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
        *response.status_mut() = status;
        response
    };
    if request.uri().path() != "/metrics" {
        return refused(StatusCode::NOT_FOUND, "this port has only /metrics\n");
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut response = refused(StatusCode::METHOD_NOT_ALLOWED, "use GET\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    let accept = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let format = Format::preferred(accept);
    let mut response = Response::new(Full::from(exporter.scrape(format).await));
    let content_type = HeaderValue::from_static(format.content_type());
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}
