//! The gateway's admin address and the certificate authorities to verify it.

use anyhow::Result;
use ctl::profile::Endpoint;
use proto::client;
use secrecy::SecretString;

use std::sync::Arc;

/// A gateway's admin address. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Address {
    server: String,
    /// The trusted CA certificates in PEM, instead of the system's and the public ones.
    authorities: Option<Arc<[u8]>>,
}

impl Address {
    /// Returns the address of `server`, verified with the system's certificate authorities if it
    /// uses TLS.
    pub fn new(server: impl Into<String>) -> Self {
        Self { server: server.into(), authorities: None }
    }

    /// Returns the address of `endpoint` with its configured certificate authorities.
    ///
    /// # Errors
    /// Returns an error if the CA file cannot be read or contains no certificate.
    pub fn from_endpoint(endpoint: &Endpoint) -> Result<Self> {
        let authorities = endpoint.authorities()?;
        Ok(Self { server: endpoint.server.clone(), authorities: authorities.map(Arc::from) })
    }

    /// Returns the server URL.
    pub fn server(&self) -> &str {
        &self.server
    }

    pub(super) async fn connect(&self, token: Option<&SecretString>) -> Result<client::Connection> {
        client::connect_trusting(&self.server, token, self.authorities.as_deref()).await
    }
}
