//! Health of the upstreams.

use jiff::Timestamp;

use super::access::Permission;
use super::{Caller, Control, ControlError};
use domain::health::{BreakerState, CredentialHealth, Health};
use domain::id::UpstreamName;
use domain::upstream::CredentialSource;

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
    /// Why it cannot be used; empty if it can.
    pub problem: String,
    /// Its credentials.
    pub credentials: Vec<CredentialView>,
}

/// A credential of an upstream and its health.
#[derive(Clone, Debug)]
pub struct CredentialView {
    /// The source.
    pub source: CredentialSource,
    /// Pause and counters.
    pub health: CredentialHealth,
    /// Until when other credentials are used first; `None` if it is used in turn.
    pub paused_until: Option<Timestamp>,
    /// Why it could not be resolved; `None` if it could.
    pub problem: Option<String>,
}

impl Control {
    /// Lists the health of all upstreams, by name.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members.
    pub fn list_upstream_health(&self, caller: &Caller) -> Result<Vec<HealthView>, ControlError> {
        caller.require(Permission::ReadAll)?;
        let now = self.clock.monotonic();
        let in_flight = self.in_flight_cache.get(&self.ledger, now);
        let catalogue = self.directory.catalogue();
        let views = catalogue.upstreams.values().map(|upstream| {
            let health = self.upstream_clients.health(upstream, now);
            let health = health.unwrap_or_else(|| untried(upstream.credentials.len()));
            let at = |left| self.clock.now().checked_add(left).ok();
            let credentials = upstream.credentials.iter().zip(&health.credentials);
            let problems = self.credentials.problems(upstream);
            let credentials = credentials.zip(problems).map(|((source, health), problem)| {
                let paused_until = health.pause_left.and_then(at);
                CredentialView {
                    source: source.clone(),
                    paused_until,
                    health: health.clone(),
                    problem,
                }
            });
            let retry_at = match health.breaker {
                BreakerState::Open { left } => at(left),
                BreakerState::Closed | BreakerState::HalfOpen => None,
            };
            HealthView {
                name: upstream.name.clone(),
                retry_at,
                in_flight: in_flight.upstreams.get(&upstream.name).copied().unwrap_or_default(),
                problem: self.credentials.unusable(upstream).unwrap_or_default(),
                credentials: credentials.collect(),
                health,
            }
        });
        Ok(views.collect())
    }
}

/// Returns the health of an upstream with this number of credentials and without requests.
fn untried(credentials: usize) -> Health {
    Health {
        breaker: BreakerState::Closed,
        requests: 0,
        failures: 0,
        miscounts: 0,
        latency: None,
        last_error: None,
        check: None,
        credentials: vec![CredentialHealth::default(); credentials],
    }
}
