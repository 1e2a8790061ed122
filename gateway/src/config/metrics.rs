//! The listen address of the metrics.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::address::{AdminAddress, ListenError, listen_address};

/// The listen address of the metrics, written as `127.0.0.1:9464` or `off`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum MetricsAddress {
    /// They are not served.
    Off,
    /// A TCP port.
    Tcp(SocketAddr),
}

impl MetricsAddress {
    /// Returns the address; `None` if the metrics are not served.
    pub const fn socket(self) -> Option<SocketAddr> {
        match self {
            Self::Off => None,
            Self::Tcp(address) => Some(address),
        }
    }
}

impl FromStr for MetricsAddress {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Self, ListenError> {
        if text == "off" { Ok(Self::Off) } else { listen_address(text).map(Self::Tcp) }
    }
}

impl TryFrom<String> for MetricsAddress {
    type Error = ListenError;

    fn try_from(text: String) -> Result<Self, ListenError> {
        text.parse()
    }
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Tcp(address) => address.fmt(f),
        }
    }
}

impl From<MetricsAddress> for String {
    fn from(address: MetricsAddress) -> Self {
        address.to_string()
    }
}

/// Checks that only this host can read the metrics, unless plaintext is allowed, and that their port is not that of
/// the API or the admin plane.
///
/// # Errors
/// It can be reached from other hosts, or the port is taken.
pub(super) fn check(
    address: SocketAddr,
    api: SocketAddr,
    admin: &AdminAddress,
    allow_plaintext: bool,
) -> Result<()> {
    ensure!(
        address.ip().is_loopback() || allow_plaintext,
        "`metrics_listen` is an address that other hosts can reach, and metrics need no token and have no TLS: use a \
         loopback address, or set `allow_plaintext = true` (--allow-plaintext) on a trusted network"
    );
    let admin = match admin {
        AdminAddress::Tcp(admin) => Some(*admin),
        AdminAddress::Unix(_) => None,
    };
    for (name, other) in [("listen", Some(api)), ("admin_listen", admin)] {
        // The system assigns a different port for each zero.
        let is_taken =
            other.is_some_and(|other| other.port() == address.port()) && address.port() != 0;
        ensure!(!is_taken, "`metrics_listen` has the port of `{name}`; use another one");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_hosts_and_shared_ports_are_refused() {
        let check = |address: &str, allow_plaintext| {
            let (api, admin) = ("127.0.0.1:8080", "127.0.0.1:8081");
            let (api, admin) = (api.parse().unwrap(), admin.parse().unwrap());
            let checked = check(address.parse().unwrap(), api, &admin, allow_plaintext);
            checked.err().map(|error| error.to_string())
        };
        assert_eq!(check("127.0.0.1:9090", false), None);
        assert_eq!(check("[::1]:0", false), None);
        assert_eq!(check("0.0.0.0:9090", true), None);
        assert!(check("0.0.0.0:9090", false).unwrap().contains("--allow-plaintext"));
        for (address, name) in [("127.0.0.1:8080", "`listen`"), ("0.0.0.0:8081", "`admin_listen`")]
        {
            assert!(check(address, true).unwrap().contains(name), "{address}");
        }
    }
}
