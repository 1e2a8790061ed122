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
mod tests {
    use super::super::check_results::MAX_FAILED_CHECKS;
    use super::*;
    use domain::health::BreakerState;
    use domain::wire::error::ReportedError;

    fn at(seconds: u64) -> (Timestamp, Duration) {
        (Timestamp::from_second(seconds.cast_signed()).unwrap(), Duration::from_secs(seconds))
    }

    fn fail(stats: &UpstreamStats, seconds: u64) -> Option<Duration> {
        let (at, now) = at(seconds);
        stats.record_failure(stats.generation(), &UpstreamError::CutOff, at, now)
    }

    #[test]
    fn counts_are_of_the_last_five_minutes() {
        let stats = UpstreamStats::default();
        assert_eq!(stats.health(Duration::ZERO).latency, None);
        for second in [0, 59, 60, 250] {
            stats.record_answer(
                stats.generation(),
                Duration::from_millis(40),
                Duration::from_secs(second),
            );
        }
        fail(&stats, 200);
        let counts = |second| {
            let health = stats.health(Duration::from_secs(second));
            (health.requests, health.failures)
        };
        assert_eq!(
            [250, 299, 300, 360, 500, 600].map(counts),
            [(5, 1), (5, 1), (3, 1), (2, 1), (1, 0), (0, 0)]
        );
        let health = stats.health(Duration::from_secs(500));
        assert!(matches!(health.latency.unwrap().p99.as_millis(), 40..=43), "{health:?}");
        let error = health.last_error.unwrap();
        assert_eq!((error.text.as_str(), error.at), ("it closed the answer early", at(200).0));
    }

    /// Regression test: an upstream that was slow for a while never got another request.
    #[test]
    fn the_latency_of_an_upstream_without_answers_decays() {
        let stats = UpstreamStats::default();
        stats.record_answer(stats.generation(), Duration::from_millis(200), at(10).1);
        let latency = |seconds| stats.load(at(seconds).1).latency.as_micros();
        assert_eq!([10, 11, 13, 20, 1_000].map(latency), [200_000, 100_000, 25_000, 195, 0]);
        stats.record_answer(stats.generation(), Duration::from_millis(200), at(1_000).1);
        assert_eq!(latency(1_000), 200_000);
        // One that hangs does not become the fastest.
        let stats = Arc::new(stats);
        let _hanging = stats.begin();
        assert_eq!(stats.load(at(1_100).1).latency.as_micros(), 200_000);
    }

    #[test]
    fn half_of_twenty_failures_open_the_breaker_though_others_succeed() {
        let stats = UpstreamStats::default();
        let mut opened = Vec::new();
        for _ in 0..12 {
            stats.record_answer(stats.generation(), Duration::from_millis(40), at(70).1);
            opened.push(fail(&stats, 70).is_some());
        }
        // A success in between is necessary to close it again.
        assert_eq!(opened, (1..=12).map(|pair| pair >= 10).collect::<Vec<_>>());
        assert!(matches!(stats.health(at(70).1).breaker, BreakerState::Open { .. }));
    }

    #[test]
    fn failing_health_checks_deny_requests() {
        let stats = UpstreamStats::default();
        let now = at(1).1;
        let granted = [false, false, true].map(|has_passed| {
            stats.record_check(has_passed);
            stats.permit(now) == Permission::Granted
        });
        assert_eq!(granted, [true, false, true]);
    }

    fn refused(status: u16, retry_after: Option<&'static str>) -> UpstreamError {
        let mut headers = Box::<hyper::HeaderMap>::default();
        if let Some(value) = retry_after {
            headers.insert("retry-after", value.parse().unwrap());
        }
        UpstreamError::Refused { status, body: ReportedError::default(), headers }
    }

    #[test]
    fn a_reset_lets_requests_through_and_keeps_the_statistics() {
        let stats = UpstreamStats::new(2);
        let now = at(70).1;
        for _ in 0..10 {
            stats.record_answer(stats.generation(), Duration::from_millis(40), now);
            fail(&stats, 70);
        }
        for _ in 0..MAX_FAILED_CHECKS {
            stats.record_check(false);
        }
        stats.credentials().record_failure(CredentialIndex(1), &refused(401, None), now);
        stats.reset(now);
        let health = stats.health(now);
        assert_eq!((health.breaker, health.check), (BreakerState::Closed, None));
        assert!(health.credentials.iter().all(|it| it.pause_left.is_none()), "{health:?}");
        assert_eq!((health.requests, health.failures), (20, 10));
        assert_eq!(stats.permit(now), Permission::Granted);
        // The rate of before the reset does not open it again, five failures in a row do.
        let opened: Vec<_> = (0..5).map(|_| fail(&stats, 71).is_some()).collect();
        assert_eq!(opened, [false, false, false, false, true]);
        // From the next minute on, the rate counts again.
        stats.reset(at(71).1);
        let opened: Vec<_> = (0..12)
            .map(|_| {
                stats.record_answer(stats.generation(), Duration::from_millis(40), at(125).1);
                fail(&stats, 125).is_some()
            })
            .collect();
        assert_eq!(opened, (1..=12).map(|pair| pair >= 10).collect::<Vec<_>>());
    }

