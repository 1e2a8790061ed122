//! Health of the upstreams.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::access::Permission;
use super::change::ReplayExt;
use super::traffic::InFlight;
use super::{Caller, Control, ControlError};
use domain::audit::AuditAction;
use domain::health::{BreakerState, CheckState, CredentialHealth, Health};
use domain::id::UpstreamName;
use domain::upstream::{CredentialSource, Upstream};

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
        let catalogue = self.directory.catalogue();
        let now = self.clock.monotonic();
        let in_flight = self.in_flight_cache.get(&self.ledger, now);
        let view = |upstream| self.health_view(upstream, now, &in_flight);
        Ok(catalogue.upstreams.values().map(view).collect())
    }

    /// Ends what keeps requests away from an upstream on this gateway: an open breaker, pauses of credentials, failed health
    /// checks.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members, [`ControlError::NotFound`] if it does not exist.
    pub async fn reset_upstream(
        self: &Arc<Self>,
        caller: &Caller,
        name: String,
    ) -> Result<(), ControlError> {
        caller.require(Permission::ChangeCatalogue)?;
        self.write(Some(caller), move |control| async move {
            let upstream = control.find_upstream(&name)?;
            let now = control.clock.monotonic();
            let is_paused = control.upstream_clients.pause_left(&upstream, now).is_some();
            let in_flight = control.in_flight_cache.get(&control.ledger, now);
            let view = control.health_view(&upstream, now, &in_flight);
            let details = describe_reset(&view, is_paused);
            let entry = control.audit_entry(AuditAction::UpstreamReset, name, None, details);
            control.store.add_audit(&entry).await?;
            control.upstream_clients.reset(&upstream, now);
            Ok(())
        })
        .await
        .or_replay(|_| Ok(()))
    }

    fn health_view(
        &self,
        upstream: &Arc<Upstream>,
        now: Duration,
        in_flight: &InFlight,
    ) -> HealthView {
        let health = self.upstream_clients.health(upstream, now);
        let health = health.unwrap_or_else(|| untried(upstream.credentials.len()));
        let at = |left| self.clock.now().checked_add(left).ok();
        let credentials = upstream.credentials.iter().zip(&health.credentials);
        let problems = self.credentials.problems(upstream);
        let credentials = credentials.zip(problems).map(|((source, health), problem)| {
            let paused_until = health.pause_left.and_then(at);
            CredentialView { source: source.clone(), paused_until, health: health.clone(), problem }
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
    }
}

/// Returns what the audit log keeps of a reset: what kept requests away. An upstream without credentials can be paused, too.
fn describe_reset(HealthView { health, credentials, .. }: &HealthView, is_paused: bool) -> String {
    let breaker = match health.breaker {
        BreakerState::Closed => None,
        BreakerState::Open { .. } => Some("breaker open".to_owned()),
        BreakerState::HalfOpen => Some("breaker half open".to_owned()),
    };
    let paused = credentials.iter().filter(|it| it.paused_until.is_some()).count();
    let paused = match (paused, is_paused) {
        (0, false) => None,
        (0, true) => Some("paused".to_owned()),
        (paused, _) => Some(format!("{paused} of {} credentials paused", credentials.len())),
    };
    let check = health.check == Some(CheckState::Failing);
    let check = check.then(|| "health check failing".to_owned());
    let parts: Vec<_> = [breaker, paused, check].into_iter().flatten().collect();
    if parts.is_empty() { "nothing kept requests away".to_owned() } else { parts.join(", ") }
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
