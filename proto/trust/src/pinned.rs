//! A verifier that accepts a certificate which the user named as the server's own.
//!
//! `openssl req -x509` makes a certificate that is its own authority. As the certificate of a server, path
//! building refuses it (`CaUsedAsEndEntity`), although the user gave exactly this certificate. Being
//! byte-identical with a trusted certificate is the strongest proof of identity that there is; validity, name
//! and the signature of the handshake are checked all the same.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// Verifies as [`WebPkiServerVerifier`] does, and accepts a pinned certificate that is an authority.
#[derive(Debug)]
pub(crate) struct PinnedVerifier {
    authorities: Arc<WebPkiServerVerifier>,
    pinned: Vec<CertificateDer<'static>>,
}

// === impl PinnedVerifier ===

impl PinnedVerifier {
    pub(crate) fn new(
        authorities: Arc<WebPkiServerVerifier>,
        pinned: Vec<CertificateDer<'static>>,
    ) -> Self {
        Self { authorities, pinned }
    }
}

impl ServerCertVerifier for PinnedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.authorities.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            // The validity period is checked before this error is given.
            Err(error) if is_ca_used_as_end_entity(&error) && self.pinned.contains(end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

/// Whether the certificate was refused for being an authority's.
pub(crate) fn is_ca_used_as_end_entity(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(other)) = error else { return false };
    other.0.downcast_ref() == Some(&webpki::Error::CaUsedAsEndEntity)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

    use super::*;
    use crate::Trust;

    /// A time at which the certificates of these tests are valid.
    const NOW: u64 = 1_800_000_000;

    fn verify(
        trusted: &[u8],
        shown: &CertificateDer<'_>,
        name: &str,
        now: u64,
    ) -> Result<(), Error> {
        let trust = Trust::only(trusted).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let authorities =
            WebPkiServerVerifier::builder_with_provider(trust.roots, provider).build().unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
        let name = ServerName::try_from(name).unwrap();
        let verifier = PinnedVerifier::new(authorities, trust.pinned);
        verifier.verify_server_cert(shown, &[], &name, &[], now).map(|_| ())
    }

    /// A certificate for `localhost` as `openssl req -x509` makes it: it may sign others.
    fn authority() -> CertifiedIssuer<'static, KeyPair> {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_after = rcgen::date_time_ymd(2031, 5, 6);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    #[test]
    fn an_authority_is_accepted_as_the_certificate_of_a_server_that_it_was_named_for() {
        let (named, other) = (authority(), authority());
        assert_eq!(verify(named.pem().as_bytes(), named.der(), "localhost", NOW), Ok(()));
        let both = format!("{}{}", other.pem(), named.pem());
        assert_eq!(verify(both.as_bytes(), named.der(), "localhost", NOW), Ok(()));
        let error = verify(other.pem().as_bytes(), named.der(), "localhost", NOW).unwrap_err();
        assert!(is_ca_used_as_end_entity(&error), "{error}");
    }

    #[test]
    fn its_name_and_its_validity_are_checked_all_the_same() {
        let named = authority();
        let verify =
            |name, now| verify(named.pem().as_bytes(), named.der(), name, now).unwrap_err();
        let error = verify("other.example", NOW);
        let expected = CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("other.example").unwrap(),
            presented: vec!["DnsName(\"localhost\")".to_owned()],
        };
        assert_eq!(error, Error::InvalidCertificate(expected));
        let error = verify("localhost", NOW + 400_000_000);
        let expired = |error: &Error| {
            matches!(error, Error::InvalidCertificate(CertificateError::ExpiredContext { .. }))
        };
        assert!(expired(&error), "{error}");
    }

    #[test]
    fn certificates_that_it_signed_are_accepted_as_well() {
        let authority = authority();
        let mut params = CertificateParams::new(["gate.example".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(2031, 5, 6);
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &authority).unwrap();
        assert_eq!(verify(authority.pem().as_bytes(), signed.der(), "gate.example", NOW), Ok(()));
    }
}
