//! Health of the upstreams.

use jiff::Timestamp;

use super::{Caller, Control, ControlError};
use domain::health::{BreakerState, Health};
use domain::id::UpstreamName;

/// An upstream's health.
#[derive(Clone, Debug)]
pub struct HealthView {
    /// The upstream.
    pub name: UpstreamName,
    /// Breaker state and counters.
    pub health: Health,
    /// When an open breaker admits the next request; `None` unless it is open.
    pub retry_at: Option<Timestamp>,
    /// Requests in flight to it.
    pub in_flight: u64,
    /// Why its credential cannot be used; empty if it can.
    pub problem: String,
}

impl Control {
    /// Lists the health of all upstreams, by name.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members.
    pub fn list_upstream_health(&self, caller: &Caller) -> Result<Vec<HealthView>, ControlError> {
        caller.require_operator("see the health of upstreams")?;
        let now = self.clock.monotonic();
        let in_flight = self.in_flight_cache.get(&self.ledger, now);
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
                in_flight: in_flight.upstreams.get(&upstream.name).copied().unwrap_or_default(),
                problem: self.credentials.problem(upstream),
                health,
            }
        });
        Ok(views.collect())
    }
}

/// The health of an upstream without requests.
const UNTRIED: Health = Health {
    breaker: BreakerState::Closed,
    requests: 0,
    failures: 0,
    miscounts: 0,
    latency: None,
    last_error: None,
};
