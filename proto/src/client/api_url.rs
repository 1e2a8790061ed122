//! Derives the base URL of a gateway's API from the address of its admin plane.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::Uri;

use crate::v1::DescribeGatewayResponse;

/// The port of the API if the gateway does not report its address.
const DEFAULT_PORT: u16 = 8080;

/// Returns the base URL of the API of the gateway whose admin plane is at `server`: the configured public URL in
/// `described`, otherwise one with the port of the listen address. If the API listens on all addresses, or if
/// `server` contains a host name, the host is that of `server`, because it is known to be reachable.
pub fn api_url(server: &str, described: &DescribeGatewayResponse) -> String {
    if !described.public_url.is_empty() {
        return described.public_url.clone();
    }
    let Ok(listen) = described.listen.parse::<SocketAddr>() else { return guessed_api_url(server) };
    let scheme = if described.tls { "https" } else { "http" };
    format!("{scheme}://{}:{}/v1", host(server, listen.ip()), listen.port())
}

/// Returns the base URL for a gateway that does not report its API address: the default port on the host of the
/// admin plane.
pub fn guessed_api_url(server: &str) -> String {
    let scheme = if server.starts_with("https:") { "https" } else { "http" };
    let host = host(server, IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    format!("{scheme}://{host}:{DEFAULT_PORT}/v1")
}

/// Returns the host of a service that listens on `listen`, for a client that can reach `server`.
fn host(server: &str, listen: IpAddr) -> String {
    let uri: Option<Uri> = server.parse().ok();
    let named = uri.as_ref().and_then(Uri::host).filter(|_| !server.starts_with("unix:"));
    match named {
        Some(named) if listen.is_unspecified() => named.to_owned(),
        // A name that can mean the same host is kept, because certificates are issued for names.
        Some(named) if !is_numeric(named) && (!listen.is_loopback() || named == "localhost") => {
            named.to_owned()
        }
        None if listen.is_unspecified() => Ipv4Addr::LOCALHOST.to_string(),
        _ => match listen {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        },
    }
}

fn is_numeric(host: &str) -> bool {
    host.parse::<Ipv4Addr>().is_ok() || host.trim_matches(['[', ']']).parse::<Ipv6Addr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derives_the_url_from_the_described_address() {
        for (server, listen, tls, url) in [
            ("http://127.0.0.1:8081", "127.0.0.1:9000", false, "http://127.0.0.1:9000/v1"),
            ("http://127.0.0.1:8081", "10.0.0.5:80", false, "http://10.0.0.5:80/v1"),
            ("http://10.0.0.5:8081", "0.0.0.0:9000", false, "http://10.0.0.5:9000/v1"),
            ("http://[::1]:8081", "[::]:9000", false, "http://[::1]:9000/v1"),
            ("unix:/run/admin.sock", "0.0.0.0:9000", false, "http://127.0.0.1:9000/v1"),
            ("unix:/run/admin.sock", "[::1]:9000", false, "http://[::1]:9000/v1"),
            ("https://gate.example:8081", "10.0.0.5:443", true, "https://gate.example:443/v1"),
            ("https://localhost:8081", "127.0.0.1:9000", true, "https://localhost:9000/v1"),
            // Through a tunnel: the API is reachable only on the gateway's host.
            ("http://gate.example:8081", "127.0.0.1:9000", false, "http://127.0.0.1:9000/v1"),
            ("http://gate.example:8081", "", false, "http://gate.example:8080/v1"),
        ] {
            let described =
                DescribeGatewayResponse { listen: listen.to_owned(), tls, ..Default::default() };
            assert_eq!(api_url(server, &described), url, "{server} {listen}");
        }
        let public_url = "https://llm.example/v1".to_owned();
        let described = DescribeGatewayResponse {
            public_url: public_url.clone(),
            listen: "127.0.0.1:9000".to_owned(),
            tls: false,
        };
        assert_eq!(api_url("unix:/run/admin.sock", &described), public_url);
    }

    #[test]
    fn uses_the_default_port_without_a_described_address() {
        for (server, url) in [
            ("http://127.0.0.1:8081", "http://127.0.0.1:8080/v1"),
            ("https://gate.example", "https://gate.example:8080/v1"),
            ("http://[::1]:8081", "http://[::1]:8080/v1"),
            ("unix:/run/tollgate.sock", "http://127.0.0.1:8080/v1"),
        ] {
            assert_eq!(guessed_api_url(server), url);
        }
    }
}
