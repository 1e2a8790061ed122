//! Counts the usage of one account, model or key, and decides which of its limits a request would exceed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::month::Month;
use super::share::{Share, SharedSubject, Shares};
use super::window::Window;
use super::{ExceededCause, Moment};
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
    /// The owner of the limits; `None` if they are not shared with other gateways.
    pub(super) shared: Option<SharedSubject>,
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
    /// The parts of the limits that this gateway has; `None` if they are not shared with other gateways.
    shares: Option<Box<Shares>>,
}

/// A limit that a request would exceed.
pub(super) struct Excess {
    pub(super) kind: LimitKind,
    /// The whole limit.
    pub(super) limit: u64,
    pub(super) cause: ExceededCause,
    /// The amount that this gateway's part of the limit lacks.
    pub(super) lacking: u64,
}

// === impl SubjectMeter ===

impl SubjectMeter {
    /// Creates the meter of an owner whose limits are shared with other gateways.
    pub(super) fn sharing(shared: SharedSubject) -> Self {
        let counts = SubjectCounts { shares: Some(Box::default()), ..SubjectCounts::default() };
        Self { counts: Mutex::new(counts), shared: Some(shared), ..Self::default() }
    }

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
    /// Switches to the month of `now`.
    pub(super) fn roll(&mut self, now: Timestamp) {
        self.month.roll(now);
        let start = self.month.start();
        if let Some(shares) = &mut self.shares {
            shares.roll(start);
        }
    }

    /// Aligns this gateway's part of the monthly quota with a change of `limits`. Must be called after
    /// [`Self::roll`].
    pub(super) fn align_quota(&mut self, limits: &Limits) {
        let used = self.month.committed();
        let is_enforced = limits.monthly_tokens.is_some() && !limits.observe;
        let Some(shares) = &mut self.shares else { return };
        let share = shares.get_mut(LimitKind::MonthlyTokens);
        if is_enforced { share.begin_quota(used) } else { share.end_quota() }
    }

    /// Returns the limits that a request arriving now would exceed.
    pub(super) fn exceeded(
        &self,
        limits: &Limits,
        demand: Option<&Demand>,
        now: Moment,
    ) -> [Option<Excess>; 4] {
        let minute = |kind, window: Option<&Window>, limit, needed| {
            let used = window.map_or(0, |window| window.sum(now.monotonic));
            self.excess(limits, kind, limit, used, needed, |bound| {
                let room_after = |it: &Window| it.room_after(needed, bound, now.monotonic);
                ExceededCause::Wait(window.map_or(CONCURRENCY_RETRY_AFTER, room_after))
            })
        };
        let requests = limits
            .rpm
            .and_then(|limit| minute(LimitKind::Requests, self.requests.as_deref(), limit, 1));
        let concurrency = limits.concurrency.and_then(|limit| {
            let wait = |_| ExceededCause::Wait(CONCURRENCY_RETRY_AFTER);
            self.excess(limits, LimitKind::Concurrency, limit, self.in_flight, 1, wait)
        });
        let tokens = limits.tpm.zip(demand).and_then(|(limit, demand)| {
            let output = demand.output.min(limit / OUTPUT_SHARE_DIVISOR);
            let needed = demand.input.saturating_add(output);
            minute(LimitKind::Tokens, self.tokens.as_deref(), limit, needed)
        });
        let month = limits.monthly_tokens.zip(demand).and_then(|(limit, demand)| {
            let needed = demand.max_input.saturating_add(demand.choices);
            let used = self.month.committed();
            self.excess(limits, LimitKind::MonthlyTokens, limit, used, needed, |_| {
                if needed > self.unused_of_month(limits, limit) {
                    ExceededCause::Spent { until: self.month.end() }
                } else {
                    ExceededCause::Wait(CONCURRENCY_RETRY_AFTER)
                }
            })
        });
        [requests, concurrency, tokens, month]
    }

    /// Returns by how much a request that needs `needed` beside `used` exceeds a limit, if it does. `cause` returns
    /// why, for the bound that applies.
    fn excess(
        &self,
        limits: &Limits,
        kind: LimitKind,
        limit: u64,
        used: u64,
        needed: u64,
        cause: impl FnOnce(u64) -> ExceededCause,
    ) -> Option<Excess> {
        let (bound, total) = (self.bound(limits, kind, limit), used.saturating_add(needed));
        if total <= bound {
            return None;
        }
        let cause = if needed > limit && kind != LimitKind::Concurrency {
            ExceededCause::TooLarge { needed }
        } else if total <= limit && self.may_obtain(limits, kind, limit) {
            ExceededCause::Requested
        } else {
            cause(bound)
        };
        Some(Excess { kind, limit, cause, lacking: total - bound })
    }

    /// Returns what of `limit` this gateway may use. Limits in observe mode are not shared.
    fn bound(&self, limits: &Limits, kind: LimitKind, limit: u64) -> u64 {
        self.shares_of(limits).map_or(limit, |shares| shares.get(kind).granted().min(limit))
    }

