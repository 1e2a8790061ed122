//! Opens connections to upstreams: TCP and TLS, or a socket pair to the built-in simulator.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hyper::Uri;
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::UnixStream;
use tokio_rustls::TlsConnector;
use tower_service::Service;
use trust::{Identity, Trust};

use super::error::BoxError;
use super::proxy::Proxy;

/// The time after which an idle connection is probed, and then the time between two probes. Middleboxes drop
/// idle connections without a notice; the probes also keep the connections known to them.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The number of unanswered probes after which a connection is closed.
const KEEP_ALIVE_RETRIES: u32 = 2;
/// How long sent bytes may stay unacknowledged, after which the connection is closed.
const TCP_USER_TIMEOUT: Duration = Duration::from_mins(1);

/// A byte stream to an upstream.
pub(super) trait Stream: Read + Write + Send + Unpin {}

impl<S: Read + Write + Send + Unpin> Stream for S {}

/// An open connection.
pub(super) struct Connected {
    pub(super) stream: Box<dyn Stream>,
    pub(super) protocol: Protocol,
}

/// The version of HTTP on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// HTTP/1.1: one request at a time.
    Http1,
    /// HTTP/2, which the server has chosen in the TLS handshake.
    Http2,
}

/// Opens connections to one upstream.
pub(super) trait Connect: Send + Sync {
    /// Opens a connection, including its TLS handshake.
    ///
    /// # Errors
    /// The upstream cannot be reached, or its certificate is not trusted.
    fn connect(&self) -> BoxFuture<'static, Result<Connected, BoxError>>;
}

/// Opens TCP connections, with TLS for `https` addresses.
pub(super) struct TcpConnector {
    tcp: HttpConnector,
    proxy: Option<Proxy>,
    /// The address of the upstream, with its port.
    address: Uri,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

/// Opens in-process connections to the simulator, which needs no port.
#[derive(Clone)]
pub struct SimulatorDialer(Arc<dyn Fn() -> io::Result<UnixStream> + Send + Sync>);

// === impl Protocol ===

impl Protocol {
    /// Returns the name in a TLS handshake.
    const fn alpn(self) -> &'static [u8] {
        match self {
            Self::Http1 => b"http/1.1",
            Self::Http2 => b"h2",
        }
    }
}

// === impl TcpConnector ===

impl TcpConnector {
    /// Creates a connector for a server without TLS.
    ///
    /// # Errors
    /// `address` has no host.
    pub(super) fn plain(address: &Uri, proxy: Option<Proxy>) -> Result<Self, String> {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        tcp.set_keepalive(Some(KEEP_ALIVE));
        tcp.set_keepalive_interval(Some(KEEP_ALIVE));
        tcp.set_keepalive_retries(Some(KEEP_ALIVE_RETRIES));
        #[cfg(target_os = "linux")]
        tcp.set_tcp_user_timeout(Some(TCP_USER_TIMEOUT));
        let address = with_port(address)?;
        Ok(Self { tcp, proxy, address, tls: None })
    }

    /// Creates a connector for a server with TLS, to which `protocols` are offered, and `identity` if it asks for a
    /// certificate.
    ///
    /// # Errors
    /// The host of `address` is neither a DNS name nor an IP address.
    pub(super) fn tls(
        address: &Uri,
        proxy: Option<Proxy>,
        trust: &Trust,
        identity: Option<&Identity>,
        protocols: &[Protocol],
    ) -> Result<Self, String> {
        let host = address.host().unwrap_or_default();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| format!("the host of its URL: {error}"))?;
        let mut config = trust.client_config();
        if let Some(identity) = identity {
            identity.apply(&mut config);
        }
        config.alpn_protocols = protocols.iter().map(|it| it.alpn().to_vec()).collect();
        let tls = Some((TlsConnector::from(Arc::new(config)), name));
        Ok(Self { tls, ..Self::plain(address, proxy)? })
    }
}

impl Connect for TcpConnector {
    fn connect(&self) -> BoxFuture<'static, Result<Connected, BoxError>> {
        let (mut tcp, address, tls) = (self.tcp.clone(), self.address.clone(), self.tls.clone());
        let proxy = self.proxy.clone();
        Box::pin(async move {
            let tcp = match proxy {
                // The connector is always ready.
                None => tcp.call(address).await?,
                Some(proxy) => proxy.connect(tcp, address).await?,
            };
            let Some((tls, name)) = tls else {
                return Ok(Connected { stream: Box::new(tcp), protocol: Protocol::Http1 });
            };
            let tls = tls.connect(name, tcp.into_inner()).await?;
            let protocol = match tls.get_ref().1.alpn_protocol() {
                Some(b"h2") => Protocol::Http2,
                _ => Protocol::Http1,
            };
            Ok(Connected { stream: Box::new(TokioIo::new(tls)), protocol })
        })
    }
}

/// Returns `address` with the port that its scheme implies, which the handshakes with proxies need.
pub(super) fn with_port(address: &Uri) -> Result<Uri, String> {
    let authority = match (address.authority(), address.scheme_str()) {
        (Some(authority), _) if authority.port().is_some() => authority.to_string(),
        (Some(authority), Some("https")) => format!("{authority}:443"),
        (Some(authority), Some("socks5" | "socks5h")) => format!("{authority}:1080"),
        (Some(authority), _) => format!("{authority}:80"),
        (None, _) => return Err("its URL has no host".to_owned()),
    };
    let mut parts = address.clone().into_parts();
    parts.authority =
        Some(authority.parse().map_err(|error| format!("the host of its URL: {error}"))?);
    Uri::from_parts(parts).map_err(|error| format!("its URL: {error}"))
}

// === impl SimulatorDialer ===

impl SimulatorDialer {
    /// Creates a dialer from a function that returns one end of a socket pair whose other end is served.
    pub fn new(dial: impl Fn() -> io::Result<UnixStream> + Send + Sync + 'static) -> Self {
        Self(Arc::new(dial))
    }
}

impl Connect for SimulatorDialer {
    fn connect(&self) -> BoxFuture<'static, Result<Connected, BoxError>> {
        let dialled = (self.0)();
        Box::pin(async move {
            let stream = Box::new(TokioIo::new(dialled?));
            Ok(Connected { stream, protocol: Protocol::Http1 })
        })
    }
}
