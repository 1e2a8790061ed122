//! Counts the usage of one account, model or key, and decides which of its limits a request would exceed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::month::Month;
use super::window::Window;
use super::{Cause, Moment};
use domain::limit::{Demand, LimitKind, LimitState, LimitStatus, Limits};

/// A request is admitted if a limit on tokens per minute has room for its input and the first part of its
/// output, or for `limit / OUTPUT_SHARE_DIVISOR` of output if that is less. Without this bound, a low limit
/// would admit one request at a time, and none once a little was used.
const OUTPUT_SHARE_DIVISOR: u64 = 8;
/// The time after which a request refused by a concurrency limit should retry; the end of the other requests
/// is unknown.
const CONCURRENCY_RETRY_AFTER: Duration = Duration::from_secs(1);

/// The counts of one subject behind a lock. The lock is held for a few additions and never across an await.
#[derive(Debug, Default)]
pub(super) struct SubjectMeter {
    counts: Mutex<SubjectCounts>,
    /// The number of requests that wait for monthly tokens.
    waiting: AtomicUsize,
}

/// The counters of one subject. A window is created with the first request that it counts.
#[derive(Debug, Default)]
pub(super) struct SubjectCounts {
    requests: Option<Box<Window>>,
    tokens: Option<Box<Window>>,
    in_flight: u64,
    /// Request bodies that are being received.
    pub(super) receiving: u64,
    pub(super) month: Month,
}

// === impl Meter ===

impl SubjectMeter {
    pub(super) fn lock(&self) -> MutexGuard<'_, SubjectCounts> {
        // A panic elsewhere leaves the counts consistent.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a request waits for monthly tokens.
    pub(super) fn has_waiters(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Registers a request that waits.
    pub(super) fn add_waiter(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a request that waited.
    pub(super) fn remove_waiter(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

// === impl SubjectCounts ===

impl SubjectCounts {
    /// Returns the limits that a request arriving now would exceed.
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
        let concurrency = concurrency
            .map(|limit| (LimitKind::Concurrency, limit, Cause::Wait(CONCURRENCY_RETRY_AFTER)));
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
            } else if self.month.committed().saturating_add(needed) > limit {
                Cause::Wait(CONCURRENCY_RETRY_AFTER)
            } else {
                return None;
            };
            Some((LimitKind::MonthlyTokens, limit, cause))
        });
        [requests, concurrency, tokens, month].into_iter().flatten()
    }

    /// Returns the tokens that the tightest of `limits` leaves; `None` if none of them counts tokens.
    pub(super) fn tokens_left(&self, limits: &Limits, now: Moment) -> Option<u64> {
        let minute = limits.tpm.map(|limit| limit.saturating_sub(self.tokens_in_window(now)));
        minute.into_iter().chain(self.month_left(limits)).min()
    }

    /// Returns the tokens that the monthly quota leaves; `None` if there is no quota.
    pub(super) fn month_left(&self, limits: &Limits) -> Option<u64> {
        limits.monthly_tokens.map(|limit| limit.saturating_sub(self.month.committed()))
    }

    /// Counts an admitted request and the tokens reserved for it.
    pub(super) fn take(&mut self, limits: &Limits, tokens: u64, now: Moment) {
        self.in_flight += 1;
        if limits.rpm.is_some() {
            self.requests.get_or_insert_default().add(1, now.monotonic);
        }
        self.reserve(limits.tpm.is_some(), tokens, now.monotonic, now.wall);
    }

    /// Reserves tokens for a request that began at `began`: in the month and, if the limit counts tokens per
    /// minute, in the minute.
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

    /// Counts tokens in the minute of `now`.
    pub(super) fn add_tokens(&mut self, tokens: u64, now: Duration) {
        self.tokens.get_or_insert_default().add(tokens, now);
    }

    /// Subtracts tokens that were counted in the minute of `then`.
    pub(super) fn subtract_tokens(&mut self, tokens: u64, then: Duration) {
        if let Some(window) = &mut self.tokens {
            window.subtract(tokens, then);
        }
    }

    /// Counts the end of a request.
    pub(super) fn end_request(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Adds the state of the limits that `x-ratelimit-*` headers report to `limit_status`.
    pub(super) fn show(&self, limits: &Limits, now: Moment, limit_status: &mut LimitStatus) {
        let gauge = |window: Option<&Window>, limit: u64| {
            let (used, reset) = state(window, now);
            LimitState { limit, remaining: limit.saturating_sub(used), reset }
        };
        if let Some(limit) = limits.rpm {
            limit_status.add_requests(gauge(self.requests.as_deref(), limit));
        }
        if let Some(limit) = limits.tpm {
            limit_status.add_tokens(gauge(self.tokens.as_deref(), limit));
        }
    }

    /// Returns the number of requests in progress.
    pub(super) const fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Returns the requests of the last minute, and the time until the count is zero.
    pub(super) fn requests(&self, now: Moment) -> (u64, Duration) {
        state(self.requests.as_deref(), now)
    }

    /// Returns the tokens of the last minute, and the time until the count is zero.
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

/// Returns why `limit` has no room for `amount` now; `None` if it has.
fn wait_for_room(window: Option<&Window>, amount: u64, limit: u64, now: Moment) -> Option<Cause> {
    if amount > limit {
        return Some(Cause::TooLarge { needed: amount });
    }
    let window = window?;
    let room = window.sum(now.monotonic).saturating_add(amount) <= limit;
    (!room).then(|| Cause::Wait(window.room_after(amount, limit, now.monotonic)))
}
