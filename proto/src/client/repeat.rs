//! Calls that may be made again: their idempotency keys, and the repetition when a connection breaks.
//!
//! The gateway makes a change once for each key and kind of call. So a call whose answer was lost can be
//! sent again, by [`Repeating`] or by somebody who runs the same command with the same key.

use std::collections::HashMap;
use std::error::Error;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::Context as _;
use http_body_util::{BodyExt, Full};
use tonic::body::Body;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Code, GrpcMethod, Request};
use tower::{Service, ServiceExt};

const KEY: &str = "idempotency-key";
/// The waits before a call is sent again.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];

/// Names calls: the first one of each kind by a key, the others by that and a number. Clones go on with
/// the same numbers.
#[derive(Clone, Debug)]
pub struct CallKeys {
    key: String,
    /// How many calls of each kind there were.
    calls: Arc<Mutex<HashMap<String, u32>>>,
}

/// A channel that sends a call again if its connection breaks or the gateway says that it is not
/// available, provided that the call has an idempotency key.
#[derive(Clone, Debug)]
pub struct Repeating(Channel);

// === impl CallKeys ===

impl CallKeys {
    /// Names calls by `key`.
    ///
    /// # Errors
    /// It is empty, or has characters that a header cannot carry.
    pub fn new(key: &str) -> anyhow::Result<Self> {
        anyhow::ensure!(!key.is_empty(), "the idempotency key is empty");
        MetadataValue::<Ascii>::try_from(key)
            .context("the idempotency key has characters that a header cannot carry")?;
        Ok(Self { key: key.to_owned(), calls: Arc::default() })
    }

    /// Names a call, unless it has a name already.
    pub(super) fn name(&self, request: &mut Request<()>) {
        let method = request.extensions().get::<GrpcMethod<'_>>();
        let method = method.map(|method| format!("{}/{}", method.service(), method.method()));
        let number = {
            let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            let number = calls.entry(method.unwrap_or_default()).or_default();
            *number += 1;
            *number
        };
        let key = if number == 1 { self.key.clone() } else { format!("{}-{number}", self.key) };
        if let Ok(key) = MetadataValue::try_from(key) {
            request.metadata_mut().insert(KEY, key);
        }
    }
}

// === impl Repeating ===

impl Repeating {
    pub(super) fn new(channel: Channel) -> Self {
        Self(channel)
    }
}

type Failure = Box<dyn Error + Send + Sync>;

impl Service<http::Request<Body>> for Repeating {
    type Response = http::Response<Body>;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Failure>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        // the one that is ready, and a new one for the next call
        let next = self.0.clone();
        let mut channel = std::mem::replace(&mut self.0, next);
        Box::pin(async move {
            if !request.headers().contains_key(KEY) {
                return Ok(channel.call(request).await?);
            }
            let (head, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let again = || {
                let body = Body::new(Full::new(body.clone()));
                http::Request::from_parts(head.clone(), body)
            };
            let mut outcome = channel.call(again()).await;
            for pause in PAUSES {
                if outcome.as_ref().is_ok_and(|response| !is_unavailable(response)) {
                    break;
                }
                tokio::time::sleep(pause).await;
                outcome = match channel.ready().await {
                    Ok(channel) => channel.call(again()).await,
                    Err(error) => Err(error),
                };
            }
            Ok(outcome?)
        })
    }
}

/// Whether this is an answer without a body that says so.
fn is_unavailable(response: &http::Response<Body>) -> bool {
    let status = response.headers().get("grpc-status");
    status.is_some_and(|status| Code::from_bytes(status.as_bytes()) == Code::Unavailable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(keys: &CallKeys, method: &'static str) -> String {
        let mut request = Request::new(());
        request.extensions_mut().insert(GrpcMethod::new("Service", method));
        keys.name(&mut request);
        request.metadata().get(KEY).expect("a key").to_str().expect("text").to_owned()
    }

    #[test]
    fn calls_of_a_kind_are_numbered_from_the_second_on() {
        let keys = CallKeys::new("k").expect("a key");
        assert_eq!(
            ["A", "A", "B", "A"].map(|method| name(&keys, method)),
            ["k", "k-2", "k", "k-3"]
        );
        let other = keys.clone();
        assert_eq!(name(&other, "B"), "k-2");
    }

    #[test]
    fn a_key_is_text_that_a_header_can_carry() {
        for key in ["", "a\nb"] {
            assert!(CallKeys::new(key).is_err(), "{key:?}");
        }
    }
}
