//! Connectors: TCP and TLS to real upstreams, a socket pair to the built-in simulator.

use std::future::{Ready, ready};
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tower_service::Service;
use trust::Trust;

/// Opens in-process connections to the simulator, which needs no port.
#[derive(Clone)]
pub struct SimulatorDialer(Arc<dyn Fn() -> io::Result<UnixStream> + Send + Sync>);

impl SimulatorDialer {
    /// Creates a dialer from a function that returns one end of a socket pair whose other end is served.
    pub fn new(dial: impl Fn() -> io::Result<UnixStream> + Send + Sync + 'static) -> Self {
        Self(Arc::new(dial))
    }
}

impl Service<Uri> for SimulatorDialer {
    type Response = TokioIo<UnixStream>;
    type Error = io::Error;
    type Future = Ready<Result<Self::Response, io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        ready((self.0)().map(TokioIo::new))
    }
}

/// Returns the TCP connector.
pub(super) fn tcp(connect_timeout: Duration) -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.set_nodelay(true);
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(connect_timeout));
    tcp
}

/// Returns a TLS connector over `tcp` that offers HTTP/2 and trusts `trust`.
pub(super) fn tls(tcp: HttpConnector, trust: &Trust) -> HttpsConnector<HttpConnector> {
    HttpsConnectorBuilder::new()
        .with_tls_config(trust.client_config())
        .https_only()
        .enable_all_versions()
        .wrap_connector(tcp)
}
