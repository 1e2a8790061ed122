//! The way from a client to a gateway's admin plane: TCP, TLS or a Unix socket, with the token in
//! every call.

mod connection;

use anyhow::{Context, Result, bail};
use hyper_util::rt::TokioIo;
use secrecy::{ExposeSecret, SecretString};
use tokio::net::UnixStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Uri};

use std::time::Duration;

pub use connection::{CallKeys, Connection};

/// Connects to `server`: `http://HOST:PORT`, `https://HOST:PORT` or `unix:/path/of/socket`.
///
/// # Errors
/// The address is not one of these forms, the token has characters that a header cannot carry, or
/// nobody answers there within five seconds.
pub async fn connect(server: &str, token: Option<&SecretString>) -> Result<Connection> {
    connect_trusting(server, token, None).await
}

/// Connects as [`connect`] does; where that is over TLS, it trusts the certificate authorities in
/// `authorities` (PEM) instead of those of the host.
///
/// # Errors
/// As [`connect`]; also if the gateway's certificate is of none of the authorities.
pub async fn connect_trusting(
    server: &str,
    token: Option<&SecretString>,
    authorities: Option<&[u8]>,
) -> Result<Connection> {
    let channel = endpoint(server, authorities)?;
    let connected = if let Some(path) = server.strip_prefix("unix:") {
        let path = path.to_owned();
        let dial = tower::service_fn(move |_: Uri| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        channel.connect_with_connector(dial).await
    } else {
        channel.connect().await
    };
    let channel = connected.with_context(|| format!("connecting to `{server}`"))?;
    Ok(Connection::new(channel, Bearer::new(token)?))
}

fn endpoint(server: &str, authorities: Option<&[u8]>) -> Result<Endpoint> {
    let trust = match authorities {
        Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
        None => ClientTlsConfig::new().with_enabled_roots(),
    };
    let base = match server.split_once(':') {
        Some(("unix", _)) => Endpoint::from_static("http://unix.invalid"),
        Some(("http", _)) => Endpoint::from_shared(server.to_owned())?,
        Some(("https", _)) => Endpoint::from_shared(server.to_owned())?.tls_config(trust)?,
        _ => bail!("`{server}` is not http://HOST:PORT, https://HOST:PORT or unix:/PATH"),
    };
    Ok(base
        .connect_timeout(Duration::from_secs(5))
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(20)))
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
