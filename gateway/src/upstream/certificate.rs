//! The certificate of a server, looked at without sending it anything.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Returns the time until which the certificate that `host` shows is good.
///
/// # Errors
/// What is wrong with the server, or with its certificate, as an operator should read it.
pub async fn expires_at(host: &str, port: u16) -> Result<Timestamp, String> {
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    let tcp = TcpStream::connect((host, port)).await.map_err(|error| error.to_string())?;
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tls = TlsConnector::from(Arc::new(config)).connect(name, tcp).await;
    let tls = tls.map_err(|error| error.to_string())?;
    let shown = tls.get_ref().1.peer_certificates().and_then(<[_]>::first);
    not_after(shown.ok_or("it shows no certificate")?)
}

/// Returns the time until which the certificate in a PEM file is good. Blocks.
///
/// # Errors
/// What is wrong with the file, as an operator should read it.
pub fn file_expires_at(path: &Path) -> Result<Timestamp, String> {
    let certificate = CertificateDer::from_pem_file(path).map_err(|error| error.to_string())?;
    not_after(&certificate)
}

/// Reads the end of a certificate's time.
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
