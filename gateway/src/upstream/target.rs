//! Methods and URIs of the requests to an upstream.

use hyper::header::HeaderValue;
use hyper::http::uri::Scheme;
use hyper::{Method, Uri};

use super::connect::Protocol;
use super::error::UpstreamError;

/// The method and the target of a request.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) method: Method,
    /// The form of HTTP/2.
    absolute: Uri,
    /// The form of HTTP/1.1.
    origin: Uri,
}

impl Target {
    /// Creates the target of requests to the `absolute` URI.
    pub(super) fn new(method: Method, absolute: Uri) -> Self {
        let origin = absolute.path_and_query().cloned().map_or_else(Uri::default, Uri::from);
        Self { method, absolute, origin }
    }

    /// Returns the URI in the form of the protocol.
    pub(super) fn uri(&self, protocol: Protocol) -> &Uri {
        match protocol {
            Protocol::Http1 => &self.origin,
            Protocol::Http2 => &self.absolute,
        }
    }

    /// Returns the target of a GET request for `path` at the same origin.
    ///
    /// # Errors
    /// [`UpstreamError::Misconfigured`] if the path, which is that of a health check, is invalid.
    pub(super) fn at_path(&self, path: &str) -> Result<Self, UpstreamError> {
        let mut parts = self.absolute.clone().into_parts();
        let misconfigured = |error: &dyn std::fmt::Display| {
            UpstreamError::Misconfigured(format!("its health check: {error}"))
        };
        parts.path_and_query = Some(path.parse().map_err(|error| misconfigured(&error))?);
        Ok(Self::new(Method::GET, Uri::from_parts(parts).map_err(|error| misconfigured(&error))?))
    }
}

/// Returns an address's host, with its port unless that is the scheme's default.
pub(super) fn host(address: &Uri) -> Result<HeaderValue, UpstreamError> {
    let host = address.host().unwrap_or_default();
    let default_port = if address.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
    let value = match address.port_u16().filter(|&port| port != default_port) {
        Some(port) => HeaderValue::try_from(format!("{host}:{port}")),
        None => HeaderValue::try_from(host),
    };
    value.map_err(|error| UpstreamError::Misconfigured(format!("its URL: {error}")))
}
