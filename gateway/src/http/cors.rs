//! Cross-origin requests of browsers (the CORS protocol of the Fetch standard), off unless configured.
//!
//! The API needs no cookies, so an origin that is permitted gains nothing that its page could not send from elsewhere;
//! it still needs a key.

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

use super::body::Reply;

/// The methods of the API.
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");
/// The headers of responses that a page may read.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "x-request-id, retry-after, retry-after-ms, x-should-retry, openai-processing-ms, idempotent-replayed, \
     x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, \
     x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens",
);
/// How long a browser may keep the result of a preflight request, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("7200");

/// The origins whose pages may use the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CorsOrigins {
    /// All.
    Any,
    /// These, as browsers send them: `https://app.example`.
    Listed(Vec<HeaderValue>),
}

impl CorsOrigins {
    /// Returns the value that permits the origin of a request; `None` if it has none, or one that is not permitted.
    pub(super) fn permitted(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(ORIGIN)?;
        match self {
            Self::Any => Some(HeaderValue::from_static("*")),
            Self::Listed(origins) => origins.contains(origin).then(|| origin.clone()),
        }
    }

    /// Adds the headers of any response. `permitted` is what [`permitted`](Self::permitted) returned.
    pub(super) fn add_headers(&self, permitted: Option<HeaderValue>, headers: &mut HeaderMap) {
        if let Self::Listed(_) = self {
            // A cache must not give the response to a page of another origin.
            headers.append(VARY, HeaderValue::from_static("origin"));
        }
        if let Some(origin) = permitted {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        }
    }
}

/// Returns whether a browser asks what a page may send.
pub(super) fn is_preflight(head: &Parts) -> bool {
    head.method == Method::OPTIONS
        && head.headers.contains_key(ORIGIN)
        && head.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Answers a preflight request of a permitted origin: it may send all headers that it asks for.
pub(super) fn preflight(head: &Parts) -> Response<Reply> {
    let mut response = Response::new(Reply::whole(Bytes::new()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    if let Some(wanted) = head.headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    response
}
