//! Clients of chat upstreams, one pooled client for each catalogue entry.
//!
//! This module sends what it is given and returns the answer; it knows nothing of accounts, limits or
//! translation. Start with [`UpstreamClients::upstream_client`], then [`UpstreamClient::send`].

mod answer_body;
mod answer_head;
mod breaker;
pub mod certificate;
mod check_results;
mod client;
mod connect;
mod credential;
mod credential_search;
mod credential_states;
mod diagnose;
mod driven;
mod early_response;
mod environment_proxies;
mod error;
mod head_limit;
mod health_check;
mod hedge_budget;
mod minutes;
mod outbound;
mod pool;
mod pool_stats;
mod post;
mod probe;
mod proxy;
mod read;
mod redaction;
mod slots;
mod stats;
mod stats_table;
mod target;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use hyper::Uri;
use secrecy::ExposeSecret;
use trust::{Identity, Trust};

use self::proxy::Proxy;
use crate::journal_barrier::JournalBarrier;
use crate::secrets::UpstreamSecrets;
use domain::health::Health;
use domain::id::UpstreamName;
use domain::upstream::{ProxyChoice, Upstream};

pub use answer_body::{AnswerBody, Tap};
pub use client::UpstreamClient;
pub use connect::SimulatorDialer;
pub use credential_states::TriedCredentials;
pub use environment_proxies::{EnvironmentProxies, ProxyVariables};
pub use error::{RETRY_AFTER_HEADERS, TimeoutKind, UpstreamError};
pub use health_check::HealthChecks;
pub use hedge_budget::HedgeBudget;
pub use outbound::SendStatus;
pub use pool_stats::PoolStatus;
pub use post::Post;
pub use probe::DueProbes;
pub use slots::{QueueStatus, SlotsTable};
pub use stats::{AttemptCounts, InFlight, Load};
pub use stats_table::StatsTable;

/// Returns the certificates that are trusted for an upstream.
fn trust(upstream: &Upstream) -> Result<Trust, String> {
    let own = upstream.ca_certificates.as_deref().map(str::as_bytes);
    Trust::of(own).map_err(|error| format!("its certificate authorities: {error}"))
}

/// Returns the certificate with which the gateway identifies itself to an upstream, if it has one.
fn identity(upstream: &Upstream, secrets: &UpstreamSecrets) -> Result<Option<Identity>, String> {
    let Some((certificate, key)) =
        upstream.client_certificate.as_ref().zip(secrets.client_key.as_ref())
    else {
        return Ok(None);
    };
    Identity::new(certificate.chain.as_bytes(), key.expose_secret().as_bytes())
        .map(Some)
        .map_err(|error| format!("its client certificate: {error}"))
}

/// Returns the proxy for the `address` of an upstream; `None` for a direct connection. `environment` has the proxies for
/// entries that make no choice.
fn proxy(
    upstream: &Upstream,
    secrets: &UpstreamSecrets,
    environment: Option<&EnvironmentProxies>,
    address: &Uri,
) -> Result<Option<Proxy>, String> {
    match &upstream.proxy {
        ProxyChoice::Environment => environment.map_or(Ok(None), |proxies| proxies.find(address)),
        ProxyChoice::Direct => Ok(None),
        ProxyChoice::Configured(proxy) => {
            Proxy::new(proxy, secrets.proxy_password.as_ref(), address).map(Some)
        }
    }
}

/// One worker's clients of all upstreams, created on first use. Their connections belong to the worker's
/// runtime; the statistics and the bounds on connections are shared.
pub struct UpstreamClients {
    clients: papaya::HashMap<UpstreamName, Arc<UpstreamClient>, RandomState>,
    stats: Arc<StatsTable>,
    slots: Arc<SlotsTable>,
    simulator: SimulatorDialer,
    proxies: Option<EnvironmentProxies>,
    journal_barrier: JournalBarrier,
}

impl UpstreamClients {
    /// Creates an empty set. `sim:` addresses are dialled through `simulator`. Through `journal_barrier`, each
    /// request flushes the journal before its body is sent. Without TLS, each write flushes it. With TLS, only
    /// the body does, and over HTTP/2 the head of a request may leave before its body.
    /// `proxies` are those of the environment; `None` if it is not asked for any.
    pub fn new(
        simulator: SimulatorDialer,
        proxies: Option<EnvironmentProxies>,
        journal_barrier: JournalBarrier,
        stats: Arc<StatsTable>,
        slots: Arc<SlotsTable>,
    ) -> Self {
        let clients = papaya::HashMap::default();
        Self { clients, stats, slots, simulator, proxies, journal_barrier }
    }

