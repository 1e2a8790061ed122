//! Results of the requests to one upstream over the last minutes.
//!
//! They decide whether requests go to it: its breaker, its credentials, its health checks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use jiff::Timestamp;

use super::breaker::{Breaker, Permission};
use super::check_results::CheckResults;
use super::credential_states::CredentialStates;
use super::error::UpstreamError;
use super::hedge_budget::HedgeBudget;
use super::minutes::{self, MINUTES, Minutes};
use super::pool_stats::PoolStats;
use domain::health::{CheckState, Health, LastError};
use domain::latency::{self, Percentiles};
use domain::upstream::CredentialIndex;

/// The breaker opens if half of at least this many requests failed in the last [`FAILURE_RATE_MINUTES`].
const MIN_REQUESTS: u64 = 20;
const FAILURE_RATE_MINUTES: u64 = 2;
/// The time in which the latency of an upstream that answers nothing counts half. Otherwise an upstream that was slow once
/// would get no request that could show that it no longer is.
const LATENCY_HALF_LIFE: Duration = Duration::from_secs(1);

/// The statistics of one upstream.
#[derive(Default)]
pub(super) struct UpstreamStats {
    /// Whether the last complete answer reported its usage.
    reports_usage: AtomicBool,
    breaker: Breaker,
    minutes: Minutes,
    last_error: ArcSwapOption<LastError>,
    credentials: CredentialStates,
    checks: CheckResults,
    /// The number of the first minute whose failures count for the breaker's failure rate.
    rate_since: AtomicU64,
    /// The number of resets.
    generation: AtomicU32,
    in_flight: AtomicU32,
    /// Attempts that were answered or failed.
    attempts: AtomicU64,
    /// Attempts that failed, also after the answer began.
    failures: AtomicU64,
    hedge_budget: HedgeBudget,
    pool: Arc<PoolStats>,
    /// The moving average of the time to the head of an answer, in microseconds; zero before the first.
    average_latency: AtomicU64,
    /// The monotonic time in milliseconds of the last answer.
    answered_at: AtomicU64,
}

/// The load of an upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Requests in flight, over all workers.
    pub in_flight: u32,
    /// The recent time to the head of an answer; zero if there was none. It is halved for each second
    /// without an answer, unless requests are in flight: those may be what is not answered.
    pub latency: Duration,
}

/// The attempts at an upstream since its catalogue entry changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptCounts {
    /// Attempts that were answered or failed.
    pub attempts: u64,
    /// Attempts that failed, also after the answer began.
    pub failures: u64,
}

/// A request in flight, until it is dropped.
pub struct InFlight {
    stats: Arc<UpstreamStats>,
    generation: Generation,
}

/// The number of resets before a request was sent. Results of requests of an earlier generation are counted, but they
/// neither open nor close the breaker, and pause no credential: an operator has decided that what was before does not matter any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Generation(u32);

// === impl UpstreamStats ===

impl UpstreamStats {
    /// Creates the statistics of an upstream with this number of credentials.
    pub(super) fn new(credentials: usize) -> Self {
        Self { credentials: CredentialStates::new(credentials), ..Self::default() }
    }

    /// Returns the states of the credentials.
    pub(super) fn credentials(&self) -> &CredentialStates {
        &self.credentials
    }

