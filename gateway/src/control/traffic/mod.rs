//! Traffic statistics of the last hour in memory, per account and in total.
//!
//! The recorder's task feeds [`Traffic`] with ended requests, so that no request waits for it. Gateways that share
//! a database report what they count to each other (`report.rs`), and watchers add up the reports (`others.rs`).
//! Watchers are driven by the caller: a slow one polls less often and does not delay others. Start
//! with [`Control::watch_traffic`](crate::control::Control::watch_traffic).

mod figures;
mod in_flight;
mod others;
mod report;
mod ring;
#[cfg(test)]
mod tests;
mod time_series;
mod watch;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use foldhash::fast::RandomState;

use domain::id::AccountId;
use domain::record::RequestRecord;
use figures::Figures;
use time_series::TimeSeries;

pub use figures::TrafficHistory;
pub use in_flight::InFlight;
pub(super) use in_flight::InFlightCache;
pub use watch::{LedgerState, TrafficSnapshot};

/// An account is removed after this time without an ended request.
const ACCOUNT_IDLE_TIMEOUT: Duration = Duration::from_hours(1);
/// The maximum number of tracked accounts, at some kilobytes each. Beyond it, the accounts that
/// were idle for the longest time are evicted.
const MAX_ACCOUNTS: usize = 10_000;

/// The traffic of the last hour, in total and per account.
#[derive(Default)]
pub struct Traffic {
    state: Mutex<TrafficState>,
}

#[derive(Default)]
struct TrafficState {
    total: TimeSeries,
    accounts: HashMap<AccountId, ActiveAccount, RandomState>,
    /// The time of the last removal of idle accounts.
    last_sweep: Duration,
    /// The number of ended records, which numbers them.
    ended_records: u64,
}

/// The statistics of an account with a request in the last hour.
#[derive(Default)]
struct ActiveAccount {
    series: TimeSeries,
    last: Duration,
    /// The number of its last record; orders accounts for eviction.
    last_number: u64,
}

impl Traffic {
    /// Counts requests that have ended by `now`, the monotonic time.
    pub fn record_ended(&self, records: &[RequestRecord], now: Duration) {
        let mut state = self.lock();
        state.sweep(now);
        for record in records {
            state.record_ended(record, now);
        }
    }

    /// Returns the figures of an account, or of all with `None`, as of `now`.
    fn figures(&self, account: Option<AccountId>, now: Duration) -> Figures {
        let state = self.lock();
        match account {
            None => state.total.figures(now),
            Some(account) => match state.accounts.get(&account) {
                Some(active) => active.series.figures(now),
                None => Figures::default(),
            },
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, TrafficState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TrafficState {
    fn record_ended(&mut self, record: &RequestRecord, now: Duration) {
        self.ended_records += 1;
        self.total.record_ended(record, now);
        if self.accounts.len() >= MAX_ACCOUNTS && !self.accounts.contains_key(&record.account) {
            self.evict_oldest();
        }
        let active = self.accounts.entry(record.account).or_default();
        (active.last, active.last_number) = (now, self.ended_records);
        active.series.record_ended(record, now);
    }

    /// Removes idle accounts, at most once a minute.
    fn sweep(&mut self, now: Duration) {
        if now.saturating_sub(self.last_sweep) >= Duration::from_mins(1) {
            self.last_sweep = now;
            self.accounts
                .retain(|_, active| now.saturating_sub(active.last) < ACCOUNT_IDLE_TIMEOUT);
        }
    }

    /// Evicts the eighth of the accounts that were idle for the longest time.
    fn evict_oldest(&mut self) {
        let mut numbers: Vec<_> = self.accounts.values().map(|active| active.last_number).collect();
        let (_, &mut last, _) = numbers.select_nth_unstable(MAX_ACCOUNTS / 8);
        self.accounts.retain(|_, active| active.last_number > last);
    }
}
