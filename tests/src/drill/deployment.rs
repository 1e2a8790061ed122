//! An upstream that can be made to fail and to work again.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use clap::ValueEnum;
use http_body_util::{BodyExt, Collected, Full};
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

use super::peer::http1::{read_request, whole_answer};
use super::peer::{is_stream, whole_body};
use crate::Certificate;

/// How long a slow deployment takes to answer.
const SLOW: Duration = Duration::from_millis(200);

/// How the gateway reaches a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// HTTP/1.1 without TLS
    Plain,
    /// HTTP/1.1 with TLS
    Tls,
    /// HTTP/2 with TLS
    Http2,
}

/// What happens to the first deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// Its connections are reset and its port is closed.
    Killed,
    /// It accepts connections and requests, and answers none.
    Hung,
    /// It answers each request after [`SLOW`].
    Slow,
}

/// A server that can be made to fail.
pub(super) struct Deployment {
    address: SocketAddr,
    server: Server,
    fault: watch::Sender<Fault>,
    tasks: JoinSet<()>,
}

/// What all connections of a deployment share.
#[derive(Clone)]
struct Server {
    transport: Transport,
    acceptor: Option<TlsAcceptor>,
    faults: watch::Receiver<Fault>,
    /// The number of chat requests that it has answered.
    served: Arc<AtomicUsize>,
}

// === impl Deployment ===

impl Deployment {
    /// Starts a server on a free port.
    ///
    /// # Panics
    /// If there is none.
    pub(super) async fn start(transport: Transport, certificate: &Certificate) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (fault, faults) = watch::channel(Fault::None);
        let acceptor = match transport {
            Transport::Plain => None,
            Transport::Tls => Some(certificate.acceptor("http/1.1")),
            Transport::Http2 => Some(certificate.acceptor("h2")),
        };
        let server = Server { transport, acceptor, faults, served: Arc::default() };
        let mut tasks = JoinSet::new();
        tasks.spawn(server.clone().accept(listener));
        Self { address, server, fault, tasks }
    }

    /// Returns the base URL for the catalogue.
    pub(super) fn url(&self) -> String {
        let scheme = if self.has_tls() { "https" } else { "http" };
        format!("{scheme}://localhost:{}/v1", self.address.port())
    }

    /// Returns whether the gateway reaches it with TLS.
    pub(super) fn has_tls(&self) -> bool {
        self.server.acceptor.is_some()
    }

    /// Returns the number of chat requests that it has answered.
    pub(super) fn served(&self) -> usize {
        self.server.served.load(Ordering::Relaxed)
    }

    /// Makes the server fail, or work again.
    ///
    /// # Panics
    /// If its port is taken.
    pub(super) async fn set(&mut self, fault: Fault) {
        let before = self.fault.send_replace(fault);
        if fault == Fault::Killed {
            self.tasks.shutdown().await;
        } else if before == Fault::Killed {
            let socket = TcpSocket::new_v4().unwrap();
            socket.set_reuseaddr(true).unwrap();
            socket.bind(self.address).unwrap();
            self.tasks.spawn(self.server.clone().accept(socket.listen(1_024).unwrap()));
        }
    }
}

// === impl Server ===

impl Server {
    async fn accept(self, listener: TcpListener) {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let server = self.clone();
            connections.spawn(async move {
                // An error ends the connection.
                _ = server.serve(stream).await;
            });
            while connections.try_join_next().is_some() {}
        }
    }

    async fn serve(self, stream: TcpStream) -> io::Result<()> {
        let Some(acceptor) = &self.acceptor else { return self.serve_http1(stream).await };
        let stream = acceptor.accept(stream).await?;
        if self.transport != Transport::Http2 {
            return self.serve_http1(stream).await;
        }
        let service = service_fn(move |request| {
            let server = self.clone();
            async move { Ok::<_, Infallible>(server.respond(request).await) }
        });
        let connection = http2::Builder::new(TokioExecutor::new());
        let connection = connection.serve_connection(TokioIo::new(stream), service);
        connection.await.map_err(io::Error::other)
    }

    async fn serve_http1(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
        loop {
            let request = read_request(&mut stream).await?;
            self.answers(request.starts_with(b"POST ")).await;
            stream.write_all(whole_answer(&request).as_bytes()).await?;
            stream.flush().await?;
        }
    }

    /// Answers a request of HTTP/2.
    async fn respond(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let is_chat = request.method() == Method::POST;
        let body = request.collect().await.map(Collected::to_bytes).unwrap_or_default();
        self.answers(is_chat).await;
        let kind = if is_stream(&body) { "text/event-stream" } else { "application/json" };
        let mut response = Response::new(Full::from(whole_body(&body)));
        response.headers_mut().insert(CONTENT_TYPE, kind.try_into().unwrap());
        response
    }

    /// Waits until a request is to be answered.
    async fn answers(&self, is_chat: bool) {
        let fault = *self.faults.borrow();
        match fault {
            Fault::None => {}
            Fault::Slow => sleep(SLOW).await,
            // It stays hung for this request, even when the server works again.
            Fault::Hung | Fault::Killed => std::future::pending().await,
        }
        if is_chat {
            self.served.fetch_add(1, Ordering::Relaxed);
        }
    }
}
