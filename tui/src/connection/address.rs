//! The gateway's admin address and the certificates of connections to it.

use anyhow::Result;
use ctl::profile::Endpoint;
use proto::client::{self, TlsOptions};
use secrecy::SecretString;

/// A gateway's admin address. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Address {
    server: String,
    tls: TlsOptions,
}

impl Address {
    /// Returns the address of `server`, verified with the system's certificate authorities if it
    /// uses TLS.
    pub fn new(server: impl Into<String>) -> Self {
        Self { server: server.into(), tls: TlsOptions::default() }
    }

    /// Returns the address of `endpoint` with its configured certificates.
    ///
    /// # Errors
    /// Returns an error if a file of certificates cannot be read or has the wrong contents.
    pub fn from_endpoint(endpoint: &Endpoint) -> Result<Self> {
        Ok(Self { server: endpoint.server.clone(), tls: endpoint.tls()? })
    }

    /// Returns the server URL.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Returns the certificates to trust, in PEM; `None` for the authorities of the host.
    pub(super) fn authorities(&self) -> Option<&[u8]> {
        self.tls.authorities.as_deref()
    }

    pub(super) async fn connect(&self, token: Option<&SecretString>) -> Result<client::Connection> {
        client::connect_for_display(&self.server, token, &self.tls).await
    }
}