    /// Regression test: requests that were sent before a reset opened the breaker again.
    #[test]
    fn results_of_requests_from_before_a_reset_are_counted_and_do_not_matter_to_the_breaker() {
        let stats = Arc::new(UpstreamStats::default());
        let (time, now) = at(70);
        let before = stats.begin().generation();
        stats.reset(now);
        for _ in 0..30 {
            let error = UpstreamError::CutOff;
            assert_eq!(stats.record_failure(before, &error, time, now), None);
            assert_eq!(stats.record_broken_answer(before, &error, time, at(125).1), None);
        }
        assert_eq!((stats.health(now).requests, stats.health(at(125).1).failures), (30, 60));
        // Nor do they make the rate too high for one that was sent later.
        assert_eq!(fail(&stats, 125), None);
        let opened: Vec<_> = (0..4).map(|_| fail(&stats, 125).is_some()).collect();
        assert_eq!(opened, [false, false, false, true]);
        // It is open, which an answer to an earlier request does not change.
        assert!(!stats.record_answer(before, Duration::from_millis(40), at(126).1));
        assert!(matches!(stats.health(at(126).1).breaker, BreakerState::Open { .. }));
    }

    /// Regression test: results from before a reset were counted among the requests, so that half of the later ones could fail
    /// without opening the breaker.
    #[test]
    fn results_of_requests_from_before_a_reset_do_not_lower_the_failure_rate() {
        let stats = Arc::new(UpstreamStats::default());
        let before = stats.begin().generation();
        stats.reset(at(70).1);
        let (time, now) = at(125);
        for _ in 0..15 {
            stats.record_answer(before, Duration::from_millis(40), now);
            stats.record_failure(before, &UpstreamError::CutOff, time, now);
        }
        let opened: Vec<_> = (0..10)
            .map(|_| {
                stats.record_answer(stats.generation(), Duration::from_millis(40), now);
                fail(&stats, 125).is_some()
            })
            .collect();
        assert_eq!(opened, (1..=10).map(|pair| pair == 10).collect::<Vec<_>>());
    }

    /// Regression test: a refusal of a request that was sent before a reset paused the credentials again.
    #[test]
    fn refusals_of_requests_from_before_a_reset_are_counted_and_pause_no_credential() {
        let first = CredentialIndex(0);
        for (credentials, status, retry_after) in [
            (0, 429, Some("30")),
            (1, 429, Some("30")),
            (2, 429, Some("30")),
            (2, 503, Some("30")),
            (2, 401, None),
            (2, 402, None),
            (2, 403, None),
        ] {
            let stats = Arc::new(UpstreamStats::new(credentials));
            let (before, now) = (stats.begin().generation(), at(70).1);
            stats.reset(now);
            let error = refused(status, retry_after);
            let is_its_own = stats.record_credential_failure(before, first, &error, now);
            assert_eq!(is_its_own, credentials == 2 && status != 503, "{status}");
            assert_eq!(stats.permit(now), Permission::Granted, "{status}");
            let health = stats.credentials().health(now);
            let refusals = u64::from(status != 503);
            for (index, it) in health.iter().enumerate() {
                let counted = if index == 0 { (1, refusals) } else { (0, 0) };
                assert_eq!((it.pause_left, it.requests, it.refusals), (None, counted.0, counted.1));
            }
            // One that was sent after the reset pauses it.
            let now_sent = stats.begin().generation();
            stats.record_credential_failure(now_sent, first, &error, now);
            assert!(credentials == 0 || stats.credentials().health(now)[0].pause_left.is_some());
        }
    }

    #[test]
    fn an_answer_that_breaks_is_one_request_and_one_failure() {
        let stats = UpstreamStats::default();
        let (time, now) = at(5);
        stats.record_answer(stats.generation(), Duration::from_millis(40), now);
        stats.record_broken_answer(stats.generation(), &UpstreamError::CutOff, time, now);
        let health = stats.health(now);
        assert_eq!((health.requests, health.failures), (1, 1));
    }
}
