//! Sends the messages of each endpoint one at a time. What fails is sent again later, and does not keep others waiting.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::{Endpoint, Message, Webhooks};

/// The time in which a message is delivered, from when it was queued; then its delivery is abandoned.
const MAX_AGE: Duration = Duration::from_hours(1);
/// How long an attempt may take.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(15);
/// The time until the first repetition; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest time between two attempts.
const MAX_PAUSE: Duration = Duration::from_mins(5);

/// The background work. Must be run until it returns.
pub struct DeliveryTask {
    webhooks: Arc<Webhooks>,
}

// === impl DeliveryTask ===

impl DeliveryTask {
    pub(super) fn new(webhooks: Arc<Webhooks>) -> Self {
        Self { webhooks }
    }

    /// Delivers messages until `stop` is cancelled. Those that wait then are dropped.
    pub async fn run(self, stop: CancellationToken) {
        let all = self.webhooks.endpoints.iter().map(|endpoint| {
            let (webhooks, queue, stop) = (&*self.webhooks, &endpoint.queue, &stop);
            async move {
                while let Some(message) = stop.run_until_cancelled(queue.next()).await {
                    let attempt = webhooks.attempt(endpoint, &message);
                    match stop.run_until_cancelled(attempt).await {
                        Some(Ok(())) => {}
                        Some(Err(failure)) => webhooks.repeat_later(endpoint, message, &failure),
                        None => webhooks.record_dropped(endpoint, &message, "the gateway stops"),
                    }
                }
                while let Some(message) = queue.try_next() {
                    webhooks.record_dropped(endpoint, &message, "the gateway stops");
                }
            }
        });
        join_all(all).await;
    }
}

// === impl Webhooks ===

impl Webhooks {
    /// Lets a message wait for its next attempt, unless it is too old.
    fn repeat_later(&self, endpoint: &Endpoint, mut message: Message, failure: &str) {
        let pause = pause_after(message.failures);
        message.failures += 1;
        if message.queued_at.elapsed() + pause > MAX_AGE {
            return self.record_dropped(endpoint, &message, failure);
        }
        if let Some(message) = endpoint.queue.push_failed(message, Instant::now() + pause) {
            self.record_dropped(endpoint, &message, failure);
        }
    }

    /// Sends a message once.
    ///
    /// # Errors
    /// Why the endpoint did not accept it, for operators.
    pub(super) async fn attempt(
        &self,
        endpoint: &Endpoint,
        message: &Message,
    ) -> Result<(), String> {
        let headers = self.headers(message);
        let sending = endpoint.post.send(headers, message.body.clone());
        let sent = match timeout(ATTEMPT_TIMEOUT, sending).await {
            Ok(Ok(status)) if status.is_success() => Ok(()),
            Ok(Ok(status)) => Err(format!("it answered HTTP {}", status.as_u16())),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(format!("it did not answer in {} s", ATTEMPT_TIMEOUT.as_secs())),
        };
        self.record(endpoint, sent.as_ref().err());
        sent
    }

    fn headers(&self, message: &Message) -> HeaderMap {
        let seconds = self.clock.now().as_second();
        let signature = self.secret.sign(&message.id, seconds, &message.body);
        let signature = HeaderValue::from_str(&signature).expect("base64 is visible ASCII");
        let id = HeaderValue::from_str(&message.id).expect("an id is visible ASCII");
        let agent = concat!("tollgate/", env!("CARGO_PKG_VERSION"));
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        headers.insert("webhook-id", id);
        headers.insert("webhook-timestamp", seconds.into());
        headers.insert("webhook-signature", signature);
        headers
    }

    fn record(&self, endpoint: &Endpoint, failure: Option<&String>) {
        let now = self.clock.now();
        let mut status = endpoint.status();
        let name = &endpoint.name;
        match failure {
            None => {
                self.counts.delivered.fetch_add(1, Ordering::Relaxed);
                status.delivered_at = Some(now);
                if status.failure.take().is_some() {
                    tracing::info!(event = "webhook_recovered", endpoint = %name, "an endpoint accepts webhooks again");
                }
            }
            Some(failure) => {
                self.counts.failed.fetch_add(1, Ordering::Relaxed);
                if status.failure.replace((now, failure.clone())).is_none() {
                    tracing::warn!(event = "webhook_failing", endpoint = %name, failure, "an endpoint does not accept webhooks; they are repeated for an hour");
                }
            }
        }
    }
}

/// Returns the time until the next attempt after one that failed; `failures` failed before.
fn pause_after(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(failures)).min(MAX_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound() {
        let seconds = [0, 1, 2, 3, 8, 9, u32::MAX].map(|failures| pause_after(failures).as_secs());
        assert_eq!(seconds, [1, 2, 4, 8, 256, 300, 300]);
    }
}
