//! Where calls come from: the address of a client, and the source by which clients are distinguished.

use std::fmt;
use std::net::{AddrParseError, IpAddr};
use std::str::FromStr;

use ipnet::Ipv6Net;

/// The length of the IPv6 prefix that a single client is usually assigned, in bits.
const CLIENT_PREFIX_BITS: u8 = 64;

/// The address of the client of an admin call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallAddress {
    /// The admin plane's Unix socket.
    UnixSocket,
    /// An address, which a trusted proxy may have reported.
    Ip(IpAddr),
}

impl CallAddress {
    /// The text of [`Self::UnixSocket`].
    const UNIX_SOCKET: &str = "unix";

    /// Returns the address of a connection from `address`; `None` is a Unix socket.
    pub fn of(address: Option<IpAddr>) -> Self {
        address.map_or(Self::UnixSocket, |address| Self::Ip(address.to_canonical()))
    }
}

impl fmt::Display for CallAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnixSocket => f.write_str(Self::UNIX_SOCKET),
            Self::Ip(address) => address.fmt(f),
        }
    }
}

impl FromStr for CallAddress {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Self, AddrParseError> {
        if text == Self::UNIX_SOCKET { Ok(Self::UnixSocket) } else { text.parse().map(Self::Ip) }
    }
}

/// The source of an admin call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The admin plane's Unix socket.
    Local,
    /// An IPv4 address, or the /64 network of an IPv6 address.
    Network(IpAddr),
}

impl Source {
    /// Returns the source of a connection from `address`; `None` is a Unix socket.
    pub fn of(address: Option<IpAddr>) -> Self {
        address.map_or(Self::Local, |address| Self::Network(client_prefix(address)))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("the admin socket"),
            Self::Network(IpAddr::V4(address)) => address.fmt(f),
            Self::Network(IpAddr::V6(network)) => write!(f, "{network}/64"),
        }
    }
}

/// Returns the prefix that identifies one client: an IPv4 address, or the /64 network of an IPv6
/// address, since a single client is usually assigned a /64.
pub fn client_prefix(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Net::new_assert(address, CLIENT_PREFIX_BITS).network().into(),
    }
}
