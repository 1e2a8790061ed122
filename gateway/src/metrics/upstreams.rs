//! The metrics of upstreams: attempts, health, connections and queues.

use std::sync::Arc;
use std::time::Duration;

use super::encoder::Encoder;
use crate::directory::Directory;
use crate::upstream::UpstreamClients;
use domain::health::{BreakerState, CheckState};
use domain::upstream::Upstream;

/// The number of upstreams with their own series, in the order of their names, which bounds a scrape.
const MAX_UPSTREAMS: usize = 100;

/// Encodes the metrics of the upstreams in the catalogue; `now` is the monotonic time.
pub(super) fn encode(
    encoder: &mut Encoder<'_>,
    directory: &Directory,
    clients: &UpstreamClients,
    now: Duration,
) {
    let catalogue = directory.catalogue().clone();
    let upstreams: Vec<_> = catalogue.upstreams.values().take(MAX_UPSTREAMS).collect();
    encode_attempts(encoder, &upstreams, clients, now);
    encode_health(encoder, &upstreams, clients, now);
    encode_connections(encoder, &upstreams, clients);
}

fn encode_attempts(
    encoder: &mut Encoder<'_>,
    upstreams: &[&Arc<Upstream>],
    clients: &UpstreamClients,
    now: Duration,
) {
    let mut family = encoder.counter(
        "tollgate_upstream_attempts_total",
        "Attempts at an upstream that were answered or failed, since its entry changed.",
    );
    for upstream in upstreams {
        let labels = &[("upstream", upstream.name.as_str())];
        family.sample(labels, clients.attempts(upstream).attempts);
    }
    let mut family = encoder.counter(
        "tollgate_upstream_failures_total",
        "Attempts that failed because of the upstream, also after the answer began.",
    );
    for upstream in upstreams {
        let labels = &[("upstream", upstream.name.as_str())];
        family.sample(labels, clients.attempts(upstream).failures);
    }
    let mut family =
        encoder.gauge("tollgate_upstream_requests_in_flight", "Attempts that have not ended.");
    for upstream in upstreams {
        let labels = &[("upstream", upstream.name.as_str())];
        family.sample(labels, clients.load(upstream, now).in_flight);
    }
}

fn encode_health(
    encoder: &mut Encoder<'_>,
    upstreams: &[&Arc<Upstream>],
    clients: &UpstreamClients,
    now: Duration,
) {
    let healths: Vec<_> = upstreams
        .iter()
        .map(|upstream| (upstream.name.as_str(), clients.health(upstream, now)))
        .collect();
    let mut family = encoder.gauge(
        "tollgate_upstream_breaker_open",
        "Whether the breaker keeps requests from the upstream: 1, or 0.5 for a trial.",
    );
    for (name, health) in &healths {
        let state = health.as_ref().map_or(BreakerState::Closed, |health| health.breaker);
        let open = match state {
            BreakerState::Closed => 0.0,
            BreakerState::HalfOpen => 0.5,
            BreakerState::Open { .. } => 1.0,
        };
        family.sample(&[("upstream", name)], open);
    }
    let mut family =
        encoder.gauge("tollgate_upstream_check_passing", "The result of the health check: 1 or 0.");
    for (name, health) in &healths {
        if let Some(check) = health.as_ref().and_then(|health| health.check) {
            family.sample(&[("upstream", name)], u8::from(check == CheckState::Passing));
        }
    }
}

fn encode_connections(
    encoder: &mut Encoder<'_>,
    upstreams: &[&Arc<Upstream>],
    clients: &UpstreamClients,
) {
    let pools: Vec<_> = upstreams
        .iter()
        .filter_map(|upstream| Some((upstream.name.as_str(), clients.pool(upstream)?)))
        .collect();
    let mut family = encoder
        .gauge("tollgate_upstream_connections", "Open connections; those of HTTP/2 are `in_use`.");
    for (name, pool) in &pools {
        family.sample(&[("upstream", name), ("state", "idle")], pool.idle);
        family.sample(&[("upstream", name), ("state", "in_use")], pool.in_use);
    }
    let mut family = encoder.histogram(
        "tollgate_upstream_connect_duration_seconds",
        "Time to open a connection, with TLS and through a proxy.",
    );
    for (name, pool) in &pools {
        family.buckets(&[("upstream", name)], &pool.connects);
    }
    let queues: Vec<_> = upstreams
        .iter()
        .filter_map(|upstream| Some((upstream.name.as_str(), clients.queue(upstream)?)))
        .collect();
    let mut family = encoder.gauge(
        "tollgate_upstream_waiting_requests",
        "Requests that wait for a connection, if these are bounded.",
    );
    for (name, queue) in &queues {
        family.sample(&[("upstream", name)], queue.waiting);
    }
    let mut family = encoder.histogram(
        "tollgate_upstream_queue_duration_seconds",
        "Time that requests waited for a connection; those that did not wait are not counted.",
    );
    for (name, queue) in &queues {
        family.buckets(&[("upstream", name)], &queue.waits);
    }
}
