//! Explains where requests for a model are sent, and why.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::access::Permission;
use super::{Caller, Control, ControlError};
use crate::route;
use crate::upstream::Load;
use domain::health::{BreakerState, CheckState};
use domain::model::{Deployment, Model, Routing};
use domain::upstream::Upstream;
use domain::wire::conversation::ConversationKey;

/// Where requests for a model are sent.
#[derive(Clone, Debug)]
pub struct RouteExplanation {
    /// The model.
    pub model: Arc<Model>,
    /// The deployments in the order in which they are tried. Within one priority it is the order of their chances
    /// if the routing draws them.
    pub steps: Vec<RouteStep>,
}

/// A deployment in the order in which it is tried.
#[derive(Clone, Debug)]
pub struct RouteStep {
    /// The deployment.
    pub deployment: Deployment,
    /// The load of its upstream.
    pub load: Load,
    /// The share of requests that are tried here first, between 0 and 1; `None` if it depends on the load.
    pub first_share: Option<f64>,
    /// Why it has this place.
    pub reason: RouteReason,
}

/// Why a deployment has its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteReason {
    /// It is the only deployment, which is tried in any case.
    Only,
    /// It is among the available deployments with the lowest priority number.
    First,
    /// It has a greater priority number than an available deployment.
    Spare,
    /// Its circuit breaker is open for this time.
    BreakerOpen(Duration),
    /// Its circuit breaker waits for a probe or a trial to succeed.
    BreakerHalfOpen,
    /// It asked for no requests for this time.
    Paused(Duration),
    /// It fails its health check.
    FailsCheck,
    /// It cannot be used; the text says why.
    Unusable(String),
}

impl RouteReason {
    const fn is_available(&self) -> bool {
        matches!(self, Self::Only | Self::First | Self::Spare)
    }
}

impl fmt::Display for RouteReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Only => f.write_str("the only deployment: tried in any case"),
            Self::First => f.write_str("available, with the lowest priority number"),
            Self::Spare => f.write_str("tried after those with a lower priority number"),
            Self::BreakerOpen(left) => {
                write!(f, "tried last: its breaker is open for {} s", seconds(*left))
            }
            Self::BreakerHalfOpen => {
                f.write_str("tried last: its breaker waits for a probe to succeed")
            }
            Self::Paused(left) => {
                write!(f, "tried last: it asked for no requests for {} s", seconds(*left))
            }
            Self::FailsCheck => f.write_str("tried last: it fails its health check"),
            Self::Unusable(why) => write!(f, "skipped: {why}"),
        }
    }
}

impl Control {
    /// Explains where a request for a model would be sent; for routing by conversation, one with this
    /// `prompt_cache_key`.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members, [`ControlError::NotFound`] without such a model.
    pub fn explain_route(
        &self,
        caller: &Caller,
        id: &str,
        prompt_cache_key: Option<&str>,
    ) -> Result<RouteExplanation, ControlError> {
        caller.require(Permission::ReadAll)?;
        let model = self.get_model(caller, id)?;
        let conversation = prompt_cache_key.map(ConversationKey::of_cache_key);
        let catalogue = self.directory.catalogue();
        let load = |target: &Deployment| {
            let upstream = catalogue.upstreams.get(&target.upstream);
            let load = |upstream| self.upstream_clients.load(upstream, self.clock.monotonic());
            upstream.map(load).unwrap_or_default()
        };
        let is_drawn = model.routing != Routing::PrefixAffinity || conversation.is_none();
        let order = if is_drawn {
            let mut order: Vec<_> = model.deployments.iter().collect();
            order.sort_by_key(|target| (target.priority, Reverse(target.weight)));
            order
        } else {
            route::order(&model, load, || conversation, &*self.entropy)
        };
        let mut steps: Vec<_> = order
            .into_iter()
            .map(|target| {
                let problem = catalogue.upstreams.get(&target.upstream).map_or_else(
                    || Some(RouteReason::Unusable("its upstream was removed".to_owned())),
                    |upstream| self.problem(upstream),
                );
                RouteStep {
                    deployment: target.clone(),
                    load: load(target),
                    first_share: None,
                    reason: problem.unwrap_or(RouteReason::First),
                }
            })
            .collect();
        set_places(&mut steps, &model, is_drawn);
        Ok(RouteExplanation { model, steps })
    }

    /// Returns what keeps requests away from an upstream, if there are other deployments.
    fn problem(&self, upstream: &Arc<Upstream>) -> Option<RouteReason> {
        if let Some(problem) = self.credentials.unusable(upstream) {
            return Some(RouteReason::Unusable(problem));
        }
        let now = self.clock.monotonic();
        if let Some(left) = self.upstream_clients.pause_left(upstream, now) {
            return Some(RouteReason::Paused(left));
        }
        let health = self.upstream_clients.health(upstream, now)?;
        if health.check == Some(CheckState::Failing) {
            return Some(RouteReason::FailsCheck);
        }
        match health.breaker {
            BreakerState::Closed => None,
            BreakerState::Open { left } => Some(RouteReason::BreakerOpen(left)),
            BreakerState::HalfOpen => Some(RouteReason::BreakerHalfOpen),
        }
    }
}

/// Moves unavailable deployments to the end, as the gateway does, and computes the shares.
fn set_places(steps: &mut [RouteStep], model: &Model, is_drawn: bool) {
    if let [only] = steps {
        if !matches!(only.reason, RouteReason::Unusable(_)) {
            (only.reason, only.first_share) = (RouteReason::Only, Some(1.0));
        }
        return;
    }
    steps.sort_by_key(|step| match step.reason {
        RouteReason::Unusable(_) => 2,
        _ if !step.reason.is_available() => 1,
        _ => 0,
    });
    let Some(first) = steps.first().filter(|step| step.reason.is_available()) else { return };
    let priority = first.deployment.priority;
    let is_first =
        |step: &RouteStep| step.reason.is_available() && step.deployment.priority == priority;
    let group = steps.iter().filter(|step| is_first(step));
    let all: f64 = group.map(|step| f64::from(step.deployment.weight)).sum();
    for (index, step) in steps.iter_mut().enumerate() {
        let is_first = is_first(step);
        if step.reason.is_available() && !is_first {
            step.reason = RouteReason::Spare;
        }
        step.first_share = match model.routing {
            _ if !is_first => Some(0.0),
            Routing::PrefixAffinity if !is_drawn => Some(if index == 0 { 1.0 } else { 0.0 }),
            Routing::LeastLoaded => None,
            Routing::Weighted | Routing::PrefixAffinity => {
                Some(f64::from(step.deployment.weight) / all)
            }
        };
    }
}

/// Returns a time in seconds, rounded up.
fn seconds(time: Duration) -> u128 {
    time.as_millis().div_ceil(1_000)
}
