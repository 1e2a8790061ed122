//! The certificate with which a client identifies itself.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};

/// A certificate chain with its private key.
#[derive(Clone, Debug)]
pub struct Identity(Arc<SingleCertAndKey>);

/// A certificate chain or a private key that cannot be used. The texts contain nothing of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The chain has no certificate, or one that is not PEM.
    #[error("the chain must be certificates in PEM (`-----BEGIN CERTIFICATE-----`)")]
    Chain,
    /// The key is not PEM.
    #[error("the key must be an unencrypted private key in PEM (`-----BEGIN PRIVATE KEY-----`)")]
    Key,
    /// They do not belong together, or are of an unsupported kind.
    #[error("the key is not that of the first certificate, or is of an unsupported kind")]
    Mismatch,
}

// === impl Identity ===

impl Identity {
    /// Combines a chain in PEM, end-entity certificate first, with the key of that certificate.
    ///
    /// # Errors
    /// One of them cannot be read, or they do not belong together.
    pub fn new(chain: &[u8], key: &[u8]) -> Result<Self, IdentityError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(|_| IdentityError::Chain)?;
        if chain.is_empty() {
            return Err(IdentityError::Chain);
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| IdentityError::Key)?;
        let provider = rustls::crypto::ring::default_provider();
        let certified = CertifiedKey::from_der(chain, key, &provider);
        let certified = certified.map_err(|_| IdentityError::Mismatch)?;
        Ok(Self(Arc::new(certified.into())))
    }

    /// Shows the certificate to servers that ask for one.
    pub fn apply(&self, config: &mut ClientConfig) {
        config.client_auth_cert_resolver = self.0.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_must_be_that_of_the_certificate() {
        let make = || rcgen::generate_simple_self_signed(["a".to_owned()]).unwrap();
        let (one, other) = (make(), make());
        let (chain, key) = (one.cert.pem(), one.signing_key.serialize_pem());
        let new = |chain: &str, key: &str| Identity::new(chain.as_bytes(), key.as_bytes());
        assert!(new(&chain, &key).is_ok());
        assert_eq!(
            new(&chain, &other.signing_key.serialize_pem()).err(),
            Some(IdentityError::Mismatch)
        );
        assert_eq!(new("", &key).err(), Some(IdentityError::Chain));
        assert_eq!(new(&chain, "").err(), Some(IdentityError::Key));
    }
}
