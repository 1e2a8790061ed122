//! Keeps requests from an upstream that fails, for a while.
//!
//! Pure over `now`, the monotonic time, and made of atomics: a request asks once and tells once. A breaker
//! refuses nothing by itself: who finds it open goes elsewhere first.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use domain::health::BreakerState;

/// So many failures with no success between them open it.
const FAILURES_IN_A_ROW: u32 = 5;
/// How long it stays open at first, and at most: each probe that fails doubles the time.
const MIN_PAUSE: Duration = Duration::from_secs(5);
const MAX_PAUSE: Duration = Duration::from_mins(1);
/// A probe that has not ended after so long counts as lost, and another request is one.
const PROBE: Duration = Duration::from_secs(10);

/// Whether requests should go to one upstream.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures_in_a_row: AtomicU32,
    /// Milliseconds at which the next request goes through; zero while it is closed.
    retry_at: AtomicU64,
    /// Whether such a request is under way.
    probing: AtomicBool,
    /// How often in a row it has opened.
    opened: AtomicU32,
}

impl Breaker {
    /// Whether a request may go there. Once the pause is over, one may: its probe.
    pub(super) fn permits(&self, now: Duration) -> bool {
        let (now, retry_at) = (millis(now), self.retry_at.load(Ordering::Relaxed));
        if retry_at == 0 {
            return true;
        }
        let claimed = now >= retry_at && {
            let next = now + millis(PROBE);
            let relaxed = Ordering::Relaxed;
            self.retry_at.compare_exchange(retry_at, next, relaxed, relaxed).is_ok()
        };
        if claimed {
            self.probing.store(true, Ordering::Relaxed);
        }
        claimed
    }

    /// Learns that a request was answered.
    pub(super) fn succeeded(&self) {
        // looked at first: a write would take the line from all other cores
        if self.failures_in_a_row.load(Ordering::Relaxed) != 0 {
            self.failures_in_a_row.store(0, Ordering::Relaxed);
        }
        if self.retry_at.load(Ordering::Relaxed) != 0 {
            self.retry_at.store(0, Ordering::Relaxed);
            self.probing.store(false, Ordering::Relaxed);
            self.opened.store(0, Ordering::Relaxed);
        }
    }

    /// Learns that a request failed; `mostly` if most of late did. Returns for how long it opened, if it
    /// did now.
    pub(super) fn failed(&self, now: Duration, mostly: impl FnOnce() -> bool) -> Option<Duration> {
        let in_a_row = self.failures_in_a_row.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let opens = if self.retry_at.load(Ordering::Relaxed) == 0 {
            in_a_row >= FAILURES_IN_A_ROW || mostly()
        } else {
            // of those that were sent while it was open, only the probe says something new
            self.probing.swap(false, Ordering::Relaxed)
        };
        opens.then(|| {
            let before = self.opened.fetch_add(1, Ordering::Relaxed);
            let pause = MIN_PAUSE.saturating_mul(1 << before.min(16)).min(MAX_PAUSE);
            self.retry_at.store(millis(now + pause), Ordering::Relaxed);
            pause
        })
    }

    /// Returns what it is.
    pub(super) fn state(&self, now: Duration) -> BreakerState {
        let left = self.retry_at.load(Ordering::Relaxed).saturating_sub(millis(now));
        if self.retry_at.load(Ordering::Relaxed) == 0 {
            BreakerState::Closed
        } else if left == 0 || self.probing.load(Ordering::Relaxed) {
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

    /// A breaker that opened at ten seconds.
    fn opened() -> Breaker {
        let breaker = Breaker::default();
        let opened: Vec<_> = (0..5).map(|_| breaker.failed(seconds(10), || false)).collect();
        assert_eq!(opened, [None, None, None, None, Some(MIN_PAUSE)]);
        breaker
    }

    #[test]
    fn failures_in_a_row_open_it_and_a_success_between_does_not_let_them() {
        let breaker = Breaker::default();
        for _ in 0..4 {
            assert_eq!(breaker.failed(seconds(1), || false), None);
        }
        breaker.succeeded();
        assert_eq!(breaker.failed(seconds(1), || false), None);
        assert!(breaker.permits(seconds(1)));
        let breaker = opened();
        assert!(!breaker.permits(seconds(10)) && !breaker.permits(seconds(14)));
        assert_eq!(breaker.state(seconds(12)), BreakerState::Open { left: seconds(3) });
    }

    #[test]
    fn failing_mostly_opens_it_at_once() {
        let breaker = Breaker::default();
        assert_eq!(breaker.failed(seconds(1), || true), Some(MIN_PAUSE));
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
        breaker.succeeded();
        assert_eq!(breaker.state(seconds(15)), BreakerState::Closed);
        assert!(breaker.permits(seconds(15)) && breaker.permits(seconds(15)));
    }

    #[test]
    fn each_probe_that_fails_doubles_the_pause_up_to_a_minute() {
        let (breaker, mut now) = (opened(), 15);
        let mut pauses = Vec::new();
        for _ in 0..6 {
            assert!(breaker.permits(seconds(now)));
            let pause = breaker.failed(seconds(now), || false).unwrap();
            assert!(!breaker.permits(seconds(now)));
            now += pause.as_secs();
            pauses.push(pause.as_secs());
        }
        assert_eq!(pauses, [10, 20, 40, 60, 60, 60]);
        assert!(breaker.permits(seconds(now)));
        breaker.succeeded();
        let again: Vec<_> = (0..5).filter_map(|_| breaker.failed(seconds(now), || false)).collect();
        assert_eq!(again, [MIN_PAUSE]);
    }

    #[test]
    fn what_is_sent_in_spite_of_it_does_not_prolong_the_pause() {
        let breaker = opened();
        assert_eq!(breaker.failed(seconds(12), || true), None);
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
                    1 => breaker.succeeded(),
                    _ => _ = breaker.failed(now, || later % 7 == 0),
                }
            }
            prop_assert!(breaker.permits(now + MAX_PAUSE));
        }
    }
}
