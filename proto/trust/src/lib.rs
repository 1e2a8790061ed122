//! TLS trust of the clients in this workspace: the gateway as a client of upstreams, and `ctl` and `tui` as
//! clients of the gateway.
//!
//! [`Trust`] builds a rustls configuration, [`TlsProblem`] explains a failed connection, and [`speaks_tls`]
//! determines whether a server that was addressed in plaintext expects TLS.

mod identity;
mod pinned;
mod probe;
mod problem;

use std::sync::{Arc, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use pinned::PinnedVerifier;

pub use identity::{Identity, IdentityError};
pub use probe::speaks_tls;
pub use problem::TlsProblem;

/// The certificates that a client trusts.
#[derive(Clone, Debug)]
pub struct Trust {
    roots: Arc<RootCertStore>,
    /// Trusted certificates, which servers may also present as their end-entity certificate.
    pinned: Vec<CertificateDer<'static>>,
}

/// An invalid list of PEM certificates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    /// There is no PEM section with a certificate.
    #[error("it holds no certificate in PEM (`-----BEGIN CERTIFICATE-----`)")]
    Empty,
    /// A PEM section is damaged.
    #[error("it is not PEM: {0}")]
    NotPem(String),
    /// A PEM section does not hold an X.509 certificate.
    #[error("certificate {number} of it cannot be read: {reason}")]
    Unreadable {
        /// The position of the certificate in the text, starting at 1.
        number: usize,
        /// The parser's error.
        reason: String,
    },
}

// === impl Trust ===

impl Trust {
    /// Trusts the authorities in the host's certificate store and those of Mozilla's root program, so that a host
    /// without a store can connect to public servers. The store is read once per process.
    pub fn of_host() -> Self {
        static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
        let roots = ROOTS.get_or_init(|| {
            let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
            // A store may be missing, or contain certificates that rustls does not support.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            Arc::new(roots)
        });
        Self { roots: roots.clone(), pinned: Vec::new() }
    }

    /// Trusts only the certificates in `pem`, as authorities and as end-entity certificates.
    ///
    /// # Errors
    /// The text contains no certificate, or one that cannot be parsed.
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

    /// Returns [`only`](Self::only)`(authorities)` if there are any, otherwise [`of_host`](Self::of_host).
    ///
    /// # Errors
    /// The errors of [`only`](Self::only).
    pub fn of(authorities: Option<&[u8]>) -> Result<Self, TrustError> {
        authorities.map_or_else(|| Ok(Self::of_host()), Self::only)
    }

    /// Returns a client configuration without a client certificate and without ALPN protocols.
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
    fn refuses_text_without_a_valid_certificate() {
        assert_eq!(Trust::only(b"").unwrap_err(), TrustError::Empty);
        assert_eq!(Trust::only(b"no certificate").unwrap_err(), TrustError::Empty);
        let cut = b"-----BEGIN CERTIFICATE-----\nAAAA\n";
        assert!(matches!(Trust::only(cut).unwrap_err(), TrustError::NotPem(_)));
        let empty = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let error = Trust::only(empty).unwrap_err();
        assert!(matches!(error, TrustError::Unreadable { number: 1, .. }), "{error}");
    }
}
