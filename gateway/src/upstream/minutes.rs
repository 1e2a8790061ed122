//! Counters of the last minutes, one set per minute.
//!
//! They are atomics. At the turn of a minute, the result of a concurrent request may be counted in either minute or be
//! lost.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use domain::latency::BUCKETS;

const COUNT: usize = 5;
/// The number of minutes that are kept.
pub(super) const MINUTES: u64 = COUNT as u64;

/// The counters of the last [`MINUTES`].
#[derive(Default)]
pub(super) struct Minutes([Minute; COUNT]);

/// The counters of a minute.
pub(super) struct Minute {
    /// The number of the minute plus one; zero for none.
    number: AtomicU64,
    pub(super) requests: AtomicU32,
    pub(super) failures: AtomicU32,
    /// The requests among them that were sent before the last reset.
    pub(super) earlier_requests: AtomicU32,
    /// The failures among them of requests that were sent before the last reset.
    pub(super) earlier_failures: AtomicU32,
    pub(super) implausible: AtomicU32,
    pub(super) latency: [AtomicU32; BUCKETS],
}

// === impl Minutes ===

impl Minutes {
    /// Returns the counters of the current minute, reset if it has just begun.
    pub(super) fn current(&self, now: Duration) -> &Minute {
        let (number, relaxed) = (number(now), Ordering::Relaxed);
        let minute = &self.0[usize::try_from(number).unwrap_or_default() % COUNT];
        let before = minute.number.load(relaxed);
        if before < number
            && minute.number.compare_exchange(before, number, relaxed, relaxed).is_ok()
        {
            minute.requests.store(0, relaxed);
            minute.failures.store(0, relaxed);
            minute.earlier_requests.store(0, relaxed);
            minute.earlier_failures.store(0, relaxed);
            minute.implausible.store(0, relaxed);
            minute.latency.iter().for_each(|cases| cases.store(0, relaxed));
        }
        minute
    }

    /// Returns the sum of one counter over the last `minutes`, the current one included.
    pub(super) fn sum(&self, now: Duration, minutes: u64, of: fn(&Minute) -> &AtomicU32) -> u64 {
        let counts = self.since(now, minutes).map(of);
        counts.map(|count| u64::from(count.load(Ordering::Relaxed))).sum()
    }

    /// Returns the cases in each bucket of latency over all minutes.
    pub(super) fn latency(&self, now: Duration) -> [u64; BUCKETS] {
        let mut latency = [0; BUCKETS];
        for minute in self.since(now, MINUTES) {
            for (sum, cases) in latency.iter_mut().zip(&minute.latency) {
                *sum += u64::from(cases.load(Ordering::Relaxed));
            }
        }
        latency
    }

    fn since(&self, now: Duration, minutes: u64) -> impl Iterator<Item = &Minute> {
        let number = number(now);
        self.0.iter().filter(move |minute| {
            let of = minute.number.load(Ordering::Relaxed);
            of != 0 && of <= number && number - of < minutes
        })
    }
}

impl Default for Minute {
    fn default() -> Self {
        Self {
            number: AtomicU64::default(),
            requests: AtomicU32::default(),
            failures: AtomicU32::default(),
            earlier_requests: AtomicU32::default(),
            earlier_failures: AtomicU32::default(),
            implausible: AtomicU32::default(),
            latency: [const { AtomicU32::new(0) }; BUCKETS],
        }
    }
}

/// Returns the number of the minute of `now`, from 1.
pub(super) fn number(now: Duration) -> u64 {
    now.as_secs() / 60 + 1
}
