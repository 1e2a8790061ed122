//! What one account, model or key uses, and which of its limits a request would exceed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::month::Month;
use super::window::Window;
use super::{Cause, Moment};
use domain::limit::{Demand, Gauge, LimitKind, LimitStatus, Limits};

/// A request is let in when a limit on tokens per minute has room for its input and for the first
/// slice of its output, or for an eighth of the limit where that is less: a low limit would let in one
/// request at a time, and none where a little was used.
const OUTPUT_SHARE_DIVISOR: u64 = 8;
/// When a place that another request holds is worth another try: nobody knows when it ends.
const SOON: Duration = Duration::from_secs(1);

/// The counts of one subject, and their lock: held for a few additions, never across an await.
#[derive(Debug, Default)]
pub(super) struct Meter {
    counts: Mutex<Counts>,
    /// How many requests wait for tokens of the month to be given back.
    waiting: AtomicUsize,
}

/// What is counted. A window is made with the first request that it has to count.
#[derive(Debug, Default)]
pub(super) struct Counts {
    requests: Option<Box<Window>>,
    tokens: Option<Box<Window>>,
    in_flight: u64,
    /// Request bodies that are being received.
    pub(super) receiving: u64,
    pub(super) month: Month,
}

// === impl Meter ===

impl Meter {
    pub(super) fn lock(&self) -> MutexGuard<'_, Counts> {
        // a panic elsewhere leaves only counts behind
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether some request waits for tokens of the month.
    pub(super) fn has_waiters(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// A request begins to wait.
    pub(super) fn add_waiter(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// A request waits no longer.
    pub(super) fn remove_waiter(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

// === impl Counts ===

impl Counts {
    /// Which of `limits` a request would exceed that comes now.
    pub(super) fn exceeded(
        &self,
        limits: &Limits,
        demand: Option<&Demand>,
        now: Moment,
    ) -> impl Iterator<Item = (LimitKind, u64, Cause)> {
        let requests = limits.rpm.and_then(|limit| {
            let wait = wait_for_room(self.requests.as_deref(), 1, limit, now)?;
            Some((LimitKind::Requests, limit, wait))
        });
        let concurrency = limits.concurrency.filter(|&limit| self.in_flight >= limit);
        let concurrency =
            concurrency.map(|limit| (LimitKind::Concurrency, limit, Cause::Wait(SOON)));
        let tokens = limits.tpm.zip(demand).and_then(|(limit, demand)| {
            let output = demand.output.min(limit / OUTPUT_SHARE_DIVISOR);
            let needed = demand.input.saturating_add(output);
            let wait = wait_for_room(self.tokens.as_deref(), needed, limit, now)?;
            Some((LimitKind::Tokens, limit, wait))
        });
        let month = limits.monthly_tokens.zip(demand).and_then(|(limit, demand)| {
            let needed = demand.max_input.saturating_add(demand.choices);
            let cause = if needed > limit {
                Cause::TooLarge { needed }
            } else if self.month.used().saturating_add(needed) > limit {
                Cause::Spent { until: self.month.end() }
            } else if self.month.taken().saturating_add(needed) > limit {
                Cause::Wait(SOON)
            } else {
                return None;
            };
            Some((LimitKind::MonthlyTokens, limit, cause))
        });
        [requests, concurrency, tokens, month].into_iter().flatten()
    }

    /// How many tokens the tightest of `limits` leaves; `None` if none counts tokens.
    pub(super) fn tokens_left(&self, limits: &Limits, now: Moment) -> Option<u64> {
        let minute = limits.tpm.map(|limit| limit.saturating_sub(self.tokens_in_window(now)));
        minute.into_iter().chain(self.month_left(limits)).min()
    }

    /// How many tokens the monthly quota leaves; `None` if there is none.
    pub(super) fn month_left(&self, limits: &Limits) -> Option<u64> {
        limits.monthly_tokens.map(|limit| limit.saturating_sub(self.month.taken()))
    }

    /// Counts a request that is let in, with the tokens that are reserved for it.
    pub(super) fn take(&mut self, limits: &Limits, tokens: u64, now: Moment) {
        self.in_flight += 1;
        if limits.rpm.is_some() {
            self.requests.get_or_insert_default().add(1, now.monotonic);
        }
        self.reserve(limits.tpm.is_some(), tokens, now.monotonic, now.wall);
    }

    /// Reserves tokens for a request that began at `began`, of the month and, if it counts there, of
    /// the minute.
    pub(super) fn reserve(
        &mut self,
        per_minute: bool,
        tokens: u64,
        now: Duration,
        began: Timestamp,
    ) {
        if per_minute {
            self.add_tokens(tokens, now);
        }
        self.month.reserve(tokens, began);
    }

    /// Counts tokens in the minute.
    pub(super) fn add_tokens(&mut self, tokens: u64, now: Duration) {
        self.tokens.get_or_insert_default().add(tokens, now);
    }

    /// Takes tokens back that were counted in the minute of `then`.
    pub(super) fn take_tokens_back(&mut self, tokens: u64, then: Duration) {
        if let Some(window) = &mut self.tokens {
            window.take_back(tokens, then);
        }
    }

    /// A request has ended.
    pub(super) fn leave(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Takes in how those of the limits stand that clients are told.
    pub(super) fn show(&self, limits: &Limits, now: Moment, standing: &mut LimitStatus) {
        let gauge = |window: Option<&Window>, limit: u64| {
            let (used, reset) = state(window, now);
            Gauge { limit, remaining: limit.saturating_sub(used), reset }
        };
        if let Some(limit) = limits.rpm {
            standing.see_requests(gauge(self.requests.as_deref(), limit));
        }
        if let Some(limit) = limits.tpm {
            standing.see_tokens(gauge(self.tokens.as_deref(), limit));
        }
    }

    /// Requests under way.
    pub(super) const fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Requests in the last minute, and when none are counted any more.
    pub(super) fn requests(&self, now: Moment) -> (u64, Duration) {
        state(self.requests.as_deref(), now)
    }

    /// Tokens in the last minute, and when none are counted any more.
    pub(super) fn tokens(&self, now: Moment) -> (u64, Duration) {
        state(self.tokens.as_deref(), now)
    }

    fn tokens_in_window(&self, now: Moment) -> u64 {
        self.tokens.as_ref().map_or(0, |window| window.sum(now.monotonic))
    }
}

fn state(window: Option<&Window>, now: Moment) -> (u64, Duration) {
    window.map_or((0, Duration::ZERO), |window| {
        (window.sum(now.monotonic), window.clear_after(now.monotonic))
    })
}

/// Why there is no room for `amount` under `limit` now; `None` if there is.
fn wait_for_room(window: Option<&Window>, amount: u64, limit: u64, now: Moment) -> Option<Cause> {
    if amount > limit {
        return Some(Cause::TooLarge { needed: amount });
    }
    let window = window?;
    let room = window.sum(now.monotonic).saturating_add(amount) <= limit;
    (!room).then(|| Cause::Wait(window.room_after(amount, limit, now.monotonic)))
}
