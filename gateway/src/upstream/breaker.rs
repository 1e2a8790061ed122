//! A circuit breaker for one upstream.
//!
//! It is a pure function of `now`, the monotonic time, and consists of atomics. Each request calls
//! [`Breaker::permit`] once and records its result once. An open breaker refuses nothing by itself: the
//! caller tries other upstreams first.
//!
//! After the pause of an open breaker, a background probe comes first, so that no client waits for an upstream
//! that is still down. If it succeeds, one request may pass: the trial. Its result closes the breaker, or opens
//! it again for twice as long.
//!
//! Results are not attributed to the request that was elected as the trial. While the breaker is open, any
//! success closes it, also that of a request that was sent before it opened: the upstream answers. The caller leaves out
//! the results of requests that were sent before an operator has reset it. While a trial is in
//! progress, the first failure counts as the trial's, whichever request failed.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use domain::health::BreakerState;

/// The number of consecutive failures that opens the breaker.
const MAX_CONSECUTIVE_FAILURES: u32 = 5;
/// The shortest and the longest time for which it stays open; each failed probe or trial doubles the time.
const MIN_PAUSE: Duration = Duration::from_secs(5);
const MAX_PAUSE: Duration = Duration::from_mins(1);
/// The time after which a probe or a trial without a result counts as lost, and is repeated.
pub(super) const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// Decides whether requests should go to one upstream.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    consecutive_failures: AtomicU32,
    /// The monotonic time in milliseconds of the next probe or trial; zero while the breaker is closed.
    retry_at: AtomicU64,
    /// The [`Stage`] of an open breaker.
    stage: AtomicU8,
    /// How many times it has opened without a success in between.
    opened: AtomicU32,
}

/// What an open breaker waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Stage {
    /// The end of the pause.
    Pause,
    /// The result of the background probe.
    Probe,
    /// A request to elect as the trial, after a successful probe.
    Ready,
    /// The result of the trial.
    Trial,
}

/// Whether a request should be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permission {
    /// It should be sent.
    Granted,
    /// Other upstreams should be tried first.
    Denied,
    /// Other upstreams should be tried first, and the caller must start the background probe.
    ProbeDue,
}

impl Breaker {
    /// Decides about one request. After the pause, one caller is elected to start the probe; after a successful
    /// probe, one request is elected as the trial.
    pub(super) fn permit(&self, now: Duration) -> Permission {
        let (now, retry_at) = (millis(now), self.retry_at.load(Ordering::Relaxed));
        if retry_at == 0 {
            return Permission::Granted;
        }
        let is_elected = now >= retry_at && {
            let next = now + millis(PROBE_TIMEOUT);
            let relaxed = Ordering::Relaxed;
            self.retry_at.compare_exchange(retry_at, next, relaxed, relaxed).is_ok()
        };
        if !is_elected {
            return Permission::Denied;
        }
        if self.is_in(Stage::Ready) || self.is_in(Stage::Trial) {
            self.enter(Stage::Trial);
            return Permission::Granted;
        }
        self.enter(Stage::Probe);
        Permission::ProbeDue
    }

    /// Records the result of a background probe. Returns the time for which the breaker stays open, if the probe
    /// failed.
    pub(super) fn record_probe(&self, is_alive: bool, now: Duration) -> Option<Duration> {
        if self.retry_at.load(Ordering::Relaxed) == 0 || !self.is_in(Stage::Probe) {
            return None;
        }
        if !is_alive {
            return Some(self.open(now));
        }
        self.enter(Stage::Ready);
        self.retry_at.store(millis(now).max(1), Ordering::Relaxed);
        None
    }

    /// Records the success of any request, which closes an open breaker. Returns whether it was open.
    pub(super) fn record_success(&self) -> bool {
        // The load avoids a store, which would take the cache line from all other cores.
        if self.consecutive_failures.load(Ordering::Relaxed) != 0 {
            self.consecutive_failures.store(0, Ordering::Relaxed);
        }
        // Of concurrent successes, one closes it.
        let was_open = self.retry_at.load(Ordering::Relaxed) != 0
            && self.retry_at.swap(0, Ordering::Relaxed) != 0;
        if was_open {
            self.enter(Stage::Pause);
            self.opened.store(0, Ordering::Relaxed);
        }
        was_open
    }

