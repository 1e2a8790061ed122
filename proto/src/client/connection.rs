//! A connection to an admin plane, and calls that may be made again on it.
//!
//! The gateway makes a change once for each idempotency key and kind of call. So a call that has one, and
//! whose answer was lost, can be sent again: by the connection itself, or by somebody who runs the same
//! command with the same key.

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

const KEY: &str = "idempotency-key";
/// The waits before a call is sent again.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];

/// A connection that carries the caller's token. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Connection {
    channel: Bearing,
    keys: Option<CallKeys>,
    /// The address, if calls go there in clear over a network.
    clear: Option<Arc<str>>,
}

/// Calls were sent in clear to a server that expects TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpeaksTlsError;

/// Names calls: the first one of each kind by a key, the others by that and a number. Clones go on with
/// the same numbers.
#[derive(Clone, Debug)]
pub struct CallKeys {
    key: String,
    /// How many calls of each kind there were.
    calls: Arc<Mutex<HashMap<String, u32>>>,
}

type Bearing = InterceptedService<Channel, Bearer>;
type Failure = Box<dyn Error + Send + Sync>;

// === impl Connection ===

impl Connection {
    pub(super) fn new(channel: Channel, bearer: Bearer, server: &str) -> Self {
        let clear = server.starts_with("http:").then(|| Arc::from(server));
        Self { channel: InterceptedService::new(channel, bearer), keys: None, clear }
    }

    /// Names calls from here on, so that the gateway makes each change once. They are sent again if the
    /// connection breaks, or the gateway says that it is not available.
    #[must_use]
    pub fn naming(self, keys: CallKeys) -> Self {
        Self { keys: Some(keys), ..self }
    }
}

impl Service<Request<Body>> for Connection {
    type Response = <Bearing as Service<Request<Body>>>::Response;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Failure>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.channel.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        // the one that is ready, and a new one for the next call
        let next = self.channel.clone();
        let mut channel = std::mem::replace(&mut self.channel, next);
        let clear = self.clear.clone();
        let Some(keys) = &self.keys else {
            let answer = channel.call(request);
            return Box::pin(async move {
                match answer.await {
                    Ok(answer) => Ok(answer),
                    Err(error) => Err(explain(error, clear.as_deref()).await),
                }
            });
        };
        let key = keys.next(request.uri().path());
        request.headers_mut().insert(KEY, key);
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let again = || {
                let body = Body::new(Full::new(body.clone()));
                Request::from_parts(head.clone(), body)
            };
            let mut answer = channel.call(again()).await;
            for pause in PAUSES {
                if answer.as_ref().is_ok_and(|answer| !is_unavailable(answer)) {
                    break;
                }
                tokio::time::sleep(pause).await;
                answer = match channel.ready().await {
                    Ok(channel) => channel.call(again()).await,
                    Err(error) => Err(error),
                };
            }
            match answer {
                Ok(answer) => Ok(answer),
                Err(error) => Err(explain(error, clear.as_deref()).await),
            }
        })
    }
}

/// Finds out whether a call failed because the server at `clear` expects TLS.
async fn explain(error: impl Into<Failure>, clear: Option<&str>) -> Failure {
    match clear {
        Some(server) if trust::speaks_tls(server).await => Box::new(SpeaksTlsError),
        _ => error.into(),
    }
}

/// Whether this is an answer without a body that says so.
fn is_unavailable<B>(answer: &Response<B>) -> bool {
    let status = answer.headers().get("grpc-status");
    status.is_some_and(|status| Code::from_bytes(status.as_bytes()) == Code::Unavailable)
}

// === impl SpeaksTlsError ===

impl SpeaksTlsError {
    /// Whether this is why a call failed.
    pub fn caused(status: &tonic::Status) -> bool {
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

// === impl CallKeys ===

impl CallKeys {
    /// Names calls by `key`.
    ///
    /// # Errors
    /// It is empty, or has characters that a header cannot carry.
    pub fn new(key: &str) -> anyhow::Result<Self> {
        anyhow::ensure!(!key.is_empty(), "the idempotency key is empty");
        HeaderValue::try_from(key)
            .context("the idempotency key has characters that a header cannot carry")?;
        Ok(Self { key: key.to_owned(), calls: Arc::default() })
    }

    /// The name of the next call of this kind.
    fn next(&self, method: &str) -> HeaderValue {
        let number = {
            let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            let number = calls.entry(method.to_owned()).or_default();
            *number += 1;
            *number
        };
        let name = if number == 1 { self.key.clone() } else { format!("{}-{number}", self.key) };
        HeaderValue::try_from(name).expect("the key was checked")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_a_kind_are_numbered_from_the_second_on() {
        let keys = CallKeys::new("k").expect("a key");
        assert_eq!(
            ["/A", "/A", "/B", "/A"].map(|method| keys.next(method)),
            ["k", "k-2", "k", "k-3"]
        );
        assert_eq!(keys.clone().next("/B"), "k-2");
    }

    #[test]
    fn a_key_is_text_that_a_header_can_carry() {
        for key in ["", "a\nb"] {
            assert!(CallKeys::new(key).is_err(), "{key:?}");
        }
    }
}
