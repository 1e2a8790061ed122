//! The proxy between the gateway and an upstream, which opens a tunnel: an HTTP proxy with CONNECT, or SOCKS5.

use data_encoding::BASE64;
use hyper::Uri;
use hyper::header::HeaderValue;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::rt::TokioIo;
use secrecy::{ExposeSecret, SecretString};
use tokio::net::TcpStream;
use tower_service::Service;
use zeroize::Zeroizing;

use super::error::BoxError;
use domain::upstream;

/// The most bytes of user, password and host name together. hyper-util writes the three messages of a SOCKS5
/// handshake, which have 13 other bytes, to one buffer of 262 bytes.
const MAX_SOCKS5_BYTES: usize = 249;

/// A proxy with the login that it demands.
#[derive(Clone, Debug)]
pub(super) enum Proxy {
    /// An HTTP proxy, and the value of `Proxy-Authorization`.
    Http(Uri, Option<HeaderValue>),
    /// A SOCKS5 proxy.
    Socks5(Uri, Option<Socks5Login>),
}

/// A user and a password by RFC 1929.
#[derive(Clone, Debug)]
pub(super) struct Socks5Login {
    pub(super) user: String,
    pub(super) password: SecretString,
}

impl Proxy {
    /// Creates the proxy of an upstream at `address`, whose entry names it.
    ///
    /// # Errors
    /// Its URL is neither `http://HOST:PORT` nor `socks5://HOST:PORT`, or the login cannot be sent.
    pub(super) fn new(
        proxy: &upstream::Proxy,
        password: Option<&SecretString>,
        address: &Uri,
    ) -> Result<Self, String> {
        let invalid = || "its proxy is not `http://HOST:PORT` or `socks5://HOST:PORT`".to_owned();
        let uri: Uri = proxy.url.parse().map_err(|_| invalid())?;
        let login = proxy.login.as_ref().zip(password);
        match uri.scheme_str() {
            Some("http") => {
                let value = login.map(|(login, password)| basic_authorization(login, password));
                Ok(Self::Http(uri, value.transpose()?))
            }
            Some("socks5") => {
                let login = login.map(|(login, password)| Socks5Login {
                    user: login.user.clone(),
                    password: password.clone(),
                });
                Self::socks5(uri, login, address)
            }
            _ => Err(invalid()),
        }
    }

    /// Creates a SOCKS5 proxy for an upstream at `address`.
    ///
    /// # Errors
    /// The login is too long.
    pub(super) fn socks5(
        uri: Uri,
        login: Option<Socks5Login>,
        address: &Uri,
    ) -> Result<Self, String> {
        if let Some(Socks5Login { user, password }) = &login {
            let host = address.host().unwrap_or_default();
            if user.len() + password.expose_secret().len() + host.len() > MAX_SOCKS5_BYTES {
                return Err(format!(
                    "the user and the password for its proxy, with the host of its URL, have more than \
                     {MAX_SOCKS5_BYTES} bytes"
                ));
            }
        }
        Ok(Self::Socks5(uri, login))
    }

    /// Connects to the proxy through `tcp`, and opens a tunnel to `address`, which has a port.
    ///
    /// # Errors
    /// The proxy cannot be reached, or opens no tunnel.
    pub(super) async fn connect(
        self,
        tcp: HttpConnector,
        address: Uri,
    ) -> Result<TokioIo<TcpStream>, BoxError> {
        // The connectors are always ready.
        match self {
            Self::Http(proxy, authorization) => {
                let tunnel = Tunnel::new(proxy, tcp);
                let mut tunnel = match authorization {
                    Some(authorization) => tunnel.with_auth(authorization),
                    None => tunnel,
                };
                Ok(tunnel.call(address).await?)
            }
            Self::Socks5(proxy, login) => {
                let socks = SocksV5::new(proxy, tcp);
                let mut socks = match login {
                    Some(Socks5Login { user, password }) => {
                        socks.with_auth(user, password.expose_secret().to_owned())
                    }
                    None => socks,
                };
                Ok(socks.call(address).await?)
            }
        }
    }
}

/// Returns the value of `Proxy-Authorization` in the scheme of RFC 7617.
fn basic_authorization(
    login: &upstream::ProxyLogin,
    password: &SecretString,
) -> Result<HeaderValue, String> {
    let pair = Zeroizing::new(format!("{}:{}", login.user, password.expose_secret()));
    let text = Zeroizing::new(format!("Basic {}", BASE64.encode(pair.as_bytes())));
    let mut value = HeaderValue::from_str(&text)
        .map_err(|_| "the login for its proxy cannot be sent".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}
