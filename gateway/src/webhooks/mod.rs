//! Notifies operators of events by signed HTTP requests, off the way of requests.
//!
//! `watch` finds out what has begun or ended, and the store which gateway says so; [`Webhooks::send`] queues a message
//! for each endpoint; `delivery` sends and repeats it. Each queue is bounded and fair to accounts: what does not fit, and
//! what no endpoint takes in an hour, is dropped, counted and logged. A crash loses the messages that wait.

mod delivery;
mod event;
mod queue;
mod signature;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hyper::Uri;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::clock::{Clock, Entropy};
use crate::upstream::{EnvironmentProxies, Post};
use domain::alert::AlertId;
use domain::id::AccountId;
use domain::money::Nanos;
use queue::MessageQueue;

pub use delivery::DeliveryTask;
pub use event::{Event, EventKind, UnknownEventError};
pub use signature::{InvalidSecretError, SigningSecret};
pub use watch::{Watch, WatchParts};

/// The address of an endpoint. Shown without its path, which may contain a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookUrl(pub Uri);

/// An operator's settings.
#[derive(Clone, Debug)]
pub struct WebhookConfig {
    /// Where messages are sent, each to all of them.
    pub urls: Vec<WebhookUrl>,
    /// The secret of the signatures.
    pub secret: SigningSecret,
    /// The events that are sent.
    pub events: BTreeSet<EventKind>,
    /// The bound below which a balance is low.
    pub balance_below: Nanos,
    /// The time before its expiry at which a key expires soon.
    pub expiring_within: Duration,
}

/// Sends events to all endpoints.
pub struct Webhooks {
    endpoints: Vec<Arc<Endpoint>>,
    events: BTreeSet<EventKind>,
    secret: SigningSecret,
    gateway: String,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    counts: Counts,
}

/// One receiver of messages.
struct Endpoint {
    name: String,
    post: Post,
    queue: MessageQueue,
    status: Mutex<EndpointStatus>,
}

/// What is known of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointStatus {
    /// The time of the last delivery.
    pub delivered_at: Option<Timestamp>,
    /// The last failure and its time, if no delivery came after it.
    pub failure: Option<(Timestamp, String)>,
    /// The number of messages that were dropped.
    pub dropped: u64,
}

/// The numbers since the start, over all endpoints.
#[derive(Debug, Default)]
struct Counts {
    delivered: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
}

/// The numbers since the start, over all endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryCounts {
    /// Messages that an endpoint has accepted.
    pub delivered: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Messages whose delivery was abandoned.
    pub dropped: u64,
    /// Messages that wait, except for those that are being sent.
    pub waiting: u64,
}

/// A message in a queue.
#[derive(Clone, Debug)]
struct Message {
    /// The same for all attempts and endpoints.
    id: String,
    kind: EventKind,
    /// The account that it is about; `None` for upstreams and the ledger.
    account: Option<AccountId>,
    subject: Subject,
    body: Bytes,
    queued_at: Instant,
    /// The number of attempts so far, of which each has failed.
    failures: u32,
}

/// What a message is about. Of the messages about one subject, only the newest waits.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    /// A condition of an account, a key or an upstream.
    Alert(AlertId),
    /// Whether this gateway can record requests.
    Ledger,
    /// The webhooks themselves: a test, which is sent without waiting in a queue.
    Test,
}

/// The result of a test of one endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestResult {
    /// The endpoint, without its path.
    pub endpoint: String,
    /// Why it did not accept the message.
    pub failure: Option<String>,
    /// How long that took.
    pub elapsed: Duration,
}

// === impl WebhookUrl ===

impl fmt::Display for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = self.0.authority().map_or("", |authority| authority.as_str());
        write!(f, "{}://{authority}", self.0.scheme_str().unwrap_or_default())
    }
}

impl fmt::Debug for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// === impl Webhooks ===

impl Webhooks {
    /// Creates the endpoints, and the task that sends to them. `gateway` is the name of this gateway in messages.
    ///
    /// # Errors
    /// The URL of an endpoint cannot be used.
    pub fn new(
        config: &WebhookConfig,
        proxies: Option<&EnvironmentProxies>,
        gateway: String,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<(Arc<Self>, DeliveryTask), String> {
        let mut endpoints = Vec::new();
        for url in &config.urls {
            let (post, queue) = (Post::new(&url.0, proxies)?, MessageQueue::new());
            let (name, status) = (url.to_string(), Mutex::default());
            endpoints.push(Arc::new(Endpoint { name, post, queue, status }));
        }
        let webhooks = Arc::new(Self {
            endpoints,
            events: config.events.clone(),
            secret: config.secret.clone(),
            gateway,
            clock,
            entropy,
            counts: Counts::default(),
        });
        Ok((webhooks.clone(), DeliveryTask::new(webhooks)))
    }

    /// Queues an event for all endpoints, if it is one of those that are sent. Never waits: a message that does not fit
    /// into a queue is dropped.
    pub fn send(&self, event: &Event) {
        if !self.events.contains(&event.kind()) {
            return;
        }
        let message = self.message(event);
        for endpoint in &self.endpoints {
            if let Some(dropped) = endpoint.queue.push(message.clone()) {
                self.record_dropped(endpoint, &dropped, "too many messages wait");
            }
        }
    }

    /// Removes the messages that wait about a condition which does not hold any more.
    pub fn withdraw(&self, ended: &AlertId) {
        for endpoint in &self.endpoints {
            endpoint.queue.withdraw(ended);
        }
    }

    /// Sends a test event to each endpoint, once, and waits for the results.
    pub async fn test(&self) -> Vec<TestResult> {
        let message = self.message(&Event::Test);
        let mut results = Vec::new();
        for endpoint in &self.endpoints {
            let started = Instant::now();
            let failure = self.attempt(endpoint, &message).await.err();
            results.push(TestResult {
                endpoint: endpoint.name.clone(),
                failure,
                elapsed: started.elapsed(),
            });
        }
        results
    }

    /// Returns the endpoints, without their paths, and what is known of them.
    pub fn statuses(&self) -> Vec<(String, EndpointStatus)> {
        let status = |endpoint: &Arc<Endpoint>| (endpoint.name.clone(), endpoint.status().clone());
        self.endpoints.iter().map(status).collect()
    }

    /// Returns the numbers since the start.
    pub fn counts(&self) -> DeliveryCounts {
        let waiting = |endpoint: &Arc<Endpoint>| endpoint.queue.waiting();
        DeliveryCounts {
            delivered: self.counts.delivered.load(Ordering::Relaxed),
            failed: self.counts.failed.load(Ordering::Relaxed),
            dropped: self.counts.dropped.load(Ordering::Relaxed),
            waiting: self.endpoints.iter().map(waiting).sum::<usize>() as u64,
        }
    }

    fn message(&self, event: &Event) -> Message {
        let now = self.clock.now();
        Message {
            id: format!("msg_{}", self.entropy.uuid(now).simple()),
            kind: event.kind(),
            account: event.account(),
            subject: event.subject(),
            body: event.to_json(now, &self.gateway).into(),
            queued_at: Instant::now(),
            failures: 0,
        }
    }

    fn record_dropped(&self, endpoint: &Endpoint, message: &Message, reason: &str) {
        self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        endpoint.status().dropped += 1;
        let (endpoint, kind, id) = (&endpoint.name, message.kind, &message.id);
        tracing::warn!(event = "webhook_dropped", %endpoint, %kind, %id, reason, "a webhook was dropped");
    }
}

impl Endpoint {
    fn status(&self) -> std::sync::MutexGuard<'_, EndpointStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
