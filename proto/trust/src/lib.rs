//! Which TLS servers the clients of this product trust: the gateway towards its upstreams, `ctl` and `tui`
//! towards the gateway.
//!
//! [`Trust`] makes a rustls configuration, [`TlsProblem`] explains a connection that failed, and [`speaks_tls`]
//! finds out whether a server that was addressed in clear expects TLS.

mod pinned;
mod probe;
mod problem;

use std::sync::{Arc, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use pinned::PinnedVerifier;

pub use probe::speaks_tls;
pub use problem::TlsProblem;

/// The certificates that a client trusts.
#[derive(Clone, Debug)]
pub struct Trust {
    roots: Arc<RootCertStore>,
    /// Certificates that a server may also show as its own.
    pinned: Vec<CertificateDer<'static>>,
}

/// Why a text is of no use as a list of certificates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    /// It has no PEM section that holds a certificate.
    #[error("it holds no certificate in PEM (`-----BEGIN CERTIFICATE-----`)")]
    Empty,
    /// A PEM section is damaged.
    #[error("it is not PEM: {0}")]
    NotPem(String),
    /// A PEM section does not hold an X.509 certificate.
    #[error("certificate {number} of it cannot be read: {reason}")]
    Unreadable {
        /// Its place in the text, from 1.
        number: usize,
        /// What is wrong with it.
        reason: String,
    },
}

// === impl Trust ===

impl Trust {
    /// Trusts the authorities of the host's certificate store, and the public ones that Mozilla trusts, so that
    /// a host without a store can reach public servers. The store is read once in the life of the process.
    pub fn of_host() -> Self {
        static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
        let roots = ROOTS.get_or_init(|| {
            let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
            // A store may hold certificates that rustls cannot use, and need not be there at all.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            Arc::new(roots)
        });
        Self { roots: roots.clone(), pinned: Vec::new() }
    }

    /// Trusts the certificates in `pem` and no others: as authorities, and as the certificate of a server.
    ///
    /// # Errors
    /// The text holds no certificate, or one that cannot be read.
    pub fn only(pem: &[u8]) -> Result<Self, TrustError> {
        let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem)
            .collect::<Result<_, _>>()
            .map_err(|error| TrustError::NotPem(error.to_string()))?;
        if certificates.is_empty() {
            return Err(TrustError::Empty);
        }
        let mut roots = RootCertStore::empty();
        for (number, certificate) in (1..).zip(&certificates) {
            roots
                .add(certificate.clone())
                .map_err(|error| TrustError::Unreadable { number, reason: error.to_string() })?;
        }
        Ok(Self { roots: Arc::new(roots), pinned: certificates })
    }

    /// Trusts [`only`](Self::only) `authorities` where some are given, else as [`of_host`](Self::of_host).
    ///
    /// # Errors
    /// As [`only`](Self::only).
    pub fn of(authorities: Option<&[u8]>) -> Result<Self, TrustError> {
        authorities.map_or_else(|| Ok(Self::of_host()), Self::only)
    }

    /// Returns the configuration of a client that presents no certificate, without protocols for ALPN.
    ///
    /// # Panics
    /// Never: the provider supports the default versions of TLS, and there is at least one root.
    pub fn client_config(&self) -> ClientConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("ring supports TLS 1.2 and 1.3");
        if self.pinned.is_empty() {
            return config.with_root_certificates(self.roots.clone()).with_no_client_auth();
        }
        let authorities = WebPkiServerVerifier::builder_with_provider(self.roots.clone(), provider)
            .build()
            .expect("there is a root, and no revocation list");
        let verifier = PinnedVerifier::new(authorities, self.pinned.clone());
        config
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_no_certificate_is_refused() {
        assert_eq!(Trust::only(b"").unwrap_err(), TrustError::Empty);
        assert_eq!(Trust::only(b"no certificate").unwrap_err(), TrustError::Empty);
        let cut = b"-----BEGIN CERTIFICATE-----\nAAAA\n";
        assert!(matches!(Trust::only(cut).unwrap_err(), TrustError::NotPem(_)));
        let empty = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let error = Trust::only(empty).unwrap_err();
        assert!(matches!(error, TrustError::Unreadable { number: 1, .. }), "{error}");
    }
}
