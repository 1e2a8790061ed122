//! Finds out whether a server that was addressed in clear expects TLS.

use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::{TlsProblem, Trust};

const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// Whether the server at the host and port of `url` answers a TLS handshake. Sends nothing but that, and
/// trusts nobody: a server whose certificate is refused speaks TLS.
///
/// For the moment after a request in clear has failed, when an answer that is not HTTP must be explained.
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
