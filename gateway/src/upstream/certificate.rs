//! Examines the certificate of a server without sending a request.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use trust::TlsProblem;
use x509_parser::prelude::{FromDer, X509Certificate};

use domain::upstream::Upstream;

/// Why a certificate could not be examined, worded for operators.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The TLS handshake failed.
    #[error("{0}")]
    Tls(TlsProblem),
    /// There is no connection, or the certificate is not readable.
    #[error("{0}")]
    Other(String),
}

/// Returns the expiry time of the certificate that `upstream` presents for `host`.
///
/// # Errors
/// Returns what is wrong with the server or its certificate.
pub async fn expires_at(
    upstream: &Upstream,
    host: &str,
    port: u16,
) -> Result<Timestamp, CertificateError> {
    let other = |error: &dyn std::fmt::Display| CertificateError::Other(error.to_string());
    let name = ServerName::try_from(host.to_owned()).map_err(|error| other(&error))?;
    let tcp = TcpStream::connect((host, port)).await.map_err(|error| other(&error))?;
    let trust = super::trust(upstream).map_err(CertificateError::Other)?;
    let tls = TlsConnector::from(Arc::new(trust.client_config())).connect(name, tcp).await;
    let tls = tls.map_err(|error| match TlsProblem::find(&error) {
        Some(problem) => CertificateError::Tls(problem),
        None => other(&error),
    })?;
    let shown = tls.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let shown = shown.ok_or_else(|| other(&"it shows no certificate"))?;
    not_after(shown).map_err(CertificateError::Other)
}

/// Returns the expiry time of the certificate in a PEM file. Blocks on IO.
///
/// # Errors
/// Returns what is wrong with the file, worded for operators.
pub fn file_expires_at(path: &Path) -> Result<Timestamp, String> {
    let certificate = CertificateDer::from_pem_file(path).map_err(|error| error.to_string())?;
    not_after(&certificate)
}

/// Returns the subject and the expiry time of the first certificate in a PEM text.
///
/// # Errors
/// Returns why it cannot be read.
pub fn subject_and_end(pem: &str) -> Result<(String, Timestamp), String> {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|error| error.to_string())?;
    let (_, certificate) = X509Certificate::from_der(&der).map_err(|error| error.to_string())?;
    Ok((certificate.subject().to_string(), not_after(&der)?))
}

/// Reads the `notAfter` time of a DER certificate.
fn not_after(der: &[u8]) -> Result<Timestamp, String> {
    let (_, certificate) = X509Certificate::from_der(der).map_err(|error| error.to_string())?;
    let seconds = certificate.validity().not_after.timestamp();
    Timestamp::from_second(seconds).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_certificates_time_is_read() {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(2031, 5, 6);
        let certificate = params.self_signed(&key).unwrap();
        assert_eq!(not_after(certificate.der()).unwrap().to_string(), "2031-05-06T00:00:00Z");
        assert!(not_after(b"no certificate").is_err());
    }
}
