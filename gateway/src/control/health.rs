//! How the upstreams do.

use jiff::Timestamp;

use super::{Caller, Control, ControlError};
use domain::health::{BreakerState, Health};
use domain::id::UpstreamName;

/// An upstream's health.
#[derive(Clone, Debug)]
pub struct HealthView {
    /// Which upstream.
    pub name: UpstreamName,
    /// How it does.
    pub health: Health,
    /// When a request is sent to it again, while none is.
    pub retry_at: Option<Timestamp>,
    /// Requests under way there.
    pub in_flight: u64,
    /// Why requests cannot be sent to it at all; empty if they can.
    pub problem: String,
}

impl Control {
    /// Lists upstreams by name with how they do.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members.
    pub fn list_upstream_health(&self, caller: &Caller) -> Result<Vec<HealthView>, ControlError> {
        caller.require_operator("see how upstreams do")?;
        let now = self.clock.monotonic();
        let under_way = self.last_count.get(&self.ledger, now);
        let catalogue = self.directory.catalogue();
        let views = catalogue.upstreams.values().map(|upstream| {
            let health = self.upstream_clients.health(upstream, now).unwrap_or(UNTRIED);
            let retry_at = match health.breaker {
                BreakerState::Open { left } => self.clock.now().checked_add(left).ok(),
                BreakerState::Closed | BreakerState::HalfOpen => None,
            };
            HealthView {
                name: upstream.name.clone(),
                retry_at,
                in_flight: under_way.upstreams.get(&upstream.name).copied().unwrap_or_default(),
                problem: self.credentials.problem(&upstream.name),
                health,
            }
        });
        Ok(views.collect())
    }
}

/// The health of an upstream that nothing was sent to.
const UNTRIED: Health = Health {
    breaker: BreakerState::Closed,
    requests: 0,
    failures: 0,
    miscounts: 0,
    latency: None,
    last_error: None,
};
