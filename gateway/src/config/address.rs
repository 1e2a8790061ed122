//! Parses listen addresses and the public URL of the API.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result};
use http::uri::PathAndQuery;
use http::{HeaderValue, Uri};
use serde::{Deserialize, Serialize, Serializer};

use crate::http::CorsOrigins;

/// The listen address of the admin plane, written as `127.0.0.1:8081` or `unix:/path`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub enum AdminAddress {
    /// A TCP port.
    Tcp(SocketAddr),
    /// The absolute path of a Unix socket, which only the gateway's user can access.
    Unix(PathBuf),
}

/// An invalid listen address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenError {
    /// The host is a name.
    #[error(
        "`{0}` contains a host name, which may resolve to several addresses or none; write an IP address, such as \
         127.0.0.1:8080 for local clients only, or 0.0.0.0:8080 for all interfaces"
    )]
    Name(String),
    /// The host or the port is missing or invalid.
    #[error("`{0}` is not an address; write HOST:PORT with an IP address, such as 127.0.0.1:8080")]
    Malformed(String),
    /// The path of a socket is not absolute.
    #[error("`{0}` is not a socket; write unix:/PATH with an absolute path")]
    RelativePath(String),
}

/// Parses a listen address: an IP address and a port. `localhost` means 127.0.0.1.
///
/// # Errors
/// The text has another form; the error says what to write.
pub fn listen_address(text: &str) -> Result<SocketAddr, ListenError> {
    let malformed = || ListenError::Malformed(text.to_owned());
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let (host, port) = text.rsplit_once(':').ok_or_else(malformed)?;
    let port: u16 = port.parse().map_err(|_| malformed())?;
    if host.eq_ignore_ascii_case("localhost") {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    let is_name = host.starts_with(|c: char| c.is_ascii_alphanumeric())
        && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
    Err(if is_name { ListenError::Name(text.to_owned()) } else { malformed() })
}

/// Deserializes a listen address.
pub(super) fn deserialize_listen<'de, D>(input: D) -> Result<Option<SocketAddr>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    let text = String::deserialize(input)?;
    listen_address(&text).map(Some).map_err(serde::de::Error::custom)
}

/// Deserializes origins: a list, or one text with commas, as on the command line.
pub(super) fn deserialize_origins<'de, D>(input: D) -> Result<Option<Vec<String>>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "`cors_origins` must be a list of origins, or \"*\"")]
    enum Origins {
        Text(String),
        List(Vec<String>),
    }
    Ok(Some(match Origins::deserialize(input)? {
        Origins::Text(text) => text.split(',').map(|origin| origin.trim().to_owned()).collect(),
        Origins::List(list) => list,
    }))
}

/// Validates the origins whose pages may use the API. An empty list means none.
///
/// # Errors
/// One is not `SCHEME://HOST[:PORT]`, or `*` is not the only one.
pub(super) fn cors_origins(origins: &[String]) -> Result<Option<CorsOrigins>> {
    let origins: Vec<_> = origins.iter().filter(|origin| !origin.is_empty()).collect();
    match origins[..] {
        [] => return Ok(None),
        [any] if any == "*" => return Ok(Some(CorsOrigins::Any)),
        _ => {}
    }
    let parse = |origin: &String| {
        let uri = origin.parse::<Uri>().ok()?;
        let (scheme, authority) = (uri.scheme_str()?, uri.authority()?.as_str());
        let is_origin = matches!(uri.path_and_query().map(PathAndQuery::as_str), None | Some("/"))
            && !authority.contains('@');
        let text = format!("{scheme}://{authority}").to_ascii_lowercase();
        is_origin.then(|| HeaderValue::try_from(text).ok()).flatten()
    };
    let listed = origins.into_iter().map(|origin| {
        parse(origin).with_context(|| {
            format!(
                "`cors_origins` contains `{origin}`; write origins such as https://app.example, without a path, or \
                 only `*` for all"
            )
        })
    });
    Ok(Some(CorsOrigins::Listed(listed.collect::<Result<_>>()?)))
}

impl AdminAddress {
    /// Returns whether only clients on this host can connect to the address.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

impl AdminAddress {
    /// Returns the URL for clients on this host, without TLS.
    pub fn url(&self) -> String {
        match self {
            Self::Tcp(address) => format!("http://{address}"),
            Self::Unix(_) => self.to_string(),
        }
    }
}

impl FromStr for AdminAddress {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Self, ListenError> {
        match text.strip_prefix("unix:") {
            Some(path) if path.starts_with('/') => Ok(Self::Unix(path.into())),
            Some(_) => Err(ListenError::RelativePath(text.to_owned())),
            None => listen_address(text).map(Self::Tcp),
        }
    }
}

impl TryFrom<String> for AdminAddress {
    type Error = ListenError;

    fn try_from(text: String) -> Result<Self, ListenError> {
        text.parse()
    }
}

impl From<SocketAddr> for AdminAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl Serialize for AdminAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
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

/// The public URL is not a base URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`public_url` must be the base URL that clients use, such as `https://gate.example/v1`")]
pub(super) struct PublicUrlError;

/// Validates the base URL of the API and removes trailing slashes. Adds `/v1` to a URL without a path.
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
    fn admin_addresses_round_trip() {
        for (text, local) in [
            ("127.0.0.1:8081", true),
            ("[::1]:1", true),
            ("0.0.0.0:1", false),
            ("unix:/run/a", true),
        ] {
            let address: AdminAddress = text.parse().unwrap();
            assert_eq!((address.to_string().as_str(), address.is_local()), (text, local));
        }
        for text in ["", "8081", ":8081", "gate.example:1", "localhost:x", "unix:", "unix:run/a"] {
            assert!(text.parse::<AdminAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn errors_of_invalid_listen_addresses_contain_a_correction() {
        assert_eq!(listen_address("localhost:8080"), Ok(([127, 0, 0, 1], 8080).into()));
        for (text, expected) in [
            ("gate.example:8080", "several addresses"),
            (":8080", "such as 127.0.0.1:8080"),
            ("8080", "such as 127.0.0.1:8080"),
            ("127.0.0.1", "such as 127.0.0.1:8080"),
        ] {
            let error = listen_address(text).unwrap_err().to_string();
            assert!(error.contains(text) && error.contains(expected), "{error}");
        }
    }
}
