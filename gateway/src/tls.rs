//! TLS for the listeners: a certificate and its key, read once at start.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use zeroize::Zeroizing;

/// Where a certificate and its key are, as PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by those that lead to its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// A certificate and its key, as PEM texts.
pub struct Pem {
    /// The certificate and those that lead to its authority.
    pub certificate: Vec<u8>,
    /// Its private key.
    pub key: Zeroizing<Vec<u8>>,
}

impl TlsFiles {
    /// Reads the files, for a listener that offers `protocols`.
    ///
    /// # Errors
    /// A file cannot be read, or the two do not belong together.
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

    /// Reads the files as they are.
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
