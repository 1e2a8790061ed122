//! The proxies that the environment names, for upstreams whose entries make no choice.
//!
//! Contains the rules only; `config` reads the variables.

use std::sync::Arc;

use hyper::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use secrecy::{ExposeSecret, SecretString};

use super::connect::with_port;
use super::proxy::{Proxy, Socks5Login};

/// The values of the variables; empty if they are not set. The URLs may contain passwords.
#[derive(Clone, Debug, Default)]
pub struct ProxyVariables {
    /// `HTTP_PROXY`, for upstreams without TLS.
    pub http: SecretString,
    /// `HTTPS_PROXY`, for upstreams with TLS.
    pub https: SecretString,
    /// `ALL_PROXY`, for upstreams for which the other two are not set.
    pub all: SecretString,
    /// `NO_PROXY`, the hosts without a proxy.
    pub no: String,
}

/// Finds the proxy for an address, by the rules that curl has for the same variables.
#[derive(Clone, Debug)]
pub struct EnvironmentProxies(Arc<Matcher>);

impl EnvironmentProxies {
    /// Creates the rules of `variables`.
    ///
    /// # Errors
    /// A URL cannot be used. Without this check, its upstreams would be connected to directly. The text names the
    /// variable and does not quote the URL.
    pub fn new(variables: &ProxyVariables) -> Result<Self, String> {
        let ProxyVariables { http, https, all, no } = variables;
        for (name, url) in [("HTTP_PROXY", http), ("HTTPS_PROXY", https), ("ALL_PROXY", all)] {
            if !url.expose_secret().is_empty() && !is_usable(url) {
                return Err(format!("`{name}` is not `http://HOST:PORT` or `socks5://HOST:PORT`"));
            }
        }
        let matcher = Matcher::builder()
            .http(http.expose_secret())
            .https(https.expose_secret())
            .all(all.expose_secret())
            .no(no.as_str())
            .build();
        Ok(Self(Arc::new(matcher)))
    }

    /// Returns the proxy for the address of an upstream; `None` for a direct connection.
    ///
    /// # Errors
    /// The login cannot be sent.
    pub(super) fn find(&self, address: &Uri) -> Result<Option<Proxy>, String> {
        let Some(found) = self.0.intercept(address) else { return Ok(None) };
        let uri = with_port(found.uri())?;
        if is_http(&uri) {
            return Ok(Some(Proxy::Http(uri, found.basic_auth().cloned())));
        }
        let login = found.raw_auth().map(|(user, password)| Socks5Login {
            user: user.to_owned(),
            password: password.into(),
        });
        Proxy::socks5(uri, login, address).map(Some)
    }
}

/// Returns whether `url` is that of a proxy of a supported kind.
fn is_usable(url: &SecretString) -> bool {
    let matcher = Matcher::builder().all(url.expose_secret()).build();
    let found = matcher.intercept(&Uri::from_static("http://upstream.invalid"));
    found.is_some_and(|found| is_http(found.uri()) || is_socks5(found.uri()))
}

fn is_http(proxy: &Uri) -> bool {
    proxy.scheme_str() == Some("http")
}

/// The proxy resolves the names of upstreams with both schemes.
fn is_socks5(proxy: &Uri) -> bool {
    matches!(proxy.scheme_str(), Some("socks5" | "socks5h"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_variable_wins_and_exceptions_have_no_proxy() {
        let proxies = EnvironmentProxies::new(&ProxyVariables {
            https: "http://user:p%40ss@secure.example:3128".into(),
            all: "socks5h://me:word@any.example".into(),
            no: "internal.example, 10.0.0.0/8".to_owned(),
            ..ProxyVariables::default()
        });
        let proxies = proxies.unwrap();
        let find = |address: &'static str| proxies.find(&Uri::from_static(address)).unwrap();
        let Some(Proxy::Http(uri, Some(authorization))) = find("https://api.example/v1") else {
            panic!("no HTTP proxy")
        };
        assert_eq!(uri.authority().unwrap(), "secure.example:3128");
        assert_eq!(authorization, "Basic dXNlcjpwQHNz");
        let Some(Proxy::Socks5(uri, Some(login))) = find("http://api.example/v1") else {
            panic!("no SOCKS5 proxy")
        };
        assert_eq!(uri.authority().unwrap(), "any.example:1080");
        assert_eq!((login.user.as_str(), login.password.expose_secret()), ("me", "word"));
        for direct in
            ["https://internal.example/v1", "http://a.internal.example", "http://10.1.2.3"]
        {
            assert!(find(direct).is_none(), "{direct}");
        }
        let long = Uri::try_from(format!("http://{}.example", "a".repeat(240))).unwrap();
        assert!(proxies.find(&long).unwrap_err().contains("249"));
    }

    #[test]
    fn a_url_that_cannot_be_used_is_an_error_that_does_not_quote_it() {
        for url in ["https://u:hunter2@p.example", "socks4://p.example", "ftp://p.example", "::"] {
            let variables = ProxyVariables { http: url.into(), ..ProxyVariables::default() };
            let error = EnvironmentProxies::new(&variables).unwrap_err();
            assert!(error.contains("`HTTP_PROXY`") && !error.contains("hunter2"), "{error}");
        }
        let none = EnvironmentProxies::new(&ProxyVariables::default()).unwrap();
        assert!(none.find(&Uri::from_static("https://api.example")).unwrap().is_none());
    }
}
