//! Reports the traffic of this gateway to the others that share its database.
//!
//! A report has all that was counted in a minute so far, and replaces the one before: if some are lost, the next
//! one has everything.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::time_series::HISTORY_MINUTES;
use super::{InFlight, Traffic};
use crate::control::Control;
use domain::traffic::{MinuteFigures, MinuteReport};

/// The time between two reports.
const INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of accounts in a report: those with the latest requests. The total has all.
const MAX_ACCOUNTS: usize = 1_000;

/// What this process has reported.
struct Reporter {
    /// The time at which the monotonic clock began. It does not change while the process runs: the start of a minute
    /// identifies it.
    origin: Timestamp,
    /// The newest minute that was stored.
    minute: u64,
    /// Whether the last report was empty.
    is_idle: bool,
}

impl Control {
    /// Reports the traffic of this gateway until `stop`, if others share the database.
    pub async fn report_traffic_until(self: Arc<Self>, stop: CancellationToken) {
        let Some(reports) = &self.traffic_reports else { return };
        let mut reporter = Reporter::new(self.clock.now(), self.clock.monotonic());
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            let now = self.clock.monotonic();
            let in_flight = self.in_flight_cache.get(&self.ledger, now);
            let Some(minutes) = reporter.next(&self.traffic, &in_flight, now) else { continue };
            match reports.report_traffic(&minutes).await {
                Ok(()) => reporter.stored(&minutes, now),
                Err(error) => tracing::debug!(%error, "cannot report the traffic"),
            }
        }
    }
}

// === impl Reporter ===

impl Reporter {
    fn new(wall: Timestamp, now: Duration) -> Self {
        let elapsed = SignedDuration::try_from(now).unwrap_or(SignedDuration::MAX);
        let origin = wall.checked_sub(elapsed).unwrap_or(Timestamp::MIN);
        Self { origin, minute: now.as_secs() / 60, is_idle: true }
    }

    /// Returns the minutes to report, up to the current one; `None` if there is nothing new.
    fn next(
        &self,
        traffic: &Traffic,
        in_flight: &InFlight,
        now: Duration,
    ) -> Option<Vec<MinuteReport>> {
        let current = now.as_secs() / 60;
        let first = self.minute.max(current.saturating_sub(HISTORY_MINUTES as u64 - 1));
        let minutes = first..=current;
        let reports: Vec<_> = minutes
            .map(|minute| {
                let is_current = minute == current;
                let second = is_current.then_some(now.as_secs());
                let in_flight = is_current.then_some(in_flight);
                traffic.report(self.started_at(minute), minute, second, in_flight)
            })
            .collect();
        (!self.is_idle || reports.iter().any(|report| !is_empty(report))).then_some(reports)
    }

    fn stored(&mut self, reports: &[MinuteReport], now: Duration) {
        self.minute = now.as_secs() / 60;
        self.is_idle = reports.last().is_none_or(is_empty);
    }

    fn started_at(&self, minute: u64) -> Timestamp {
        let elapsed = SignedDuration::from_secs(i64::try_from(minute * 60).unwrap_or(i64::MAX));
        self.origin.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }
}

impl Traffic {
    /// Returns the report of `minute`, with what is present if it is the current one.
    fn report(
        &self,
        started_at: Timestamp,
        minute: u64,
        second: Option<u64>,
        in_flight: Option<&InFlight>,
    ) -> MinuteReport {
        let state = self.lock();
        let mut total = state.total.report(minute, second);
        let began = Duration::from_secs(minute * 60);
        let mut active: Vec<_> =
            state.accounts.iter().filter(|(_, active)| active.last >= began).collect();
        if active.len() > MAX_ACCOUNTS {
            let by_last =
                |active: &(_, &super::ActiveAccount)| std::cmp::Reverse(active.1.last_number);
            active.select_nth_unstable_by_key(MAX_ACCOUNTS, by_last);
            active.truncate(MAX_ACCOUNTS);
        }
        let reported = active.into_iter();
        let mut accounts: std::collections::HashMap<_, _> = reported
            .map(|(account, active)| (*account, active.series.report(minute, second)))
            .collect();
        drop(state);
        if let Some(in_flight) = in_flight {
            total.in_flight = in_flight.total;
            for (account, count) in in_flight.accounts.iter().take(MAX_ACCOUNTS) {
                accounts.entry(*account).or_insert_with(MinuteFigures::default).in_flight = *count;
            }
        }
        MinuteReport { started_at, total, accounts }
    }
}

fn is_empty(report: &MinuteReport) -> bool {
    let MinuteFigures { count, recent, in_flight, .. } = &report.total;
    count.requests == 0 && recent.requests == 0 && *in_flight == 0
}
