//! The way to chat upstreams: one pooled client for each, made from its catalogue entry.
//!
//! Sends what it is given and returns what comes back; knows nothing of accounts, limits or
//! translation. Start with [`UpstreamClients::upstream_client`], then [`UpstreamClient::send`].

mod breaker;
pub mod certificate;
mod client;
mod connect;
mod error;
mod outbound;
mod pool;
mod probe;
mod read;
mod stats;

use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use secrecy::SecretString;
use trust::Trust;

use crate::journal_barrier::JournalBarrier;
use domain::health::Health;
use domain::id::UpstreamName;
use domain::upstream::Upstream;

pub use client::UpstreamClient;
pub use connect::SimulatorDialer;
pub use error::{Phase, UpstreamError};

/// The certificates that are trusted at an upstream.
fn trust(upstream: &Upstream) -> Result<Trust, String> {
    let own = upstream.ca_certificates.as_deref().map(str::as_bytes);
    Trust::of(own).map_err(|error| format!("its certificate authorities: {error}"))
}

/// The clients of all upstreams, each made when it is first needed.
pub struct UpstreamClients {
    clients: papaya::HashMap<UpstreamName, Arc<UpstreamClient>, RandomState>,
    simulator: SimulatorDialer,
    journal_barrier: JournalBarrier,
}

impl UpstreamClients {
    /// Creates an empty set. `sim:` addresses are dialled through `simulator`; every write to an upstream
    /// flushes the journal first, through `journal_barrier`.
    pub fn new(simulator: SimulatorDialer, journal_barrier: JournalBarrier) -> Self {
        Self { clients: papaya::HashMap::default(), simulator, journal_barrier }
    }

    /// Returns the client of `upstream`. A client is kept, with its connections, until the catalogue
    /// entry changes; `credential` is asked only when a new one is made.
    ///
    /// # Errors
    /// [`UpstreamError::Misconfigured`]: the credential cannot be had, or the URL is no URL.
    pub fn upstream_client(
        &self,
        upstream: &Arc<Upstream>,
        credential: impl FnOnce() -> Result<Option<SecretString>, String>,
    ) -> Result<Arc<UpstreamClient>, UpstreamError> {
        let clients = self.clients.pin();
        if let Some(upstream_client) =
            clients.get(&upstream.name).filter(|upstream_client| upstream_client.is_of(upstream))
        {
            return Ok(upstream_client.clone());
        }
        let credential = credential().map_err(UpstreamError::Misconfigured)?;
        let (simulator, journal_barrier) = (&self.simulator, &self.journal_barrier);
        let upstream_client =
            UpstreamClient::new(upstream.clone(), credential.as_ref(), simulator, journal_barrier)?;
        let upstream_client = Arc::new(upstream_client);
        clients.insert(upstream.name.clone(), upstream_client.clone());
        Ok(upstream_client)
    }

    /// Whether a request at `now`, the monotonic time, should go to this upstream before it goes elsewhere.
    /// May be asked once for a request: where an upstream has failed, one is let through to see.
    pub fn permits(&self, upstream: &Arc<Upstream>, now: Duration) -> bool {
        let clients = self.clients.pin();
        let upstream_client =
            clients.get(&upstream.name).filter(|upstream_client| upstream_client.is_of(upstream));
        upstream_client.is_none_or(|upstream_client| upstream_client.permits(now))
    }

    /// Returns how an upstream does; `None` if nothing was sent to it since its entry changed.
    pub fn health(&self, upstream: &Arc<Upstream>, now: Duration) -> Option<Health> {
        let clients = self.clients.pin();
        let upstream_client = clients
            .get(&upstream.name)
            .filter(|upstream_client| upstream_client.is_of(upstream))?;
        Some(upstream_client.health(now))
    }
}
