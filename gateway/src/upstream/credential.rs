//! The credentials of an upstream client: the headers of the requests with each.

use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
    USER_AGENT,
};
use secrecy::{ExposeSecret, SecretString};

use super::error::UpstreamError;
use super::stats::UpstreamStats;
use crate::secrets::ResolvedCredential;
use domain::upstream::CredentialIndex;

/// The header with the id of a request.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The capacity of a request's header map.
const HEADERS: usize = 8;
/// A credential below this length, in bytes, is not searched for in answers. It may be a word: servers that require no
/// credential are given `ollama` or `none`.
const MIN_SEARCHED_BYTES: usize = 16;

/// A credential, and the headers of the requests with it.
pub(super) struct Credential {
    /// With the `Host` of HTTP/1.1.
    pub(super) headers: HeaderMap,
    pub(super) secret: Option<SecretString>,
}

// === impl Credential ===

impl Credential {
    /// Returns the credentials with the headers of requests to `host`. Those that are not resolved are recorded in `stats`.
    ///
    /// # Errors
    /// A credential has characters that a header cannot carry.
    pub(super) fn all(
        resolved: &[ResolvedCredential],
        host: &HeaderValue,
        stats: &UpstreamStats,
    ) -> Result<Vec<Option<Self>>, UpstreamError> {
        let credential = |secret: Option<&SecretString>| {
            let mut headers = headers(secret)?;
            headers.insert(HOST, host.clone());
            Ok(Some(Self { headers, secret: secret.cloned() }))
        };
        if resolved.is_empty() {
            return Ok(vec![credential(None)?]);
        }
        let credentials = (0..).map(CredentialIndex).zip(resolved).map(|(index, resolved)| {
            let Ok(secret) = resolved else {
                stats.credentials().set_missing(index);
                return Ok(None);
            };
            credential(Some(secret))
        });
        credentials.collect()
    }

    /// Returns the secret if an answer with it is refused: it is long enough not to be a word.
    pub(super) fn searched_secret(&self) -> Option<&[u8]> {
        let secret = self.secret.as_ref()?.expose_secret().as_bytes();
        (secret.len() >= MIN_SEARCHED_BYTES).then_some(secret)
    }
}

/// Returns the headers of every request with a credential. No header of the client is forwarded.
fn headers(credential: Option<&SecretString>) -> Result<HeaderMap, UpstreamError> {
    // A full header map grows on insertion even if the name exists, and each request inserts its id into a
    // copy of this map.
    let mut headers = HeaderMap::with_capacity(HEADERS);
    headers.insert(REQUEST_ID, HeaderValue::from_static(""));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    // Without this header, any encoding is acceptable (RFC 9110, 12.5.3).
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(
        USER_AGENT,
        HeaderValue::from_static(concat!("tollgate/", env!("CARGO_PKG_VERSION"))),
    );
    if let Some(credential) = credential {
        let text = format!("Bearer {}", credential.expose_secret());
        let mut value = HeaderValue::try_from(text).map_err(|_| {
            UpstreamError::Misconfigured(
                "its credential has characters that a header cannot carry".to_owned(),
            )
        })?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}
