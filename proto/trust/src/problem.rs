//! Classifies TLS errors found in an error's source chain.

use std::error::Error as StdError;
use std::io;

use rustls::{CertificateError, Error};

use crate::pinned::is_ca_used_as_end_entity;

/// Why a TLS connection failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsProblem {
    /// The server's response is not TLS.
    NotTls,
    /// The server closed the connection during the handshake.
    Closed,
    /// The server presents a self-signed certificate that is not trusted.
    SelfSigned,
    /// The certificate was not issued by a trusted authority.
    UnknownAuthority,
    /// The certificate is issued for other names, which the text contains.
    WrongName(String),
    /// The certificate has expired or is not valid yet; the text contains the time.
    WrongTime(String),
    /// The server does not accept the client's certificate, or demands one; the text contains its alert.
    ClientCertificate(String),
    /// Any other TLS error.
    Other(String),
}

/// What rustls writes before the name of an alert.
const ALERT: &str = "received fatal alert: ";

// === impl TlsProblem ===

impl TlsProblem {
    /// Returns the TLS error among `error` and its sources; `None` if there is none.
    pub fn find(error: &(dyn StdError + 'static)) -> Option<Self> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<Error>() {
                return Some(Self::of(error));
            }
            if error.downcast_ref::<io::Error>().is_some_and(is_handshake_eof) {
                return Some(Self::Closed);
            }
            // h2 keeps the text of an I/O error only.
            if let Some(alert) = error.to_string().strip_prefix(ALERT)
                && is_about_certificate(alert)
            {
                return Some(Self::ClientCertificate(alert.to_owned()));
            }
            // `source` of an I/O error skips the error that it wraps.
            let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            cause = match inner {
                Some(inner) => Some(inner),
                None => error.source(),
            };
        }
        None
    }

    /// Classifies a rustls error.
    pub(crate) fn of(error: &Error) -> Self {
        use CertificateError as C;

        match error {
            Error::InvalidMessage(_) => Self::NotTls,
            error if is_ca_used_as_end_entity(error) => Self::SelfSigned,
            Error::AlertReceived(alert) if is_about_certificate(&format!("{alert:?}")) => {
                Self::ClientCertificate(format!("{alert:?}"))
            }
            Error::InvalidCertificate(C::UnknownIssuer) => Self::UnknownAuthority,
            Error::InvalidCertificate(
                reason @ (C::NotValidForName | C::NotValidForNameContext { .. }),
            ) => Self::WrongName(reason.to_string()),
            Error::InvalidCertificate(
                reason @ (C::Expired
                | C::ExpiredContext { .. }
                | C::NotValidYet
                | C::NotValidYetContext { .. }),
            ) => Self::WrongTime(reason.to_string()),
            error => Self::Other(error.to_string()),
        }
    }

    /// Returns the remedy as a text. `option` is the option that sets the trusted certificates, such as
    /// `--ca-file FILE`, and `identity_option` the one that sets the client's certificate.
    pub fn advice(&self, option: &str, identity_option: &str) -> String {
        match self {
            Self::NotTls => "use http:// instead of https://, or set up TLS there".to_owned(),
            Self::Closed => "if it does not speak TLS, use http:// instead of https://".to_owned(),
            Self::SelfSigned => {
                format!(
                    "if that is the right server, copy its certificate and name it with {option}"
                )
            }
            Self::UnknownAuthority => format!(
                "if its certificate is of a private authority, name the authority's certificate with {option}"
            ),
            Self::WrongName(_) => {
                "use a name that is in its certificate, or make it one that has this \
                name (`openssl req -x509 … -addext subjectAltName=DNS:NAME`, or IP:ADDRESS)"
                    .to_owned()
            }
            Self::WrongTime(_) => {
                "renew its certificate, or set the clock of this host right".to_owned()
            }
            Self::ClientCertificate(_) => {
                format!("name a certificate that it accepts, and its key, with {identity_option}")
            }
            Self::Other(_) => {
                format!("see its certificate; to trust a private one, name it with {option}")
            }
        }
    }
}

impl std::fmt::Display for TlsProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotTls => f.write_str("the server does not speak TLS"),
            Self::Closed => f.write_str("the server closed the connection in the TLS handshake"),
            Self::SelfSigned => {
                f.write_str("it shows a self-signed certificate that is not trusted here")
            }
            Self::UnknownAuthority => {
                f.write_str("its certificate is of no authority that is trusted here")
            }
            Self::ClientCertificate(alert) => {
                write!(f, "it demands a certificate of the client that it accepts ({alert})")
            }
            Self::WrongName(reason) | Self::WrongTime(reason) | Self::Other(reason) => {
                f.write_str(reason)
            }
        }
    }
}

/// Returns whether an alert of the server, named as in RFC 8446, is about the certificate of the client.
fn is_about_certificate(alert: &str) -> bool {
    alert.contains("Certificate") || matches!(alert, "UnknownCA" | "AccessDenied" | "DecryptError")
}

/// Returns whether the connection ended during the handshake. tokio-rustls has no type for this error.
fn is_handshake_eof(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof && error.to_string() == "tls handshake eof"
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[test]
    fn finds_tls_errors_inside_io_errors() {
        let tls = Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let wrapped = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, tls));
        assert_eq!(TlsProblem::find(&wrapped), Some(TlsProblem::UnknownAuthority));
        assert_eq!(TlsProblem::find(&io::Error::from(io::ErrorKind::ConnectionRefused)), None);
    }

    #[test]
    fn an_alert_about_the_certificate_of_the_client_is_recognized_by_its_text() {
        let alert = Error::AlertReceived(rustls::AlertDescription::CertificateRequired);
        let refused = Some(TlsProblem::ClientCertificate("CertificateRequired".to_owned()));
        assert_eq!(TlsProblem::find(&io::Error::other(alert.to_string())), refused);
        assert_eq!(TlsProblem::find(&io::Error::other(alert)), refused);
        let other = Error::AlertReceived(rustls::AlertDescription::InternalError);
        assert_eq!(TlsProblem::find(&io::Error::other(other.to_string())), None);
    }

    #[tokio::test]
    async fn recognizes_a_connection_closed_during_the_handshake() {
        let (here, mut there) = tokio::io::duplex(16 * 1024);
        there.shutdown().await.unwrap();
        let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
        let config = std::sync::Arc::new(crate::Trust::of_host().client_config());
        let connected = tokio_rustls::TlsConnector::from(config).connect(name, here).await;
        assert_eq!(TlsProblem::find(&connected.unwrap_err()), Some(TlsProblem::Closed));
    }
}
