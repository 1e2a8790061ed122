//! Sends JSON to a server that is not in the catalogue, over a new connection for each request.

use bytes::Bytes;
use futures_util::future::{Either, select};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use trust::Trust;

use super::connect::{Connect, Connected, Protocol, TcpConnector};
use super::environment_proxies::EnvironmentProxies;
use super::target::host;

/// The target of requests.
pub struct Post {
    connector: TcpConnector,
    host: HeaderValue,
    /// Path and query.
    target: Uri,
}

impl Post {
    /// Creates a target with an `http` or `https` URL, whose certificate the host must trust.
    ///
    /// # Errors
    /// The URL cannot be used.
    pub fn new(url: &Uri, proxies: Option<&EnvironmentProxies>) -> Result<Self, String> {
        let proxy = proxies.map_or(Ok(None), |proxies| proxies.find(url))?;
        let connector = if url.scheme_str() == Some("https") {
            TcpConnector::tls(url, proxy, &Trust::of_host(), None, &[Protocol::Http1])?
        } else {
            TcpConnector::plain(url, proxy)?
        };
        let host = host(url).map_err(|error| error.to_string())?;
        let target = url.path_and_query().map_or("/", |target| target.as_str());
        let target = target.parse().map_err(|error| format!("its path: {error}"))?;
        Ok(Self { connector, host, target })
    }

    /// Sends a request, and returns the status of the answer, whose body is not read.
    ///
    /// # Errors
    /// The server cannot be reached, is not trusted or breaks off. The text contains nothing of the request.
    pub async fn send(&self, headers: HeaderMap, body: Bytes) -> Result<StatusCode, String> {
        let failed = |error: &dyn std::error::Error| {
            let mut text = error.to_string();
            let mut cause = error.source();
            while let Some(error) = cause {
                text = format!("{text}: {error}");
                cause = error.source();
            }
            text
        };
        let Connected { stream, .. } =
            self.connector.connect().await.map_err(|error| failed(&*error))?;
        let (mut sender, connection) =
            http1::handshake(stream).await.map_err(|error| failed(&error))?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.target.clone();
        *request.headers_mut() = headers;
        request.headers_mut().insert(HOST, self.host.clone());
        let sending = Box::pin(sender.send_request(request));
        let answer = match select(sending, Box::pin(connection)).await {
            Either::Left((answer, _)) => answer,
            // The connection has ended, and has passed on what it had.
            Either::Right((_, sending)) => sending.await,
        };
        answer.map(|answer| answer.status()).map_err(|error| failed(&error))
    }
}
