//! Finds out what operators are to be notified of.
//!
//! Conditions of accounts and keys are those of the database, which is asked every few seconds. Each gateway has its own
//! view of upstreams and of its ledger. The store decides which gateway sends an event, except for those of the
//! ledger: it may be the store that does not answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{Event, WebhookConfig, Webhooks};
use crate::clock::Clock;
use crate::directory::Directory;
use crate::ledger::Ledger;
use crate::upstream::UpstreamClients;
use domain::alert::{AlertId, AlertKind, AlertRules};
use domain::health::{BreakerState, CheckState, Health};
use domain::id::UpstreamName;
use store::{Alerts, StoreError};

/// How often upstreams and the ledger are looked at.
const INTERVAL: Duration = Duration::from_secs(1);
/// The shortest time between two questions to the database.
const MIN_SEARCH_INTERVAL: Duration = Duration::from_secs(3);
/// The multiple of the time of a question that passes until the next one, so that questions take two percent of the time.
const SEARCH_PAUSE_FACTOR: u32 = 50;

/// What is watched.
pub struct WatchParts {
    /// Sends the events.
    pub webhooks: Arc<Webhooks>,
    /// The rules.
    pub config: WebhookConfig,
    /// The recorded conditions.
    pub alerts: Arc<dyn Alerts>,
    /// Whether requests are recorded.
    pub ledger: Arc<Ledger>,
    /// The catalogue.
    pub directory: Arc<Directory>,
    /// The health of upstreams.
    pub upstream_clients: Arc<UpstreamClients>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

/// The background work. Must be run as long as the gateway serves.
pub struct Watch {
    parts: WatchParts,
    /// The recorded views of upstreams; one that is missing was not seen yet.
    upstreams: HashMap<UpstreamName, UpstreamView>,
    is_ledger_stopped: bool,
    /// When the database may be asked again.
    next_search: Instant,
    has_recorded_old: bool,
    is_store_failing: bool,
}

/// Whether an upstream can be used, as this gateway sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UpstreamView {
    Up,
    Down,
}

// === impl Watch ===

impl Watch {
    /// Creates the work.
    pub fn new(parts: WatchParts) -> Self {
        Self {
            parts,
            upstreams: HashMap::new(),
            is_ledger_stopped: false,
            next_search: Instant::now(),
            has_recorded_old: false,
            is_store_failing: false,
        }
    }

