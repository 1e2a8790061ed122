//! A client of the gateway's OpenAI-compatible API, for commands that test the settings they print,
//! and for trying a model in `tui`. [`EventStream`] reads streamed responses.

mod events;

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::request::Builder;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use proto::v1::DescribeGatewayRequest;
use proto::v1::account_service_client::AccountServiceClient;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::time::timeout;
use tonic::Code;
use trust::{TlsProblem, Trust};

pub use self::events::EventStream;

use crate::connect;
use crate::error::{Exit, Failure};
use crate::profile::Endpoint;

/// The maximum size of an error response, in bytes.
const MAX_ERROR_BYTES: usize = 1 << 20;
/// The advice for a base URL without an API.
const BASE_URL_ADVICE: &str = "give --base-url http://HOST:PORT/v1 or https://HOST/v1";

/// A client of the API at one address.
#[derive(Debug)]
pub struct Api {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base_url: String,
    /// The timeout for the response head.
    response_timeout: Duration,
}

// === impl Api ===

impl Api {
    /// Creates a client of the API at `base_url`, which trusts the same certificate authorities as
    /// calls to `endpoint`, the admin plane of the same gateway.
    ///
    /// # Errors
    /// The authorities cannot be read.
    pub(crate) fn new(
        base_url: &str,
        endpoint: &Endpoint,
        response_timeout: Duration,
    ) -> Result<Self, Failure> {
        Self::with_authorities(base_url, endpoint.authorities()?.as_deref(), response_timeout)
    }

    /// Creates a client of the API at `base_url` that trusts these certificates in PEM, or the
    /// authorities of the host and the public ones. `response_timeout` is the timeout for the
    /// response head.
    ///
    /// # Errors
    /// There is no certificate in `authorities`.
    pub fn with_authorities(
        base_url: &str,
        authorities: Option<&[u8]>,
        response_timeout: Duration,
    ) -> Result<Self, Failure> {
        let trust = Trust::of(authorities).map_err(|error| Failure::new(Exit::Failed, error))?;
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(trust.client_config())
            .https_or_http()
            .enable_http1()
            .build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { client, base_url: base_url.to_owned(), response_timeout })
    }

    /// Checks that the server has a `/models` endpoint; a refusal for the lack of a key suffices.
    pub(crate) async fn probe(&self) -> Result<(), Failure> {
        let uri = self.uri("models")?;
        let answer = self.send(Request::get(uri), Bytes::new()).await?;
        let status = answer.status();
        if status == StatusCode::NOT_FOUND || status.is_redirection() {
            let message = format!("there is no API at `{}`: it has no `/models`", self.base_url);
            return Err(Failure::usage(message).advise(BASE_URL_ADVICE));
        }
        Ok(())
    }

    /// Sends a request with `key` and returns the response, whatever its status.
    ///
    /// # Errors
    /// The URL or the key is invalid, or there is no response in time.
    pub async fn post(
        &self,
        path: &str,
        key: &SecretString,
        body: &Value,
    ) -> Result<Response<Incoming>, Failure> {
        let mut authorization =
            HeaderValue::from_str(&format!("Bearer {}", key.expose_secret()))
                .map_err(|_| Failure::usage("the key contains invalid characters"))?;
        authorization.set_sensitive(true);
        let request = Request::post(self.uri(path)?)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream")
            .header(AUTHORIZATION, authorization);
        self.send(request, Bytes::from(body.to_string())).await
    }

    async fn send(&self, request: Builder, body: Bytes) -> Result<Response<Incoming>, Failure> {
        let failed = |reason| Failure::new(Exit::Failed, reason);
        let request = request.body(Full::new(body)).map_err(|error| failed(error.to_string()))?;
        let answer = timeout(self.response_timeout, self.client.request(request)).await;
        let seconds = self.response_timeout.as_secs();
        match answer {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(self.connection_failure(&error).await),
            Err(_) => Err(failed(format!("no response within {seconds} s"))),
        }
    }

    fn uri(&self, path: &str) -> Result<Uri, Failure> {
        let uri = format!("{}/{path}", self.base_url);
        uri.parse().map_err(|_| Failure::usage(format!("`{uri}` is not a URL")))
    }

    async fn connection_failure(&self, error: &hyper_util::client::legacy::Error) -> Failure {
        if let Some(problem) = TlsProblem::find(error) {
            return Failure::tls(&format!("the API at `{}`", self.base_url), &problem);
        }
        if self.base_url.starts_with("http:") && trust::speaks_tls(&self.base_url).await {
            let message = format!("the API at `{}` speaks TLS", self.base_url);
            return Failure::new(Exit::Unavailable, message)
                .advise("give --base-url https://HOST:PORT/v1");
        }
        let mut cause: &dyn std::error::Error = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        let message = format!("no API answers at `{}`: {cause}", self.base_url);
        Failure::new(Exit::Unavailable, message)
            .advise("start one with `gateway`, or give the address of its API with --base-url URL")
    }
}

