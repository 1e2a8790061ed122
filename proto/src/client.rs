//! Connects clients to a gateway's admin plane over TCP, TLS or a Unix socket, and sends the token with every
//! call.

mod api_url;
mod connection;

use anyhow::{Context, Result, bail};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use secrecy::{ExposeSecret, SecretString};
use tokio::net::UnixStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::ServiceExt;
use trust::{Identity, Trust};

use std::sync::Arc;
use std::time::Duration;

pub use api_url::{api_url, guessed_api_url};
pub use connection::{Connection, IdempotencyKeys, SpeaksTlsError};

/// The bytes of a stream that may be on their way to a display: 1.6 s of a link of 20 KB/s.
const DISPLAY_WINDOW_BYTES: u32 = 32 << 10;

/// Connects to `server`: `http://HOST:PORT`, `https://HOST:PORT` or `unix:/path/of/socket`.
///
/// # Errors
/// The address does not have one of these forms, the token is not a valid header value, or the server does not
/// accept the connection within five seconds.
pub async fn connect(server: &str, token: Option<&SecretString>) -> Result<Connection> {
    connect_with(server, token, &TlsOptions::default()).await
}

/// How a client verifies a gateway over TLS, and identifies itself to it.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// The trusted certificates in PEM, instead of the authorities of the host and the public ones.
    pub authorities: Option<Arc<[u8]>>,
    /// The client's certificate, for a gateway that demands one.
    pub identity: Option<Identity>,
}

/// Connects like [`connect`], over TLS with `tls`.
///
/// # Errors
/// The errors of [`connect`]; also if the authorities contain no certificate, or if the gateway's certificate is
/// not issued by one of them.
pub async fn connect_with(
    server: &str,
    token: Option<&SecretString>,
    tls: &TlsOptions,
) -> Result<Connection> {
    dial(server, token, tls, settings).await
}

/// Connects like [`connect_with`], for a program that shows what arrives: little of a stream is on its way at any
/// time, so that a slow link does not delay what follows.
///
/// # Errors
/// The errors of [`connect_with`].
pub async fn connect_for_display(
    server: &str,
    token: Option<&SecretString>,
    tls: &TlsOptions,
) -> Result<Connection> {
    let settings = |endpoint| settings(endpoint).initial_stream_window_size(DISPLAY_WINDOW_BYTES);
    dial(server, token, tls, settings).await
}

async fn dial(
    server: &str,
    token: Option<&SecretString>,
    tls: &TlsOptions,
    settings: impl Fn(Endpoint) -> Endpoint,
) -> Result<Connection> {
    let connected = match server.split_once(':') {
        Some(("unix", path)) => {
            let path = path.to_owned();
            let dial = tower::service_fn(move |_: Uri| {
                let path = path.clone();
                async move { UnixStream::connect(path).await.map(TokioIo::new) }
            });
            let channel = settings(Endpoint::from_static("http://unix.invalid"));
            channel.connect_with_connector(dial).await
        }
        Some(("http", _)) => settings(Endpoint::from_shared(server.to_owned())?).connect().await,
        Some(("https", _)) => connect_tls(server, tls, settings).await?,
        _ => bail!("`{server}` is not http://HOST:PORT, https://HOST:PORT or unix:/PATH"),
    };
    let channel = connected.with_context(|| format!("connecting to `{server}`"))?;
    Ok(Connection::new(channel, Bearer::new(token)?, server))
}

/// Connects over TLS with a rustls configuration, because tonic's TLS support accepts only a list of authorities.
async fn connect_tls(
    server: &str,
    tls: &TlsOptions,
    settings: impl Fn(Endpoint) -> Endpoint,
) -> Result<Result<Channel, tonic::transport::Error>> {
    let trust =
        Trust::of(tls.authorities.as_deref()).context("reading the certificates to trust")?;
    let mut config = trust.client_config();
    if let Some(identity) = &tls.identity {
        identity.apply(&mut config);
    }
    let address: Uri = server.parse()?;
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_only()
        .enable_http2()
        .wrap_connector(tcp);
    let dialled = address.clone();
    // The endpoint has the scheme `http`, because tonic requires its own TLS configuration for `https`.
    let dial = tower::service_fn(move |_: Uri| connector.clone().oneshot(dialled.clone()));
    let endpoint = Endpoint::from_shared(server.replacen("https:", "http:", 1))?.origin(address);
    Ok(settings(endpoint).connect_with_connector(dial).await)
}

fn settings(endpoint: Endpoint) -> Endpoint {
    endpoint
        .connect_timeout(Duration::from_secs(5))
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(20))
}

/// Adds `authorization: Bearer …` to every call.
#[derive(Clone, Debug)]
pub struct Bearer(Option<MetadataValue<Ascii>>);

impl Bearer {
    fn new(token: Option<&SecretString>) -> Result<Self> {
        let header = token
            .map(|token| {
                let mut value =
                    MetadataValue::try_from(format!("Bearer {}", token.expose_secret()))
                        .context("the token has characters that a header cannot carry")?;
                value.set_sensitive(true);
                Ok::<_, anyhow::Error>(value)
            })
            .transpose()?;
        Ok(Self(header))
    }
}

impl Interceptor for Bearer {
    fn call(
        &mut self,
        mut request: tonic::Request<()>,
    ) -> Result<tonic::Request<()>, tonic::Status> {
        if let Some(value) = &self.0 {
            request.metadata_mut().insert("authorization", value.clone());
        }
        Ok(request)
    }
}
