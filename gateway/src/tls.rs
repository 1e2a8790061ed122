//! The TLS certificate and key of the listeners, which are read once at start.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
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

/// Reads the certificates of the authorities that issue client certificates, as PEM.
///
/// # Errors
/// The file cannot be read or contains no certificate.
pub fn client_authorities(path: &Path) -> Result<Vec<u8>> {
    let reading = || format!("reading `admin_client_ca` from `{}`", path.display());
    let pem = std::fs::read(path).with_context(reading)?;
    let found = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
    let found = found.with_context(reading)?;
    ensure!(
        !found.is_empty(),
        "`{}` contains no certificate; set `admin_client_ca` to a PEM file of the authority",
        path.display()
    );
    Ok(pem)
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