    /// Counts a request that is in flight until the guard is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight { stats: self.clone(), generation: self.generation() }
    }

    /// Returns the generation of a request that is sent now.
    fn generation(&self) -> Generation {
        Generation(self.generation.load(Ordering::Relaxed))
    }

    /// Returns the load at `now`.
    pub(super) fn load(&self, now: Duration) -> Load {
        let average = self.average_latency.load(Ordering::Relaxed);
        let answered_at = Duration::from_millis(self.answered_at.load(Ordering::Relaxed));
        let in_flight = self.in_flight.load(Ordering::Relaxed);
        let silence = if in_flight == 0 { now.saturating_sub(answered_at) } else { Duration::ZERO };
        let half_lives = silence.as_millis() / LATENCY_HALF_LIFE.as_millis();
        let half_lives = u32::try_from(half_lives).unwrap_or(u32::MAX);
        Load {
            in_flight,
            latency: Duration::from_micros(average.checked_shr(half_lives).unwrap_or_default()),
        }
    }

    /// Returns the attempts so far.
    pub(super) fn attempts(&self) -> AttemptCounts {
        AttemptCounts {
            attempts: self.attempts.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }

    /// Returns whether the last complete answer reported its usage.
    pub(super) fn reports_usage(&self) -> bool {
        self.reports_usage.load(Ordering::Relaxed)
    }

    /// Records whether a complete answer reported its usage.
    pub(super) fn set_reports_usage(&self, reports_usage: bool) {
        // Workers read this with each event: it is written only if it changes.
        if self.reports_usage() != reports_usage {
            self.reports_usage.store(reports_usage, Ordering::Relaxed);
        }
    }

    /// Returns whether a request should go to this upstream before others. Must be called at most once per
    /// request.
    pub(super) fn permit(&self, now: Duration) -> Permission {
        if self.credentials.pause_left(now).is_some()
            || self.checks.state() == Some(CheckState::Failing)
        {
            return Permission::Denied;
        }
        self.breaker.permit(now)
    }

    /// Records the result of a background probe. Returns the time for which the breaker stays open, if the probe
    /// failed.
    pub(super) fn record_probe(&self, is_alive: bool, now: Duration) -> Option<Duration> {
        self.breaker.record_probe(is_alive, now)
    }

    /// Records that the head of an answer to a request of this generation arrived after `latency`. Returns whether that
    /// closes an open breaker.
    pub(super) fn record_answer(
        &self,
        generation: Generation,
        latency: Duration,
        now: Duration,
    ) -> bool {
        self.count_request(generation, now);
        self.minutes.current(now).latency[latency::bucket(latency)].fetch_add(1, Ordering::Relaxed);
        self.update_latency(latency, now);
        generation == self.generation() && self.breaker.record_success()
    }

    fn count_request(&self, generation: Generation, now: Duration) {
        let minute = self.minutes.current(now);
        minute.requests.fetch_add(1, Ordering::Relaxed);
        if generation != self.generation() {
            minute.earlier_requests.fetch_add(1, Ordering::Relaxed);
        }
        self.attempts.fetch_add(1, Ordering::Relaxed);
    }

    fn update_latency(&self, latency: Duration, now: Duration) {
        let (before, new) = (self.average_latency.load(Ordering::Relaxed), micros(latency));
        let average = if before == 0 { new } else { before - before / 8 + new / 8 };
        // A concurrent update may be lost.
        self.average_latency.store(average, Ordering::Relaxed);
        let answered_at = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.answered_at.store(answered_at, Ordering::Relaxed);
    }

    /// Records that a request was cancelled for another upstream after `latency`. Only the load knows of it: otherwise an
    /// upstream that is always too slow would seem as fast as it once was.
    pub(super) fn record_cancelled(&self, latency: Duration, now: Duration) {
        if micros(latency) > self.average_latency.load(Ordering::Relaxed) {
            self.update_latency(latency, now);
        }
    }

    /// Returns the statistics of the connections.
    pub(super) fn pool(&self) -> &Arc<PoolStats> {
        &self.pool
    }

    /// Returns the bound on the requests that are sent twice.
    pub(super) fn hedge_budget(&self) -> &HedgeBudget {
        &self.hedge_budget
    }

    /// Records a failure of a request of this generation with a credential. Returns whether it is the credential's and not
    /// the upstream's.
    pub(super) fn record_credential_failure(
        &self,
        generation: Generation,
        credential: CredentialIndex,
        error: &UpstreamError,
        now: Duration,
    ) -> bool {
        if generation == self.generation() {
            self.credentials.record_failure(credential, error, now)
        } else {
            self.credentials.record_earlier_failure(credential, error, now)
        }
    }

    /// Records a failure of a request of this generation before its answer began. Returns the time for which the breaker
    /// opens, if it opens now.
    pub(super) fn record_failure(
        &self,
        generation: Generation,
        error: &UpstreamError,
        at: Timestamp,
        now: Duration,
    ) -> Option<Duration> {
        self.count_request(generation, now);
        self.record_broken_answer(generation, error, at, now)
    }

    /// Records a failure after the answer began, like [`record_failure`](Self::record_failure).
    pub(super) fn record_broken_answer(
        &self,
        generation: Generation,
        error: &UpstreamError,
        at: Timestamp,
        now: Duration,
    ) -> Option<Duration> {
        self.minutes.current(now).failures.fetch_add(1, Ordering::Relaxed);
        self.failures.fetch_add(1, Ordering::Relaxed);
        let text = error.for_operators();
        self.last_error.store(Some(LastError { text, at }.into()));
        if generation != self.generation() {
            self.minutes.current(now).earlier_failures.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.breaker.record_failure(now, || {
            let since_reset =
                (minutes::number(now) + 1).saturating_sub(self.rate_since.load(Ordering::Relaxed));
            let minutes = since_reset.min(FAILURE_RATE_MINUTES);
            let (requests, failures) = self.counts(now, minutes);
            let earlier = self.minutes.sum(now, minutes, |minute| &minute.earlier_requests);
            let requests = requests.saturating_sub(earlier);
            let earlier = self.minutes.sum(now, minutes, |minute| &minute.earlier_failures);
            let failures = failures.saturating_sub(earlier);
            requests >= MIN_REQUESTS && failures * 2 >= requests
        })
    }

    /// Records an error that is no failure of a request: `text` describes it.
    pub(super) fn set_last_error(&self, text: String, at: Timestamp) {
        self.last_error.store(Some(LastError { text, at }.into()));
    }

    /// Records the result of a health check. Returns the state if it changes.
    pub(super) fn record_check(&self, has_passed: bool) -> Option<CheckState> {
        self.checks.record(has_passed)
    }

    /// Returns whether the last health check failed, but not the one before it.
    pub(super) fn has_check_just_failed(&self) -> bool {
        self.checks.has_just_failed()
    }

    /// Ends what keeps requests away at `now`: an open breaker, pauses of credentials, failed health checks. The
    /// statistics stay, but failures of this minute and earlier ones do not open the breaker again; those of requests that
    /// are in flight neither open it nor pause a credential.
    pub(super) fn reset(&self, now: Duration) {
        self.generation.fetch_add(1, Ordering::Relaxed);
        self.rate_since.store(minutes::number(now) + 1, Ordering::Relaxed);
        self.breaker.record_success();
        self.credentials.end_pauses();
        self.checks.clear();
    }

    /// Records an answer with implausible usage; `complaint` describes it.
    pub(super) fn record_implausible_usage(&self, complaint: String, at: Timestamp, now: Duration) {
        self.minutes.current(now).implausible.fetch_add(1, Ordering::Relaxed);
        self.last_error.store(Some(LastError { text: complaint, at }.into()));
    }

    /// Returns the health as of `now`.
    pub(super) fn health(&self, now: Duration) -> Health {
        let (requests, failures) = self.counts(now, MINUTES);
        Health {
            breaker: self.breaker.state(now),
            requests,
            failures,
            miscounts: self.minutes.sum(now, MINUTES, |minute| &minute.implausible),
            latency: Percentiles::of(&self.minutes.latency(now)),
            last_error: self.last_error.load().as_deref().cloned(),
            check: self.checks.state(),
            credentials: self.credentials.health(now),
        }
    }

    /// Returns the requests and failures of the last `minutes`.
    fn counts(&self, now: Duration, minutes: u64) -> (u64, u64) {
        let sum = |of| self.minutes.sum(now, minutes, of);
        (sum(|minute| &minute.requests), sum(|minute| &minute.failures))
    }
}

// === impl InFlight ===

impl InFlight {
    pub(super) fn generation(&self) -> Generation {
        self.generation
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.stats.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
