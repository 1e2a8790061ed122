//! Admin addresses: validation, normalization and the test for local ones.

use tonic::transport::Uri;

use crate::error::Failure;

/// Validates an address and returns its normal form, the key of sessions in the profile file.
pub(super) fn normalize(server: &str) -> Result<String, Failure> {
    let invalid = || {
        Failure::usage(format!("`{server}` is not the address of a gateway"))
            .advise("give http://HOST:PORT, https://HOST:PORT or unix:/PATH")
    };
    if let Some(path) = server.strip_prefix("unix:") {
        return if path.starts_with('/') { Ok(server.to_owned()) } else { Err(invalid()) };
    }
    let uri: Uri = server.parse().map_err(|_| invalid())?;
    match (uri.scheme_str(), uri.authority(), uri.path(), uri.query()) {
        (Some(scheme @ ("http" | "https")), Some(authority), "/", None)
            if !authority.as_str().contains('@') =>
        {
            Ok(format!("{scheme}://{}", authority.as_str().to_ascii_lowercase()))
        }
        // A gateway on this host uses no TLS unless it is configured, so `HOST:PORT` is enough.
        (None, Some(authority), "" | "/", None)
            if !authority.as_str().contains('@') && is_local(&format!("http://{authority}")) =>
        {
            Ok(format!("http://{}", authority.as_str().to_ascii_lowercase()))
        }
        _ => Err(invalid()),
    }
}

/// Returns whether an address is necessarily on this host: a Unix socket or a loopback address.
pub(crate) fn is_local(server: &str) -> bool {
    if server.starts_with("unix:") {
        return true;
    }
    let uri = server.parse::<Uri>().ok();
    let Some(host) = uri.as_ref().and_then(Uri::host) else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::{is_local, normalize};

    #[test]
    fn addresses_are_normalized() {
        for (given, kept) in [
            ("http://127.0.0.1:8081", Some("http://127.0.0.1:8081")),
            ("http://Gate.example:1/", Some("http://gate.example:1")),
            ("https://gate.example", Some("https://gate.example")),
            ("unix:/run/tollgate.sock", Some("unix:/run/tollgate.sock")),
            ("unix:run/tollgate.sock", None),
            ("127.0.0.1:8081", Some("http://127.0.0.1:8081")),
            ("Localhost:8081", Some("http://localhost:8081")),
            ("[::1]:8081", Some("http://[::1]:8081")),
            ("gate.example:8081", None),
            ("user@localhost:1", None),
            ("ftp://gate.example", None),
            ("http://user@gate.example", None),
            ("http://gate.example/v1", None),
            ("", None),
        ] {
            assert_eq!(normalize(given).ok().as_deref(), kept, "{given}");
        }
    }

    #[test]
    fn only_loopback_and_unix_sockets_are_local() {
        for (server, local) in [
            ("http://127.0.0.1:8081", true),
            ("http://127.9.9.9:1", true),
            ("http://[::1]:8081", true),
            ("http://localhost:8081", true),
            ("unix:/run/tollgate.sock", true),
            ("http://10.0.0.1:8081", false),
            ("https://localhost.example", false),
            ("http://[2001:db8::1]:8081", false),
        ] {
            assert_eq!(is_local(server), local, "{server}");
        }
    }
}
