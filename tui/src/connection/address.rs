//! Where a gateway is, and whose word is taken for that it is the right one.

use anyhow::Result;
use ctl::profile::Endpoint;
use proto::client;
use secrecy::SecretString;

use std::sync::Arc;

/// A gateway's admin address. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Address {
    server: String,
    /// Certificates to trust in PEM, instead of the host's and the public ones.
    authorities: Option<Arc<[u8]>>,
}

impl Address {
    /// Returns the address of `server`, which the host's authorities vouch for if that is over TLS.
    pub fn new(server: impl Into<String>) -> Self {
        Self { server: server.into(), authorities: None }
    }

    /// Returns the address of `endpoint`, with the authorities that it names.
    ///
    /// # Errors
    /// Their file cannot be read, or holds no certificate.
    pub fn from_endpoint(endpoint: &Endpoint) -> Result<Self> {
        let authorities = endpoint.authorities()?;
        Ok(Self { server: endpoint.server.clone(), authorities: authorities.map(Arc::from) })
    }

    /// Returns the URL.
    pub fn server(&self) -> &str {
        &self.server
    }

    pub(super) async fn connect(&self, token: Option<&SecretString>) -> Result<client::Connection> {
        client::connect_trusting(&self.server, token, self.authorities.as_deref()).await
    }
}
