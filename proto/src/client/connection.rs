//! A connection to an admin plane, with idempotency keys and retries.
//!
//! The gateway applies a change once per idempotency key and method. A call with a key whose response was lost can
//! therefore be retried: by the connection, or by running the same command again with the same key.

use std::collections::HashMap;
use std::error::Error;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::Context as _;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use tonic::Code;
use tonic::body::Body;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tower::{Service, ServiceExt};

use super::Bearer;

const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The delays before each retry.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];

/// A connection that sends the caller's token. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Connection {
    channel: AuthorizedChannel,
    keys: Option<IdempotencyKeys>,
    /// The server's address if calls are sent in plaintext over TCP.
    plaintext_server: Option<Arc<str>>,
}

/// Calls were sent in plaintext to a server that expects TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpeaksTlsError;

/// Generates idempotency keys: the first call of each method gets the base key, later ones get a numbered suffix.
/// Clones share the numbering.
#[derive(Clone, Debug)]
pub struct IdempotencyKeys {
    base: String,
    /// The number of calls by method.
    calls: Arc<Mutex<HashMap<String, u32>>>,
}

type AuthorizedChannel = InterceptedService<Channel, Bearer>;
type BoxError = Box<dyn Error + Send + Sync>;

// === impl Connection ===

impl Connection {
    pub(super) fn new(channel: Channel, bearer: Bearer, server: &str) -> Self {
        let plaintext_server = server.starts_with("http:").then(|| Arc::from(server));
        Self { channel: InterceptedService::new(channel, bearer), keys: None, plaintext_server }
    }

    /// Sends an idempotency key with each call from now on, so that the gateway applies each change once. Retries
    /// calls if the connection breaks or the gateway answers UNAVAILABLE.
    #[must_use]
    pub fn with_idempotency_keys(self, keys: IdempotencyKeys) -> Self {
        Self { keys: Some(keys), ..self }
    }
}

impl Service<Request<Body>> for Connection {
    type Response = <AuthorizedChannel as Service<Request<Body>>>::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.channel.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        // Only the channel that was polled is ready. The clone serves the next call.
        let next = self.channel.clone();
        let mut channel = std::mem::replace(&mut self.channel, next);
        let plaintext_server = self.plaintext_server.clone();
        let Some(keys) = &self.keys else {
            let response = channel.call(request);
            return Box::pin(async move {
                match response.await {
                    Ok(response) => Ok(response),
                    Err(error) => Err(explain(error, plaintext_server.as_deref()).await),
                }
            });
        };
        let key = keys.next(request.uri().path());
        request.headers_mut().insert(IDEMPOTENCY_KEY, key);
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let attempt = || {
                let body = Body::new(Full::new(body.clone()));
                Request::from_parts(head.clone(), body)
            };
            let mut response = channel.call(attempt()).await;
            for delay in RETRY_DELAYS {
                if response.as_ref().is_ok_and(|response| !is_unavailable(response)) {
                    break;
                }
                tokio::time::sleep(delay).await;
                response = match channel.ready().await {
                    Ok(channel) => channel.call(attempt()).await,
                    Err(error) => Err(error),
                };
            }
            match response {
                Ok(response) => Ok(response),
                Err(error) => Err(explain(error, plaintext_server.as_deref()).await),
            }
        })
    }
}

/// Returns [`SpeaksTlsError`] if a call failed because the server expects TLS, otherwise `error`.
async fn explain(error: impl Into<BoxError>, plaintext_server: Option<&str>) -> BoxError {
    match plaintext_server {
        Some(server) if trust::speaks_tls(server).await => Box::new(SpeaksTlsError),
        _ => error.into(),
    }
}

/// Returns whether `response` is a trailers-only response with the status UNAVAILABLE.
fn is_unavailable<B>(response: &Response<B>) -> bool {
    let status = response.headers().get("grpc-status");
    status.is_some_and(|status| Code::from_bytes(status.as_bytes()) == Code::Unavailable)
}

// === impl SpeaksTlsError ===

impl SpeaksTlsError {
    /// Returns whether this error is among the sources of `status`.
    pub fn is_cause_of(status: &tonic::Status) -> bool {
        let mut cause = status.source();
        while let Some(error) = cause {
            if error.is::<Self>() {
                return true;
            }
            cause = error.source();
        }
        false
    }
}

impl std::fmt::Display for SpeaksTlsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the server speaks TLS: use https:// in its address")
    }
}

impl Error for SpeaksTlsError {}

// === impl IdempotencyKeys ===

impl IdempotencyKeys {
    /// Generates keys from the base key `base`.
    ///
    /// # Errors
    /// `base` is empty or not a valid header value.
    pub fn new(base: &str) -> anyhow::Result<Self> {
        anyhow::ensure!(!base.is_empty(), "the idempotency key is empty");
        HeaderValue::try_from(base)
            .context("the idempotency key has characters that a header cannot carry")?;
        Ok(Self { base: base.to_owned(), calls: Arc::default() })
    }

    /// Returns the key of the next call of `method`.
    fn next(&self, method: &str) -> HeaderValue {
        let number = {
            let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            let number = calls.entry(method.to_owned()).or_default();
            *number += 1;
            *number
        };
        let key = if number == 1 { self.base.clone() } else { format!("{}-{number}", self.base) };
        HeaderValue::try_from(key).expect("the base key was checked")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_the_calls_of_a_method_from_the_second_on() {
        let keys = IdempotencyKeys::new("k").expect("a key");
        assert_eq!(
            ["/A", "/A", "/B", "/A"].map(|method| keys.next(method)),
            ["k", "k-2", "k", "k-3"]
        );
        assert_eq!(keys.clone().next("/B"), "k-2");
    }

    #[test]
    fn refuses_keys_that_are_empty_or_invalid_header_values() {
        for key in ["", "a\nb"] {
            assert!(IdempotencyKeys::new(key).is_err(), "{key:?}");
        }
    }
}