    /// Returns the client of `upstream`. The client and its connections are kept until the catalogue entry
    /// changes; `secrets` is evaluated only when a new client is created.
    ///
    /// # Errors
    /// [`UpstreamError::Misconfigured`] if the credential is not available or the URL is invalid.
    pub fn upstream_client(
        &self,
        upstream: &Arc<Upstream>,
        secrets: impl FnOnce() -> Result<UpstreamSecrets, String>,
    ) -> Result<Arc<UpstreamClient>, UpstreamError> {
        let clients = self.clients.pin();
        if let Some(upstream_client) = clients
            .get(&upstream.name)
            .filter(|upstream_client| upstream_client.is_client_of(upstream, &self.stats))
        {
            return Ok(upstream_client.clone());
        }
        let secrets = secrets().map_err(UpstreamError::Misconfigured)?;
        let (simulator, journal_barrier) = (&self.simulator, &self.journal_barrier);
        let upstream_client = UpstreamClient::new(
            upstream.clone(),
            &secrets,
            simulator,
            self.proxies.as_ref(),
            journal_barrier,
            self.stats.get_or_create(upstream),
            self.slots.find(upstream),
        )?;
        let upstream_client = Arc::new(upstream_client);
        clients.insert(upstream.name.clone(), upstream_client.clone());
        Ok(upstream_client)
    }

    /// Drops the clients of all but `upstreams`, with their credentials and idle connections. Requests that use one
    /// keep it until they end.
    pub fn retain(&self, upstreams: &BTreeMap<UpstreamName, Arc<Upstream>>) {
        self.clients.pin().retain(|name, upstream_client| {
            upstreams.get(name).is_some_and(|upstream| upstream_client.is_of(upstream))
        });
    }

    /// Returns whether a request at `now`, the monotonic time, should go to this upstream before others. Must
    /// be called at most once per request: it may elect the request as the breaker's trial.
    pub fn permits(&self, upstream: &Arc<Upstream>, now: Duration) -> bool {
        self.stats.permits(upstream, now)
    }

    /// Returns the load of an upstream at `now`, the monotonic time.
    pub fn load(&self, upstream: &Arc<Upstream>, now: Duration) -> Load {
        self.stats.read(upstream, |stats| stats.load(now)).unwrap_or_default()
    }

    /// Returns the attempts at an upstream since its entry changed.
    pub fn attempts(&self, upstream: &Arc<Upstream>) -> AttemptCounts {
        self.stats.read(upstream, |stats| stats.attempts()).unwrap_or_default()
    }

    /// Returns the requests that wait for a connection to an upstream with bounded connections.
    pub fn queue(&self, upstream: &Upstream) -> Option<QueueStatus> {
        self.slots.queue(upstream)
    }

    /// Returns the connections to an upstream; `None` if none was needed since its entry changed.
    pub fn pool(&self, upstream: &Arc<Upstream>) -> Option<PoolStatus> {
        self.stats.read(upstream, |stats| stats.pool().status())
    }

    /// Returns for how much longer all credentials of an upstream are paused; `None` if it may get requests.
    pub fn pause_left(&self, upstream: &Arc<Upstream>, now: Duration) -> Option<Duration> {
        self.stats.read(upstream, |stats| stats.credentials().pause_left(now)).flatten()
    }

    /// Ends what keeps requests away from an upstream at `now`, the monotonic time.
    pub fn reset(&self, upstream: &Arc<Upstream>, now: Duration) {
        self.stats.read(upstream, |stats| stats.reset(now));
    }

    /// Returns the health of an upstream; `None` if nothing was sent to it since its entry changed.
    pub fn health(&self, upstream: &Arc<Upstream>, now: Duration) -> Option<Health> {
        self.stats.read(upstream, |stats| stats.health(now))
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use tokio_util::task::TaskTracker;

    use super::*;

    pub(super) fn entry() -> Arc<Upstream> {
        Arc::new(Upstream::new(UpstreamName::new("u"), "sim:", Timestamp::UNIX_EPOCH))
    }

    /// Regression test: a request with an outdated entry left two workers with different statistics.
    #[test]
    fn workers_share_the_statistics_of_an_upstream() {
        let stats = Arc::new(StatsTable::new().0);
        let worker = || {
            let dialer = SimulatorDialer::new(|| Err(std::io::ErrorKind::NotConnected.into()));
            let journal_barrier = JournalBarrier::new(Arc::new(|| Ok(())), TaskTracker::new());
            UpstreamClients::new(dialer, None, journal_barrier, stats.clone(), Arc::default())
        };
        let (one, other) = (worker(), worker());
        let (outdated, current) = (entry(), entry());
        let client = |worker: &UpstreamClients, entry| {
            worker.upstream_client(entry, || Ok(UpstreamSecrets::default())).ok().unwrap()
        };
        client(&one, &current);
        client(&other, &outdated);
        client(&other, &current).set_reports_usage(true);
        assert!(client(&one, &current).reports_usage());
        assert!(one.health(&current, Duration::ZERO).is_some());
    }
}