    /// Returns whether this gateway may obtain more of `limit` from the others.
    pub(super) fn may_obtain(&self, limits: &Limits, kind: LimitKind, limit: u64) -> bool {
        self.shares_of(limits).is_some_and(|shares| shares.get(kind).may_obtain(limit))
    }

    /// Returns the tokens that the requests of all gateways have not used in the month, as far as is known.
    fn unused_of_month(&self, limits: &Limits, limit: u64) -> u64 {
        let used = self.month.used();
        self.shares_of(limits).map_or(limit.saturating_sub(used), |shares| {
            shares.get(LimitKind::MonthlyTokens).unused_of_all(used)
        })
    }

    /// Returns what other gateways had taken of a limit when this one last obtained something.
    pub(super) fn used_elsewhere(&self, limits: &Limits, kind: LimitKind) -> u64 {
        self.shares_of(limits).map_or(0, |shares| shares.get(kind).elsewhere())
    }

    fn shares_of(&self, limits: &Limits) -> Option<&Shares> {
        self.shares.as_deref().filter(|_| !limits.observe)
    }

    /// Returns the part of a limit that this gateway has, if limits are shared.
    pub(super) fn share_mut(&mut self, kind: LimitKind) -> Option<&mut Share> {
        self.shares.as_deref_mut().map(|shares| shares.get_mut(kind))
    }

    /// Returns the month of the part of a monthly quota.
    pub(super) fn month_of_share(&self, kind: LimitKind) -> Option<Timestamp> {
        let shares = self.shares.as_ref().filter(|_| kind == LimitKind::MonthlyTokens);
        shares.and_then(|shares| shares.month_start())
    }

    /// Returns how much of a limit is in use.
    pub(super) fn used(&self, kind: LimitKind, now: Duration) -> u64 {
        let sum = |window: &Option<Box<Window>>| window.as_ref().map_or(0, |it| it.sum(now));
        match kind {
            LimitKind::Requests => sum(&self.requests),
            LimitKind::Tokens => sum(&self.tokens),
            LimitKind::Concurrency => self.in_flight,
            LimitKind::MonthlyTokens => self.month.committed(),
        }
    }

    /// Returns the limits of which more must be requested ahead of need.
    pub(super) fn request_ahead(&mut self, limits: &Limits, now: Moment) -> Vec<LimitKind> {
        let Some(_) = self.shares_of(limits) else { return Vec::new() };
        let mut kinds = Vec::new();
        for (kind, limit) in all(limits) {
            let used = self.used(kind, now.monotonic);
            if self.share_mut(kind).is_some_and(|share| share.request_ahead(limit, used)) {
                kinds.push(kind);
            }
        }
        kinds
    }

    /// Returns the tokens that the tightest of `limits` leaves; `None` if none of them counts tokens.
    pub(super) fn tokens_left(&self, limits: &Limits, now: Moment) -> Option<u64> {
        let minute = limits.tpm.map(|limit| {
            let bound = self.bound(limits, LimitKind::Tokens, limit);
            bound.saturating_sub(self.tokens_in_window(now))
        });
        minute.into_iter().chain(self.month_left(limits)).min()
    }

    /// Returns the tokens that the monthly quota leaves; `None` if there is no quota.
    pub(super) fn month_left(&self, limits: &Limits) -> Option<u64> {
        let limit = limits.monthly_tokens?;
        if limits.observe {
            return Some(limit.saturating_sub(self.month.committed()));
        }
        Some(self.enforced_month_left(limit))
    }

    /// Returns the tokens that an enforced monthly quota of `limit` leaves to this gateway.
    pub(super) fn enforced_month_left(&self, limit: u64) -> u64 {
        let granted = |shares: &Shares| shares.get(LimitKind::MonthlyTokens).granted();
        let bound = self.shares.as_deref().map_or(limit, |shares| granted(shares).min(limit));
        bound.saturating_sub(self.month.committed())
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
        let gauge = |kind, window: Option<&Window>, limit: u64| {
            let (used, reset) = state(window, now);
            let left = self.shares_of(limits).map(|shares| shares.get(kind).left(used));
            let remaining = limit.saturating_sub(used).min(left.unwrap_or(u64::MAX));
            LimitState { limit, remaining, reset }
        };
        if let Some(limit) = limits.rpm {
            let state = gauge(LimitKind::Requests, self.requests.as_deref(), limit);
            limit_status.add_requests(state);
        }
        if let Some(limit) = limits.tpm {
            limit_status.add_tokens(gauge(LimitKind::Tokens, self.tokens.as_deref(), limit));
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

/// Returns the limits that are set.
fn all(limits: &Limits) -> impl Iterator<Item = (LimitKind, u64)> + use<> {
    [
        (LimitKind::Requests, limits.rpm),
        (LimitKind::Tokens, limits.tpm),
        (LimitKind::Concurrency, limits.concurrency),
        (LimitKind::MonthlyTokens, limits.monthly_tokens),
    ]
    .into_iter()
    .filter_map(|(kind, limit)| Some((kind, limit?)))
}
