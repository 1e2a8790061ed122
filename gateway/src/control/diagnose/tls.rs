//! Checks of the certificates of upstreams and of the gateway: trust and expiry.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Finding, blocking};
use crate::upstream::certificate::{self, CertificateError};
use domain::upstream::Upstream;

/// An expiry within this time is a warning. Certificates with automatic renewal stay above it.
const EXPIRY_WARNING: SignedDuration = SignedDuration::from_hours(14 * 24);

/// Returns the host and port of an `https` URL; `None` for other URLs.
pub(super) fn host(url: &str) -> Option<(String, u16)> {
    let url: http::Uri = url.parse().ok()?;
    let https = url.scheme_str() == Some("https");
    let host = url.host().filter(|_| https)?.trim_matches(['[', ']']).to_owned();
    Some((host, url.port_u16().unwrap_or(443)))
}

pub(super) async fn check(
    upstream: Arc<Upstream>,
    (host, port): (String, u16),
    now: Timestamp,
) -> Vec<Finding> {
    vec![match certificate::expires_at(&upstream, &host, port).await {
        Ok(expires_at) => assess(expires_at, now),
        Err(error) => {
            let remedy = match &error {
                CertificateError::Tls(problem) => super::tls_remedy(problem, &upstream),
                CertificateError::Other(_) => {
                    format!("see which certificate `{host}:{port}` shows")
                }
            };
            Finding::problem(format!("no TLS connection could be made: {error}"), remedy)
        }
    }]
}

/// Checks the certificate of the gateway's listeners.
pub(super) async fn check_own(path: PathBuf, now: Timestamp) -> Vec<Finding> {
    blocking(move || {
        vec![match certificate::file_expires_at(&path) {
            Ok(expires_at) => assess(expires_at, now),
            Err(error) => Finding::problem(
                format!("our own certificate cannot be read: {error}"),
                format!("see what is in `{}`; it is read at the next start", path.display()),
            ),
        }]
    })
    .await
}

fn assess(expires_at: Timestamp, now: Timestamp) -> Finding {
    let text = format!("the certificate is good until {expires_at:.0}");
    if expires_at.duration_since(now) < EXPIRY_WARNING {
        let remedy = "renew it, and restart the server that uses it";
        return Finding::warning(text, remedy);
    }
    Finding::ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;

    #[test]
    fn only_https_urls_have_a_certificate_to_check() {
        assert_eq!(host("https://a.example/v1"), Some(("a.example".to_owned(), 443)));
        assert_eq!(host("https://[::1]:8443/v1"), Some(("::1".to_owned(), 8443)));
        assert_eq!((host("http://a.example/v1"), host("sim:")), (None, None));
    }

    #[test]
    fn a_certificate_that_expires_soon_is_a_warning() {
        let now: Timestamp = "2026-11-20T10:00:00Z".parse().unwrap();
        let in_days = |days: i64| assess(now + SignedDuration::from_hours(24 * days), now).severity;
        assert_eq!((in_days(90), in_days(13)), (Severity::Ok, Severity::Warning));
    }
}
