//! Serves `/metrics` on its own port.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Exporter, Format};
use crate::connections::{
    Accepted, Acceptor, ClientIo, ConnectionLimits, ConnectionSlots, IdlePolicy, RequestTimeouts,
    Timeouts,
};

/// The maximum number of connections, which bounds the scrapes at a time.
const MAX_CONNECTIONS: usize = 8;
/// The time for which a connection may be idle; scrapes come every few seconds to minutes.
const IDLE: Duration = Duration::from_mins(2);
/// The time after which a client that does not read its answer is disconnected.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves the metrics of `exporter` until `stop`.
pub async fn serve(listener: TcpListener, exporter: Arc<Exporter>, stop: CancellationToken) {
    let limits = ConnectionLimits { total: Some(MAX_CONNECTIONS), per_address: None };
    let mut acceptor = Acceptor::new(listener, "metrics", ConnectionSlots::new(limits));
    // Dropping it ends the connections.
    let mut connections = JoinSet::new();
    while let Some(accepted) = stop.run_until_cancelled(acceptor.accept()).await {
        while connections.try_join_next().is_some() {}
        connections.spawn(connection(accepted, exporter.clone()));
    }
}

async fn connection(accepted: Accepted<tokio::net::TcpStream>, exporter: Arc<Exporter>) {
    let timeouts = Timeouts {
        write: Some(WRITE_TIMEOUT),
        request: RequestTimeouts { idle: IDLE, ..RequestTimeouts::default() },
        idle: IdlePolicy::Close,
    };
    let stream = ClientIo::new(accepted, timeouts);
    let activity = stream.activity().clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (exporter, guard) = (exporter.clone(), activity.begin());
        async move {
            let _guard = guard;
            Ok::<_, Infallible>(answer(&request, &exporter).await)
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(IDLE);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
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