    /// Records the failure of a request. `has_high_failure_rate` is called if the breaker is closed and the
    /// failures in a row do not open it. Returns the time for which the breaker opens, if it opens now.
    pub(super) fn record_failure(
        &self,
        now: Duration,
        has_high_failure_rate: impl FnOnce() -> bool,
    ) -> Option<Duration> {
        let in_a_row = self.consecutive_failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let relaxed = Ordering::Relaxed;
        let opens = if self.retry_at.load(relaxed) == 0 {
            let has_failed = in_a_row >= MAX_CONSECUTIVE_FAILURES || has_high_failure_rate();
            // Of concurrent failures, one opens it.
            let claim = millis(now + MIN_PAUSE);
            has_failed && self.retry_at.compare_exchange(0, claim, relaxed, relaxed).is_ok()
        } else {
            // Failures without a trial are those of requests that were sent before it opened, or although it
            // was open. They do not prolong the pause.
            let (trial, pause) = (Stage::Trial as u8, Stage::Pause as u8);
            self.stage.compare_exchange(trial, pause, relaxed, relaxed).is_ok()
        };
        opens.then(|| self.open(now))
    }

    /// Returns the state at `now`.
    pub(super) fn state(&self, now: Duration) -> BreakerState {
        let retry_at = self.retry_at.load(Ordering::Relaxed);
        let left = retry_at.saturating_sub(millis(now));
        if retry_at == 0 {
            BreakerState::Closed
        } else if left == 0 || !self.is_in(Stage::Pause) {
            BreakerState::HalfOpen
        } else {
            BreakerState::Open { left: Duration::from_millis(left) }
        }
    }

    /// Opens the breaker, and returns for how long.
    fn open(&self, now: Duration) -> Duration {
        let before = self.opened.fetch_add(1, Ordering::Relaxed);
        let pause = MIN_PAUSE.saturating_mul(1 << before.min(16)).min(MAX_PAUSE);
        self.enter(Stage::Pause);
        self.retry_at.store(millis(now + pause), Ordering::Relaxed);
        pause
    }

    fn enter(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
    }

    fn is_in(&self, stage: Stage) -> bool {
        self.stage.load(Ordering::Relaxed) == stage as u8
    }
}

