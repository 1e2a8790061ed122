//! The traffic of the other gateways, which a watcher reads from their reports.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use jiff::Timestamp;
use tokio::time::{Instant, timeout};

use super::figures::Figures;
use domain::id::AccountId;
use domain::traffic::{MinuteFigures, NodeProcess, ReportedMinute};
use store::TrafficReports;

/// The age of the oldest minute that is read.
const HISTORY: Duration = Duration::from_hours(1);
/// The minimum time between two readings.
const INTERVAL: Duration = Duration::from_millis(900);
/// How much of what was read before is read again: a transaction is visible some time after its start.
const OVERLAP: Duration = Duration::from_secs(10);
/// The longest wait for a reading. A watcher then gets what was read before.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// The traffic of the other gateways, as one watcher has read it.
pub(super) struct OtherTraffic {
    reports: Arc<dyn TrafficReports>,
    /// The account that is watched; `None` for all.
    scope: Option<AccountId>,
    minutes: HashMap<(NodeProcess, Timestamp), MinuteFigures, RandomState>,
    serving: HashSet<NodeProcess, RandomState>,
    /// The time of the last reading.
    read_at: Option<Instant>,
}

impl OtherTraffic {
    /// Creates the traffic of `scope`, of which nothing was read.
    pub(super) fn new(reports: Arc<dyn TrafficReports>, scope: Option<AccountId>) -> Self {
        Self {
            reports,
            scope,
            minutes: HashMap::default(),
            serving: HashSet::default(),
            read_at: None,
        }
    }

    /// Reads what has changed, unless that was done just before.
    pub(super) async fn refresh(&mut self, now: Timestamp) {
        let started = Instant::now();
        let since = match self.read_at.map(|at| started.saturating_duration_since(at)) {
            Some(elapsed) if elapsed < INTERVAL => return,
            Some(elapsed) => elapsed + OVERLAP,
            None => HISTORY,
        };
        let reading = self.reports.reported_traffic(self.scope, since.min(HISTORY));
        let Ok(found) = timeout(MAX_WAIT, reading).await else { return };
        match found {
            Ok(found) => {
                self.read_at = Some(started);
                self.serving = found.serving.into_iter().collect();
                for ReportedMinute { process, started_at, figures } in found.minutes {
                    self.minutes.insert((process, started_at), figures);
                }
                self.minutes.retain(|(_, started_at), _| age(*started_at, now) < HISTORY);
            }
            // Heartbeats report an unreachable database.
            Err(error) => tracing::debug!(%error, "cannot read the traffic of other gateways"),
        }
    }

    /// Adds the traffic to that of this gateway. Returns the number of requests in flight.
    pub(super) fn add_to(&self, figures: &mut Figures, now: Timestamp) -> u64 {
        let mut newest =
            HashMap::<NodeProcess, (Timestamp, &MinuteFigures), RandomState>::default();
        for ((process, started_at), minute) in &self.minutes {
            figures.add_minute(minute, age(*started_at, now));
            let last = newest.entry(*process).or_insert((*started_at, minute));
            if *started_at > last.0 {
                *last = (*started_at, minute);
            }
        }
        newest.retain(|process, _| self.serving.contains(process));
        for (_, minute) in newest.values() {
            figures.recent.add(minute.recent);
        }
        newest.values().map(|(_, minute)| minute.in_flight).sum()
    }
}

/// Returns the time since `started_at`; zero if the clocks differ.
fn age(started_at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(started_at)).unwrap_or_default()
}