/// Returns a successful response; converts any other to a failure with its error message.
pub(crate) async fn ensure_success(
    answer: Response<Incoming>,
) -> Result<Response<Incoming>, Failure> {
    if answer.status().is_success() {
        return Ok(answer);
    }
    let status = answer.status().as_u16();
    let body = Limited::new(answer.into_body(), MAX_ERROR_BYTES).collect().await;
    let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let error: Value = serde_json::from_slice(&body).unwrap_or_default();
    let reason = match (error["error"]["message"].as_str(), error["error"]["code"].as_str()) {
        (Some(message), Some(code)) => format!("{message} ({code})"),
        (Some(message), None) => message.to_owned(),
        (None, _) => excerpt(&String::from_utf8_lossy(&body)),
    };
    Err(Failure::new(Exit::Failed, format!("HTTP {status}: {reason}")))
}

/// The base URL of the API.
pub(crate) struct BaseUrl {
    pub(crate) url: String,
    /// Whether neither the user nor the gateway specified the URL.
    pub(crate) is_guess: bool,
}

/// Returns the base URL of the API of the gateway at `endpoint`: the given one, else the one that
/// the gateway announces, else the default.
///
/// # Errors
/// The given URL is invalid, or the gateway cannot be reached.
pub(crate) async fn base_url(given: Option<&str>, endpoint: &Endpoint) -> Result<BaseUrl, Failure> {
    if let Some(url) = given {
        let parsed = url.parse::<Uri>().ok();
        let scheme = parsed.as_ref().and_then(Uri::scheme_str);
        if !matches!(scheme, Some("http" | "https")) {
            let message = format!("`{url}` is not a base URL");
            return Err(Failure::usage(message).advise(BASE_URL_ADVICE));
        }
        let url = url.trim_end_matches('/').to_owned();
        return Ok(BaseUrl { url, is_guess: false });
    }
    let mut client = AccountServiceClient::new(connect(&endpoint.without_token()).await?);
    match client.describe_gateway(DescribeGatewayRequest {}).await {
        Ok(answer) => {
            let url = proto::client::api_url(&endpoint.server, answer.get_ref());
            Ok(BaseUrl { url, is_guess: false })
        }
        // A gateway of an earlier version does not have the call.
        Err(status) if status.code() == Code::Unimplemented && status.message().is_empty() => {
            let url = proto::client::guessed_api_url(&endpoint.server);
            Ok(BaseUrl { url, is_guess: true })
        }
        Err(status) => Err(status.into()),
    }
}

/// Returns the beginning of a text, in quotes.
pub(crate) fn excerpt(text: &str) -> String {
    const MAX_CHARS: usize = 160;
    let more = if text.chars().count() > MAX_CHARS { "…" } else { "" };
    format!("{:?}{more}", text.chars().take(MAX_CHARS).collect::<String>())
}
