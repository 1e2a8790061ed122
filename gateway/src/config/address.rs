//! Where the admin plane is, an address or a Unix socket; and where clients are told that the API is.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Deserialize;

/// Where the admin plane listens, written as `127.0.0.1:8081` or `unix:/path`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub enum AdminAddress {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A Unix socket, for the gateway's own user alone.
    Unix(PathBuf),
}

/// A text that is no such address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither `HOST:PORT` with a numeric host nor `unix:/PATH`")]
pub struct NoAddress(String);

impl AdminAddress {
    /// Whether only this host can reach it.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

impl AdminAddress {
    /// What clients on this host connect to, where there is no TLS.
    pub fn url(&self) -> String {
        match self {
            Self::Tcp(address) => format!("http://{address}"),
            Self::Unix(_) => self.to_string(),
        }
    }
}

impl FromStr for AdminAddress {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Self, NoAddress> {
        let wrong = || NoAddress(text.to_owned());
        match text.strip_prefix("unix:") {
            Some(path) if path.starts_with('/') => Ok(Self::Unix(path.into())),
            Some(_) => Err(wrong()),
            None => text.parse().map(Self::Tcp).map_err(|_| wrong()),
        }
    }
}

impl TryFrom<String> for AdminAddress {
    type Error = NoAddress;

    fn try_from(text: String) -> Result<Self, NoAddress> {
        text.parse()
    }
}

impl From<SocketAddr> for AdminAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl fmt::Display for AdminAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A text that is no base URL of an API.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`public_url` must be the base URL that clients use, such as `https://gate.example/v1`")]
pub(super) struct PublicUrlError;

/// Checks the base URL of the API: one without a path has the API at `/v1`.
pub(super) fn public_url(text: &str) -> Result<String, PublicUrlError> {
    let url: http::Uri = text.parse().map_err(|_| PublicUrlError)?;
    let is_http = matches!(url.scheme_str(), Some("http" | "https"));
    let authority = url.authority().filter(|authority| !authority.as_str().contains('@'));
    if !is_http || authority.is_none() || url.query().is_some() || text.contains('#') {
        return Err(PublicUrlError);
    }
    let text = text.trim_end_matches('/');
    Ok(if url.path() == "/" { format!("{text}/v1") } else { text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_shown() {
        for (text, local) in [
            ("127.0.0.1:8081", true),
            ("[::1]:1", true),
            ("0.0.0.0:1", false),
            ("unix:/run/a", true),
        ] {
            let address: AdminAddress = text.parse().unwrap();
            assert_eq!((address.to_string().as_str(), address.is_local()), (text, local));
        }
        for text in ["", "8081", "localhost:1", "unix:", "unix:run/a"] {
            assert!(text.parse::<AdminAddress>().is_err(), "{text}");
        }
    }
}
