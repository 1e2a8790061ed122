//! A circuit breaker for one upstream.
//!
//! It is a pure function of `now`, the monotonic time, and consists of atomics. Each request calls
//! [`Breaker::permits`] once and records its result once. An open breaker refuses nothing by itself: the
//! caller tries other upstreams first.
//!
//! Results are not attributed to the request that was elected as the probe. While the breaker is open, any
//! success closes it, also that of a request that was sent before: the upstream answers. While a probe is in
//! progress, the first failure counts as the probe's, whichever request failed.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use domain::health::BreakerState;

/// The number of consecutive failures that opens the breaker.
const MAX_CONSECUTIVE_FAILURES: u32 = 5;
/// The shortest and the longest time for which it stays open; each failed probe doubles the time.
const MIN_PAUSE: Duration = Duration::from_secs(5);
const MAX_PAUSE: Duration = Duration::from_mins(1);
/// The time after which a probe without a result counts as lost, and another request becomes the probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// Decides whether requests should go to one upstream.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    consecutive_failures: AtomicU32,
    /// The monotonic time in milliseconds at which the next request may pass; zero while the breaker is
    /// closed.
    retry_at: AtomicU64,
    /// Whether a probe was elected and no failure was recorded since.
    is_probing: AtomicBool,
    /// How many times it has opened without a success in between.
    opened: AtomicU32,
}

impl Breaker {
    /// Returns whether a request may be sent. After the pause, one request may: the probe.
    pub(super) fn permits(&self, now: Duration) -> bool {
        let (now, retry_at) = (millis(now), self.retry_at.load(Ordering::Relaxed));
        if retry_at == 0 {
            return true;
        }
        let claimed = now >= retry_at && {
            let next = now + millis(PROBE_TIMEOUT);
            let relaxed = Ordering::Relaxed;
            self.retry_at.compare_exchange(retry_at, next, relaxed, relaxed).is_ok()
        };
        if claimed {
            self.is_probing.store(true, Ordering::Relaxed);
        }
        claimed
    }

    /// Records the success of any request, which closes an open breaker.
    pub(super) fn record_success(&self) {
        // The load avoids a store, which would take the cache line from all other cores.
        if self.consecutive_failures.load(Ordering::Relaxed) != 0 {
            self.consecutive_failures.store(0, Ordering::Relaxed);
        }
        if self.retry_at.load(Ordering::Relaxed) != 0 {
            self.retry_at.store(0, Ordering::Relaxed);
            self.is_probing.store(false, Ordering::Relaxed);
            self.opened.store(0, Ordering::Relaxed);
        }
    }

    /// Records a failure. `has_high_failure_rate` is called if the breaker is closed and the failures in a row
    /// do not open it. Returns the time for which the breaker opens, if it opens now.
    pub(super) fn record_failure(
        &self,
        now: Duration,
        has_high_failure_rate: impl FnOnce() -> bool,
    ) -> Option<Duration> {
        let in_a_row = self.consecutive_failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let opens = if self.retry_at.load(Ordering::Relaxed) == 0 {
            in_a_row >= MAX_CONSECUTIVE_FAILURES || has_high_failure_rate()
        } else {
            // Failures without a probe are those of requests that were sent before it opened, or although it
            // was open. They do not prolong the pause.
            self.is_probing.swap(false, Ordering::Relaxed)
        };
        opens.then(|| {
            let before = self.opened.fetch_add(1, Ordering::Relaxed);
            let pause = MIN_PAUSE.saturating_mul(1 << before.min(16)).min(MAX_PAUSE);
            self.retry_at.store(millis(now + pause), Ordering::Relaxed);
            pause
        })
    }

    /// Returns the state at `now`.
    pub(super) fn state(&self, now: Duration) -> BreakerState {
        let left = self.retry_at.load(Ordering::Relaxed).saturating_sub(millis(now));
        if self.retry_at.load(Ordering::Relaxed) == 0 {
            BreakerState::Closed
        } else if left == 0 || self.is_probing.load(Ordering::Relaxed) {
            BreakerState::HalfOpen
        } else {
            BreakerState::Open { left: Duration::from_millis(left) }
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    #[test]
    fn failures_in_a_row_open_it_and_a_success_between_does_not_let_them() {
        let breaker = Breaker::default();
        for _ in 0..4 {
            assert_eq!(breaker.record_failure(seconds(1), || false), None);
        }
        breaker.record_success();
        assert_eq!(breaker.record_failure(seconds(1), || false), None);
        assert!(breaker.permits(seconds(1)));
        let breaker = opened();
        assert!(!breaker.permits(seconds(10)) && !breaker.permits(seconds(14)));
        assert_eq!(breaker.state(seconds(12)), BreakerState::Open { left: seconds(3) });
    }

    #[test]
    fn a_high_failure_rate_opens_it_at_once() {
        let breaker = Breaker::default();
        assert_eq!(breaker.record_failure(seconds(1), || true), Some(MIN_PAUSE));
    }

    #[test]
    fn after_the_pause_one_request_goes_through() {
        let breaker = opened();
        assert_eq!(breaker.state(seconds(15)), BreakerState::HalfOpen);
        assert!(breaker.permits(seconds(15)));
        assert!(!breaker.permits(seconds(15)) && !breaker.permits(seconds(24)));
        assert_eq!(breaker.state(seconds(20)), BreakerState::HalfOpen);
        assert!(breaker.permits(seconds(25)), "a probe that was lost is sent again");
    }

    #[test]
    fn a_probe_that_succeeds_closes_it() {
        let breaker = opened();
        assert!(breaker.permits(seconds(15)));
        breaker.record_success();
        assert_eq!(breaker.state(seconds(15)), BreakerState::Closed);
        assert!(breaker.permits(seconds(15)) && breaker.permits(seconds(15)));
    }

    #[test]
    fn each_probe_that_fails_doubles_the_pause_up_to_a_minute() {
        let (breaker, mut now) = (opened(), 15);
        let mut pauses = Vec::new();
        for _ in 0..6 {
            assert!(breaker.permits(seconds(now)));
            let pause = breaker.record_failure(seconds(now), || false).unwrap();
            assert!(!breaker.permits(seconds(now)));
            now += pause.as_secs();
            pauses.push(pause.as_secs());
        }
        assert_eq!(pauses, [10, 20, 40, 60, 60, 60]);
        assert!(breaker.permits(seconds(now)));
        breaker.record_success();
        let again: Vec<_> =
            (0..5).filter_map(|_| breaker.record_failure(seconds(now), || false)).collect();
        assert_eq!(again, [MIN_PAUSE]);
    }

    #[test]
    fn what_is_sent_in_spite_of_it_does_not_prolong_the_pause() {
        let breaker = opened();
        assert_eq!(breaker.record_failure(seconds(12), || true), None);
        assert!(breaker.permits(seconds(15)));
    }

    proptest! {
        #[test]
        fn it_never_keeps_requests_away_for_good(
            steps in prop::collection::vec((0_u64..70_000, 0_u8..3), 0..200)
        ) {
            let (breaker, mut now) = (Breaker::default(), Duration::ZERO);
            for (later, what) in steps {
                now += Duration::from_millis(later);
                match what {
                    0 => _ = breaker.permits(now),
                    1 => breaker.record_success(),
                    _ => _ = breaker.record_failure(now, || later % 7 == 0),
                }
            }
            prop_assert!(breaker.permits(now + MAX_PAUSE));
        }
    }
}
