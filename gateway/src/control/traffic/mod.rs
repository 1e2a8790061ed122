//! What goes through the gateway now: the last hour in memory, of each account and of all.
//!
//! The recorder tells [`Traffic`] what has ended, in its own task; no request waits for it. Watchers ask
//! when they are ready for an answer, so that slow ones ask less often and cost nobody anything. Start
//! with [`Control::watch_traffic`](crate::control::Control::watch_traffic).

mod ring;
#[cfg(test)]
mod tests;
mod time_series;
mod under_way;
mod watch;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use foldhash::fast::RandomState;

use domain::id::AccountId;
use domain::record::RequestRecord;
use time_series::TimeSeries;

pub use time_series::{Count, ErrorCount, TrafficHistory};
pub(super) use under_way::LastCount;
pub use under_way::UnderWay;
pub use watch::TrafficSnapshot;

/// An account is forgotten when nothing of it has ended for so long.
const IDLE: Duration = Duration::from_hours(1);
/// The most accounts that are told apart, at some kilobytes each. The ones that were idle for the
/// longest time make room for others.
const MAX_ACCOUNTS: usize = 10_000;

/// The last hour of the whole gateway and of each account.
#[derive(Default)]
pub struct Traffic {
    state: Mutex<TrafficState>,
}

#[derive(Default)]
struct TrafficState {
    whole: TimeSeries,
    accounts: HashMap<AccountId, Active, RandomState>,
    /// When accounts that are idle were last forgotten.
    swept: Duration,
    /// How many requests have ended: what orders accounts by their last one.
    ended: u64,
}

/// An account that had a request within the hour.
#[derive(Default)]
struct Active {
    series: TimeSeries,
    last: Duration,
    /// The number of its last request.
    order: u64,
}

impl Traffic {
    /// Takes in requests that have ended by `now`, the monotonic time.
    pub fn record_ended(&self, records: &[RequestRecord], now: Duration) {
        let mut state = self.lock();
        state.sweep(now);
        for record in records {
            state.record_ended(record, now);
        }
    }

    /// Returns the last hour of an account, or of all, as of `now`.
    pub fn history(&self, account: Option<AccountId>, now: Duration) -> TrafficHistory {
        let state = self.lock();
        match account {
            None => state.whole.history(now),
            Some(account) => match state.accounts.get(&account) {
                Some(active) => active.series.history(now),
                None => TimeSeries::default().history(now),
            },
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, TrafficState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TrafficState {
    fn record_ended(&mut self, record: &RequestRecord, now: Duration) {
        self.ended += 1;
        self.whole.record_ended(record, now);
        if self.accounts.len() >= MAX_ACCOUNTS && !self.accounts.contains_key(&record.account) {
            self.make_room();
        }
        let active = self.accounts.entry(record.account).or_default();
        (active.last, active.order) = (now, self.ended);
        active.series.record_ended(record, now);
    }

    /// Forgets idle accounts, once a minute.
    fn sweep(&mut self, now: Duration) {
        if now.saturating_sub(self.swept) >= Duration::from_mins(1) {
            self.swept = now;
            self.accounts.retain(|_, active| now.saturating_sub(active.last) < IDLE);
        }
    }

    /// Forgets the eighth of the accounts whose last request ended the longest ago.
    fn make_room(&mut self) {
        let mut orders: Vec<_> = self.accounts.values().map(|active| active.order).collect();
        let (_, &mut last, _) = orders.select_nth_unstable(MAX_ACCOUNTS / 8);
        self.accounts.retain(|_, active| active.order > last);
    }
}
