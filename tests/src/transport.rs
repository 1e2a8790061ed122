//! The transport between the test clients, a gateway in this process, and its upstreams.
//!
//! The environment chooses it, so that the same tests run over each one.

use std::sync::LazyLock;

use crate::http::Request;
use crate::tls::Certificate;

/// The variable that chooses the transport: `http1` (the default), `http2`, `http1-tls` or `http2-tls`.
const VARIABLE: &str = "TOLLGATE_TEST_TRANSPORT";

/// The HTTP version and the encryption of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// HTTP/1.1 in plaintext.
    Http1,
    /// HTTP/2 in plaintext, with prior knowledge. Upstreams are never reached this way: the simulator is reached over
    /// TLS, as HTTP/2 is negotiated there, and a `RawUpstream` over HTTP/1.1.
    Http2,
    /// HTTP/1.1 over TLS.
    Http1Tls,
    /// HTTP/2 over TLS, negotiated with ALPN. A `RawUpstream` negotiates HTTP/1.1.
    Http2Tls,
}

impl Transport {
    /// Returns the transport that the environment chooses.
    ///
    /// # Panics
    /// If the environment names an unknown transport.
    pub fn of_environment() -> Self {
        #[expect(clippy::disallowed_methods, reason = "cargo passes no arguments to single tests")]
        static CHOSEN: LazyLock<Transport> = LazyLock::new(|| {
            let name = std::env::var_os(VARIABLE).unwrap_or_default();
            Transport::named(&name.to_string_lossy())
        });
        *CHOSEN
    }

    /// Returns the transport with this name. The empty name is that of the default.
    fn named(name: &str) -> Self {
        match name {
            "" | "http1" => Self::Http1,
            "http2" => Self::Http2,
            "http1-tls" => Self::Http1Tls,
            "http2-tls" => Self::Http2Tls,
            _ => panic!("`{VARIABLE}` is not http1, http2, http1-tls or http2-tls: `{name}`"),
        }
    }

    /// Returns whether connections are encrypted.
    pub fn has_tls(self) -> bool {
        matches!(self, Self::Http1Tls | Self::Http2Tls)
    }

    /// Returns whether requests are sent over HTTP/2.
    pub fn is_http2(self) -> bool {
        matches!(self, Self::Http2 | Self::Http2Tls)
    }

    /// Returns the ALPN name of the HTTP version.
    pub(crate) fn protocol(self) -> &'static str {
        if self.is_http2() { "h2" } else { "http/1.1" }
    }

    /// Returns `request` as it is sent over this transport to a gateway with the certificate of the process.
    pub(crate) fn apply(self, request: Request) -> Request {
        let request = if self.is_http2() { request.http2() } else { request };
        if self.has_tls() {
            request.tls(Certificate::of_process().client_config(self.protocol()))
        } else {
            request
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_chooses_its_transport() {
        for (name, is_http2, has_tls) in [
            ("", false, false),
            ("http1", false, false),
            ("http2", true, false),
            ("http1-tls", false, true),
            ("http2-tls", true, true),
        ] {
            let transport = Transport::named(name);
            assert_eq!((transport.is_http2(), transport.has_tls()), (is_http2, has_tls), "{name}");
        }
    }

    #[test]
    #[should_panic(expected = "`http3`")]
    fn an_unknown_name_panics() {
        Transport::named("http3");
    }
}