/// Returns a time in milliseconds, saturating.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Permission::{Denied, Granted, ProbeDue};
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Returns a breaker that opened at ten seconds.
    fn opened() -> Breaker {
        let breaker = Breaker::default();
        let opened: Vec<_> =
            (0..5).map(|_| breaker.record_failure(seconds(10), || false)).collect();
        assert_eq!(opened, [None, None, None, None, Some(MIN_PAUSE)]);
        breaker
    }

    /// Returns a breaker whose background probe succeeded at 15 seconds.
    fn probed() -> Breaker {
        let breaker = opened();
        assert_eq!(breaker.permit(seconds(15)), ProbeDue);
        assert_eq!(breaker.record_probe(true, seconds(15)), None);
        breaker
    }

    /// Regression test: each of two failures at the same time opened it, so that its first pause was twice as long.
    #[test]
    fn concurrent_failures_open_it_once() {
        for _ in 0..2_000 {
            let breaker = Breaker::default();
            for _ in 0..4 {
                breaker.record_failure(seconds(10), || false);
            }
            let barrier = std::sync::Barrier::new(2);
            let fail = || {
                barrier.wait();
                breaker.record_failure(seconds(10), || false)
            };
            let opened = std::thread::scope(|scope| {
                let other = scope.spawn(fail);
                [fail(), other.join().unwrap()]
            });
            assert_eq!(opened.into_iter().flatten().collect::<Vec<_>>(), [MIN_PAUSE]);
        }
    }

    #[test]
    fn failures_in_a_row_open_it_and_a_success_between_does_not_let_them() {
        let breaker = Breaker::default();
        for _ in 0..4 {
            assert_eq!(breaker.record_failure(seconds(1), || false), None);
        }
        breaker.record_success();
        assert_eq!(breaker.record_failure(seconds(1), || false), None);
        assert_eq!(breaker.permit(seconds(1)), Granted);
        let breaker = opened();
        assert_eq!([10, 14].map(|at| breaker.permit(seconds(at))), [Denied, Denied]);
        assert_eq!(breaker.state(seconds(12)), BreakerState::Open { left: seconds(3) });
        assert_eq!([breaker.record_success(), breaker.record_success()], [true, false]);
        assert_eq!(breaker.state(seconds(12)), BreakerState::Closed);
    }

    #[test]
    fn a_high_failure_rate_opens_it_at_once() {
        let breaker = Breaker::default();
        assert_eq!(breaker.record_failure(seconds(1), || true), Some(MIN_PAUSE));
    }

    #[test]
    fn after_the_pause_no_request_is_the_first_attempt() {
        let breaker = opened();
        assert_eq!(breaker.state(seconds(15)), BreakerState::HalfOpen);
        assert_eq!(breaker.permit(seconds(15)), ProbeDue);
        assert_eq!([15, 24].map(|at| breaker.permit(seconds(at))), [Denied, Denied]);
        assert_eq!(breaker.state(seconds(20)), BreakerState::HalfOpen);
        assert_eq!(breaker.permit(seconds(25)), ProbeDue, "the first probe was lost");
    }

    #[test]
    fn after_a_successful_probe_one_request_goes_through() {
        let breaker = probed();
        assert_eq!(breaker.state(seconds(15)), BreakerState::HalfOpen);
        assert_eq!(breaker.permit(seconds(16)), Granted);
        assert_eq!([16, 25].map(|at| breaker.permit(seconds(at))), [Denied, Denied]);
        assert_eq!(breaker.permit(seconds(26)), Granted, "the first trial was lost");
    }

    #[test]
    fn a_trial_that_succeeds_closes_it() {
        let breaker = probed();
        assert_eq!(breaker.permit(seconds(15)), Granted);
        breaker.record_success();
        assert_eq!(breaker.state(seconds(15)), BreakerState::Closed);
        assert_eq!([15, 15].map(|at| breaker.permit(seconds(at))), [Granted, Granted]);
    }

    #[test]
    fn each_probe_or_trial_that_fails_doubles_the_pause_up_to_a_minute() {
        let (breaker, mut now) = (opened(), 15);
        let mut pauses = Vec::new();
        for round in 0..6 {
            assert_eq!(breaker.permit(seconds(now)), ProbeDue);
            let pause = if round % 2 == 0 {
                breaker.record_probe(false, seconds(now)).unwrap()
            } else {
                assert_eq!(breaker.record_probe(true, seconds(now)), None);
                assert_eq!(breaker.permit(seconds(now)), Granted);
                breaker.record_failure(seconds(now), || false).unwrap()
            };
            assert_eq!(breaker.permit(seconds(now)), Denied);
            now += pause.as_secs();
            pauses.push(pause.as_secs());
        }
        assert_eq!(pauses, [10, 20, 40, 60, 60, 60]);
        breaker.record_success();
        let again: Vec<_> =
            (0..5).filter_map(|_| breaker.record_failure(seconds(now), || false)).collect();
        assert_eq!(again, [MIN_PAUSE]);
    }

    #[test]
    fn what_is_sent_in_spite_of_it_does_not_prolong_the_pause() {
        let breaker = opened();
        assert_eq!(breaker.record_failure(seconds(12), || true), None);
        assert_eq!(breaker.permit(seconds(15)), ProbeDue);
        assert_eq!(breaker.record_failure(seconds(15), || true), None, "not the probe's");
        assert_eq!(breaker.record_probe(true, seconds(16)), None);
        assert_eq!(breaker.permit(seconds(16)), Granted);
    }

    #[test]
    fn a_late_probe_result_does_not_affect_a_closed_breaker() {
        let breaker = opened();
        assert_eq!(breaker.permit(seconds(15)), ProbeDue);
        breaker.record_success();
        assert_eq!(breaker.record_probe(false, seconds(16)), None);
        assert_eq!(breaker.permit(seconds(16)), Granted);
    }

    proptest! {
        #[test]
        fn it_never_keeps_requests_away_for_good(
            steps in prop::collection::vec((0_u64..70_000, 0_u8..5), 0..200)
        ) {
            let (breaker, mut now) = (Breaker::default(), Duration::ZERO);
            for (later, what) in steps {
                now += Duration::from_millis(later);
                match what {
                    0 => _ = breaker.permit(now),
                    1 => _ = breaker.record_success(),
                    2 => _ = breaker.record_probe(later % 2 == 0, now),
                    _ => _ = breaker.record_failure(now, || later % 7 == 0),
                }
            }
            now += MAX_PAUSE;
            match breaker.permit(now) {
                Granted => {}
                Denied => prop_assert!(false, "the pause is over"),
                ProbeDue => {
                    _ = breaker.record_probe(true, now);
                    prop_assert_eq!(breaker.permit(now), Granted);
                }
            }
        }
    }
}
