//! The TLS certificate and key of the listeners, which are read again when their files change.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use arc_swap::ArcSwap;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use sha2::{Digest, Sha256};
use tokio::time::MissedTickBehavior;
use tokio_rustls::TlsAcceptor;
use zeroize::Zeroizing;

/// How often the files are compared with what is in use.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The PEM files of a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain, end-entity certificate first.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// The TLS of both listeners. Connections that are open keep the certificate with which they began.
pub struct ServerTls {
    files: TlsFiles,
    /// The authorities whose certificates clients of the admin plane must present.
    client_ca: Option<PathBuf>,
    current: ArcSwap<Acceptors>,
}

/// What was made of the contents of the files.
struct Acceptors {
    api: TlsAcceptor,
    admin: TlsAcceptor,
    /// Identifies the contents.
    digest: [u8; 32],
}

/// The contents of the files.
struct Contents {
    certificate: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
    client_ca: Option<Vec<u8>>,
}

// === impl ServerTls ===

impl ServerTls {
    /// Reads `files`, and `client_ca` if clients of the admin plane must present a certificate.
    ///
    /// # Errors
    /// A file cannot be read or used, or the key does not match the certificate.
    pub fn read(files: TlsFiles, client_ca: Option<PathBuf>) -> Result<Self> {
        let current = Contents::read(&files, client_ca.as_deref())?
            .acceptors(&files, client_ca.as_deref())?;
        Ok(Self { files, client_ca, current: ArcSwap::from_pointee(current) })
    }

    /// Returns the files of the certificate and its key.
    pub fn files(&self) -> &TlsFiles {
        &self.files
    }

    /// Returns the acceptor for a new connection of the API.
    pub fn api(&self) -> TlsAcceptor {
        self.current.load().api.clone()
    }

    /// Returns the acceptor for a new connection of the admin plane.
    pub fn admin(&self) -> TlsAcceptor {
        self.current.load().admin.clone()
    }

    /// Reads the files again, and uses them for new connections if they have changed. Returns whether they have.
    ///
    /// # Errors
    /// As for [`read`](Self::read). What was in use remains in use.
    pub fn reload(&self) -> Result<bool> {
        let client_ca = self.client_ca.as_deref();
        let contents = Contents::read(&self.files, client_ca)?;
        if contents.digest() == self.current.load().digest {
            return Ok(false);
        }
        self.current.store(Arc::new(contents.acceptors(&self.files, client_ca)?));
        tracing::info!(certificate = %self.files.certificate.display(), "using a new certificate");
        Ok(true)
    }

    /// Follows the files until it is dropped.
    pub async fn follow(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(CHECK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_failure = None;
        loop {
            ticks.tick().await;
            let tls = self.clone();
            let Ok(outcome) = tokio::task::spawn_blocking(move || tls.reload()).await else {
                continue;
            };
            // Tools write the certificate and the key one after the other: they match a moment later.
            let failure = outcome.err().map(|error| format!("{error:#}"));
            if failure != last_failure
                && let Some(error) = &failure
            {
                tracing::warn!(%error, "the certificate files have changed and cannot be used; the former ones stay in use");
            }
            last_failure = failure;
        }
    }
}

// === impl Contents ===

impl Contents {
    fn read(files: &TlsFiles, client_ca: Option<&Path>) -> Result<Self> {
        let read = |path: &Path| {
            std::fs::read(path).with_context(|| format!("reading `{}`", path.display()))
        };
        Ok(Self {
            certificate: read(&files.certificate)?,
            key: read(&files.key)?.into(),
            client_ca: client_ca.map(read).transpose()?,
        })
    }

    fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let client_ca = self.client_ca.as_deref().unwrap_or_default();
        for part in [self.certificate.as_slice(), &self.key, client_ca] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }

    /// Parses the contents. The paths are for errors.
    fn acceptors(&self, files: &TlsFiles, client_ca: Option<&Path>) -> Result<Acceptors> {
        let chain = CertificateDer::pem_slice_iter(&self.certificate)
            .collect::<Result<Vec<_>, _>>()
            .with_context(|| format!("reading `{}`", files.certificate.display()))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .with_context(|| format!("reading `{}`", files.key.display()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let acceptor = |protocols: &[&str], authorities: Option<RootCertStore>| {
            let builder = ServerConfig::builder_with_provider(provider.clone())
                .with_safe_default_protocol_versions()?;
            let builder = match authorities {
                None => builder.with_no_client_auth(),
                Some(authorities) => builder.with_client_cert_verifier(
                    WebPkiClientVerifier::builder_with_provider(
                        authorities.into(),
                        provider.clone(),
                    )
                    .build()?,
                ),
            };
            let mut config =
                builder.with_single_cert(chain.clone(), key.clone_key()).with_context(|| {
                    format!("using the certificate `{}`", files.certificate.display())
                })?;
            config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
            anyhow::Ok(TlsAcceptor::from(Arc::new(config)))
        };
        let authorities = match (&self.client_ca, client_ca) {
            (Some(pem), Some(path)) => Some(client_authorities(pem, path)?),
            _ => None,
        };
        Ok(Acceptors {
            api: acceptor(&["h2", "http/1.1"], None)?,
            admin: acceptor(&["h2"], authorities)?,
            digest: self.digest(),
        })
    }
}

/// Returns the authorities that issue client certificates, from the PEM contents of `path`.
fn client_authorities(pem: &[u8], path: &Path) -> Result<RootCertStore> {
    let reading = || format!("reading `admin_client_ca` from `{}`", path.display());
    let found = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let found = found.with_context(reading)?;
    ensure!(
        !found.is_empty(),
        "`{}` contains no certificate; set `admin_client_ca` to a PEM file of the authority",
        path.display()
    );
    let mut authorities = RootCertStore::empty();
    for certificate in found {
        authorities.add(certificate).with_context(reading)?;
    }
    Ok(authorities)
}
