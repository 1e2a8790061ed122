//! The TLS certificate and key of the listeners, which are read once at start.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use zeroize::Zeroizing;

/// The PEM files of a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain, end-entity certificate first.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// The PEM contents of a certificate and its key.
pub struct Pem {
    /// The certificate chain, end-entity certificate first.
    pub certificate: Vec<u8>,
    /// The private key.
    pub key: Zeroizing<Vec<u8>>,
}

impl TlsFiles {
    /// Reads the files and returns an acceptor that offers the ALPN `protocols`.
    ///
    /// # Errors
    /// A file cannot be read, or the key does not match the certificate.
    pub fn acceptor(&self, protocols: &[&str]) -> Result<TlsAcceptor> {
        let read = |path: &Path| format!("reading `{}`", path.display());
        let chain = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .with_context(|| read(&self.certificate))?;
        let key = PrivateKeyDer::from_pem_file(&self.key).with_context(|| read(&self.key))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .with_context(|| format!("using the certificate `{}`", self.certificate.display()))?;
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Reads the files without parsing them.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn pem(&self) -> Result<Pem> {
        let read = |path: &Path| {
            std::fs::read(path).with_context(|| format!("reading `{}`", path.display()))
        };
        Ok(Pem { certificate: read(&self.certificate)?, key: read(&self.key)?.into() })
    }
}
