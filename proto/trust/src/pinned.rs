//! A certificate verifier that also accepts a trusted CA certificate as the end-entity certificate of a server.
//!
//! `openssl req -x509` creates a self-signed certificate that is a CA. Path building refuses it as an end-entity
//! certificate (`CaUsedAsEndEntity`), even if the user trusts exactly this certificate. A certificate that is
//! byte-identical to a trusted one proves the server's identity; the validity period, the name and the handshake
//! signature are still checked.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// Verifies like [`WebPkiServerVerifier`], and also accepts pinned CA certificates.
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
            // webpki checks the validity period before it returns this error.
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

/// Returns whether the certificate was refused because it is a CA certificate.
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

    /// A Unix time in seconds at which the certificates of these tests are valid.
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

    /// A CA certificate for `localhost`, like those that `openssl req -x509` creates.
    fn authority() -> CertifiedIssuer<'static, KeyPair> {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_after = rcgen::date_time_ymd(2031, 5, 6);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    #[test]
    fn accepts_a_trusted_ca_certificate_as_end_entity() {
        let (named, other) = (authority(), authority());
        assert_eq!(verify(named.pem().as_bytes(), named.der(), "localhost", NOW), Ok(()));
        let both = format!("{}{}", other.pem(), named.pem());
        assert_eq!(verify(both.as_bytes(), named.der(), "localhost", NOW), Ok(()));
        let error = verify(other.pem().as_bytes(), named.der(), "localhost", NOW).unwrap_err();
        assert!(is_ca_used_as_end_entity(&error), "{error}");
    }

    #[test]
    fn checks_name_and_validity_of_a_trusted_ca_certificate() {
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
    fn accepts_certificates_signed_by_a_trusted_ca() {
        let authority = authority();
        let mut params = CertificateParams::new(["gate.example".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(2031, 5, 6);
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &authority).unwrap();
        assert_eq!(verify(authority.pem().as_bytes(), signed.der(), "gate.example", NOW), Ok(()));
    }
}
