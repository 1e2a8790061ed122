//! The proxies in front of the gateway, and the addresses of the clients behind them.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use ipnet::IpNet;

/// The proxies that report the addresses of their clients truthfully.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies {
    /// Their addresses.
    pub networks: Vec<ProxyNetwork>,
    /// Whether their connections begin with a header of the PROXY protocol.
    pub send_header: bool,
}

/// An IP network, written as `10.0.0.0/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyNetwork(IpNet);

/// The text is neither a network nor an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an IP address or network; write one such as 10.1.2.3 or 10.0.0.0/8")]
pub struct ProxyNetworkError(String);

/// The address of a connection's client. Clones see the address that a proxy reports later.
#[derive(Clone, Debug)]
pub struct ClientAddress {
    /// The other end of the connection; `None` for a Unix socket.
    peer: Option<SocketAddr>,
    /// What the peer reports, if it is a proxy that sends a header.
    reported: Option<Arc<OnceLock<SocketAddr>>>,
}

// === impl TrustedProxies ===

impl TrustedProxies {
    /// Returns whether `address` is that of a proxy.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.iter().any(|network| network.0.contains(&address))
    }

    /// Returns the address of the client if `forwarded` are the addresses that it passed, as in `X-Forwarded-For`:
    /// each proxy appends the address that it received the request from. The last one that is not a proxy is the
    /// client; those before it may be invented. `peer` is the other end of the connection.
    pub fn client<'a>(
        &self,
        peer: IpAddr,
        forwarded: impl DoubleEndedIterator<Item = &'a str>,
    ) -> IpAddr {
        let mut client = peer;
        for text in forwarded.rev() {
            if !self.contains(client) {
                break;
            }
            let Some(address) = forwarded_address(text.trim()) else { break };
            client = address;
        }
        client
    }
}

/// Parses an address of `X-Forwarded-For`, which some proxies write with the port.
fn forwarded_address(text: &str) -> Option<IpAddr> {
    let socket = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    text.parse().ok().or_else(socket).map(|address: IpAddr| address.to_canonical())
}

// === impl ProxyNetwork ===

impl FromStr for ProxyNetwork {
    type Err = ProxyNetworkError;

    fn from_str(text: &str) -> Result<Self, ProxyNetworkError> {
        let address = || text.parse::<IpAddr>().map(IpNet::from);
        let network = text.parse().or_else(|_| address());
        network.map(Self).map_err(|_| ProxyNetworkError(text.to_owned()))
    }
}

// === impl ClientAddress ===

impl ClientAddress {
    pub(super) fn new(peer: Option<SocketAddr>, is_reported: bool) -> Self {
        Self { peer, reported: is_reported.then(Arc::default) }
    }

    /// Returns the address; `None` for a Unix socket. Before a proxy has reported another one, it is the proxy's.
    pub fn get(&self) -> Option<SocketAddr> {
        let reported = self.reported.as_ref().and_then(|reported| reported.get());
        reported.copied().or(self.peer)
    }

    /// Sets the address that the proxy reports.
    pub(super) fn report(&self, address: SocketAddr) {
        if let Some(reported) = &self.reported {
            // A connection has one header.
            _ = reported.set(address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(networks: &[&str]) -> TrustedProxies {
        let networks = networks.iter().map(|network| network.parse().unwrap()).collect();
        TrustedProxies { networks, send_header: false }
    }

    #[test]
    fn the_client_is_the_last_address_that_is_not_a_proxy() {
        let proxies = proxies(&["10.0.0.0/8", "2001:db8::1"]);
        for (peer, forwarded, client) in [
            ("10.0.0.1", &["192.0.2.7"][..], "192.0.2.7"),
            ("10.0.0.1", &["127.0.0.1", "192.0.2.7"], "192.0.2.7"),
            ("10.0.0.1", &["192.0.2.7", "10.9.9.9", "2001:db8::1"], "192.0.2.7"),
            ("::ffff:10.0.0.1", &["192.0.2.7:4711"], "192.0.2.7"),
            ("10.0.0.1", &["[2001:db8::2]:1"], "2001:db8::2"),
            ("10.0.0.1", &["192.0.2.7", "unknown"], "10.0.0.1"),
            ("10.0.0.1", &["10.0.0.2", "10.0.0.3"], "10.0.0.2"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("192.0.2.1", &["192.0.2.7"], "192.0.2.1"),
        ] {
            let found = proxies.client(peer.parse().unwrap(), forwarded.iter().copied());
            assert_eq!(
                found.to_canonical(),
                client.parse::<IpAddr>().unwrap(),
                "{peer} {forwarded:?}"
            );
        }
    }

    #[test]
    fn a_network_that_is_not_one_is_refused_by_its_text() {
        for text in ["", "proxy.example", "10.0.0.0/33", "10.0.0.1:80"] {
            let error = text.parse::<ProxyNetwork>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }
}