    /// Watches until it is dropped.
    pub async fn run(mut self) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.watch_ledger().await;
            let result = self.ask_store().await;
            if let Err(error) = &result
                && !self.is_store_failing
            {
                let error: &dyn std::error::Error = error;
                tracing::warn!(error, "cannot find out what webhooks are due; trying again");
            }
            self.is_store_failing = result.is_err();
        }
    }

    async fn ask_store(&mut self) -> Result<(), StoreError> {
        self.watch_upstreams().await?;
        let started = Instant::now();
        if started < self.next_search {
            return Ok(());
        }
        let result = self.search().await;
        let pause = MIN_SEARCH_INTERVAL.max(started.elapsed() * SEARCH_PAUSE_FACTOR);
        self.next_search = Instant::now() + pause;
        result
    }

    async fn watch_ledger(&mut self) {
        let ledger = self.parts.ledger.clone();
        // It may try to write again, which can block.
        let looking = tokio::task::spawn_blocking(move || ledger.write_failure());
        let Ok(failure) = looking.await else { return };
        let is_stopped = failure.is_some();
        if is_stopped != std::mem::replace(&mut self.is_ledger_stopped, is_stopped) {
            self.parts.webhooks.send(&match failure {
                Some(failure) => Event::LedgerStopped(failure.to_string()),
                None => Event::LedgerResumed,
            });
        }
    }

    async fn watch_upstreams(&mut self) -> Result<(), StoreError> {
        let Self { parts, upstreams, .. } = self;
        let now = parts.clock.monotonic();
        let catalogue = parts.directory.catalogue().clone();
        upstreams.retain(|name, _| catalogue.upstreams.contains_key(name));
        for upstream in catalogue.upstreams.values() {
            let health = parts.upstream_clients.health(upstream, now);
            let Some(view) = health.as_ref().and_then(view_of) else { continue };
            if upstreams.get(&upstream.name) == Some(&view) {
                continue;
            }
            let (name, alert) = (&upstream.name, AlertId::upstream_down(&upstream.name));
            let (is_news, event) = match view {
                UpstreamView::Down => {
                    let raised = parts.alerts.raise_alert(&alert, parts.clock.now()).await?;
                    (raised, Event::UpstreamDown(name.clone()))
                }
                UpstreamView::Up => {
                    (parts.alerts.clear_alert(&alert).await?, Event::UpstreamUp(name.clone()))
                }
            };
            upstreams.insert(name.clone(), view);
            if is_news {
                parts.webhooks.send(&event);
            }
        }
        Ok(())
    }

    async fn search(&mut self) -> Result<(), StoreError> {
        let rules = self.rules();
        let WatchParts { alerts, webhooks, .. } = &self.parts;
        if !self.has_recorded_old {
            alerts.record_old_alerts(rules).await?;
            self.has_recorded_old = true;
        }
        let changes = alerts.find_alert_changes(rules).await?;
        for alert in changes.begun {
            if alerts.raise_alert(&alert.id(), rules.now).await? {
                webhooks.send(&Event::Alert(alert));
            }
        }
        for ended in changes.ended {
            webhooks.withdraw(&ended);
            alerts.clear_alert(&ended).await?;
            if ended.kind == AlertKind::UpstreamDown {
                self.upstreams.remove(&UpstreamName::new(ended.subject));
            }
        }
        Ok(())
    }

    fn rules(&self) -> AlertRules {
        let WatchParts { config, clock, .. } = &self.parts;
        let now = clock.now();
        let within =
            SignedDuration::try_from(config.expiring_within).unwrap_or(SignedDuration::MAX);
        let expiring_until = now.checked_add(within).unwrap_or(jiff::Timestamp::MAX);
        AlertRules { now, balance_below: config.balance_below, expiring_until }
    }
}

/// Returns whether an upstream can be used; `None` if that is not known.
fn view_of(health: &Health) -> Option<UpstreamView> {
    let is_open = matches!(health.breaker, BreakerState::Open { .. });
    if is_open || health.check == Some(CheckState::Failing) {
        return Some(UpstreamView::Down);
    }
    let has_answered =
        health.check == Some(CheckState::Passing) || health.requests > health.failures;
    (health.breaker == BreakerState::Closed && has_answered).then_some(UpstreamView::Up)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_is_up_once_it_has_answered() {
        let open = BreakerState::Open { left: Duration::ZERO };
        let (passing, failing) = (Some(CheckState::Passing), Some(CheckState::Failing));
        for (breaker, check, requests, failures, expected) in [
            (BreakerState::Closed, None, 0, 0, None),
            (BreakerState::Closed, None, 5, 5, None),
            (BreakerState::Closed, None, 5, 4, Some(UpstreamView::Up)),
            (BreakerState::Closed, passing, 0, 0, Some(UpstreamView::Up)),
            (BreakerState::Closed, failing, 5, 0, Some(UpstreamView::Down)),
            (BreakerState::HalfOpen, None, 5, 4, None),
            (BreakerState::HalfOpen, failing, 0, 0, Some(UpstreamView::Down)),
            (open, passing, 5, 4, Some(UpstreamView::Down)),
        ] {
            let health = Health {
                breaker,
                requests,
                failures,
                miscounts: 0,
                latency: None,
                last_error: None,
                check,
                credentials: Vec::new(),
            };
            assert_eq!(view_of(&health), expected, "{health:?}");
        }
    }
}
