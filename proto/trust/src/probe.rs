//! Determines whether a server that was addressed in plaintext expects TLS.

use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::{TlsProblem, Trust};

const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// Returns whether the server at the host and port of `url` answers a TLS handshake. Sends only the handshake. A
/// server whose certificate is refused counts as speaking TLS.
///
/// Called after a plaintext request has failed with a response that is not HTTP.
pub async fn speaks_tls(url: &str) -> bool {
    timeout(PROBE_TIMEOUT, handshake(url)).await.ok().flatten().unwrap_or(false)
}

async fn handshake(url: &str) -> Option<bool> {
    let url: Uri = url.parse().ok()?;
    let host = url.host()?.trim_matches(['[', ']']).to_owned();
    let tcp = TcpStream::connect((&*host, url.port_u16().unwrap_or(80))).await.ok()?;
    let name = ServerName::try_from(host).ok()?;
    let connector = TlsConnector::from(Arc::new(Trust::of_host().client_config()));
    Some(match connector.connect(name, tcp).await {
        Ok(_) => true,
        Err(error) => !matches!(
            TlsProblem::find(&error),
            None | Some(TlsProblem::NotTls | TlsProblem::Closed)
        ),
    })
}
