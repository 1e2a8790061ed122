//! The way to chat upstreams: one pooled client for each, made from its catalogue entry.
//!
//! Sends what it is given and returns what comes back; knows nothing of accounts, limits or
//! translation. Start with [`Fleet::remote`], then [`Remote::send`].

mod breaker;
pub mod certificate;
mod connect;
mod error;
mod outbound;
mod pool;
mod probe;
mod read;
mod remote;
mod vitals;

use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use secrecy::SecretString;
use trust::Trust;

use crate::outbox::Outbox;
use domain::health::Health;
use domain::id::UpstreamName;
use domain::upstream::Upstream;

pub use connect::SimulatorDialer;
pub use error::{Phase, UpstreamError};
pub use remote::Remote;

/// The certificates that are trusted at an upstream.
fn trust(upstream: &Upstream) -> Result<Trust, String> {
    let own = upstream.ca_certificates.as_deref().map(str::as_bytes);
    Trust::of(own).map_err(|error| format!("its certificate authorities: {error}"))
}

/// The clients of all upstreams, each made when it is first needed.
pub struct Fleet {
    remotes: papaya::HashMap<UpstreamName, Arc<Remote>, RandomState>,
    simulator: SimulatorDialer,
    outbox: Outbox,
}

impl Fleet {
    /// A fleet that reaches `sim:` through `simulator`, and lets nobody's words leave before `outbox`'s
    /// departure allows it.
    pub fn new(simulator: SimulatorDialer, outbox: Outbox) -> Self {
        Self { remotes: papaya::HashMap::default(), simulator, outbox }
    }

    /// Returns the client of `upstream`. A client is kept, with its connections, until the catalogue
    /// entry changes; `credential` is asked only when a new one is made.
    ///
    /// # Errors
    /// [`UpstreamError::Misconfigured`]: the credential cannot be had, or the URL is no URL.
    pub fn remote(
        &self,
        upstream: &Arc<Upstream>,
        credential: impl FnOnce() -> Result<Option<SecretString>, String>,
    ) -> Result<Arc<Remote>, UpstreamError> {
        let remotes = self.remotes.pin();
        if let Some(remote) = remotes.get(&upstream.name).filter(|remote| remote.is_of(upstream)) {
            return Ok(remote.clone());
        }
        let credential = credential().map_err(UpstreamError::Misconfigured)?;
        let (simulator, outbox) = (&self.simulator, &self.outbox);
        let remote = Remote::new(upstream.clone(), credential.as_ref(), simulator, outbox)?;
        let remote = Arc::new(remote);
        remotes.insert(upstream.name.clone(), remote.clone());
        Ok(remote)
    }

    /// Whether a request at `now`, the monotonic time, should go to this upstream before it goes elsewhere.
    /// May be asked once for a request: where an upstream has failed, one is let through to see.
    pub fn permits(&self, upstream: &Arc<Upstream>, now: Duration) -> bool {
        let remotes = self.remotes.pin();
        let remote = remotes.get(&upstream.name).filter(|remote| remote.is_of(upstream));
        remote.is_none_or(|remote| remote.permits(now))
    }

    /// Returns how an upstream does; `None` if nothing was sent to it since its entry changed.
    pub fn health(&self, upstream: &Arc<Upstream>, now: Duration) -> Option<Health> {
        let remotes = self.remotes.pin();
        let remote = remotes.get(&upstream.name).filter(|remote| remote.is_of(upstream))?;
        Some(remote.health(now))
    }
}
