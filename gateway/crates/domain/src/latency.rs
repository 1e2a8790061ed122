//! A latency histogram with logarithmic buckets, and its percentiles.
//!
//! Pure arithmetic: callers keep the bucket counts, as plain or as atomic integers.

use std::time::Duration;

/// The number of buckets.
pub const BUCKETS: usize = SUB * (LAST - FIRST + 1) as usize;
/// Buckets per power of two. A reported percentile exceeds the exact value by at most 1/16.
const SUB: usize = 16;
/// The range as powers of two, in microseconds: the first bucket begins at 128 µs, the last one
/// ends at 71 minutes.
const FIRST: u32 = 7;
const LAST: u32 = 31;

/// Upper bounds of the 50th, 90th and 99th percentile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percentiles {
    /// The median.
    pub p50: Duration,
    /// The 90th percentile.
    pub p90: Duration,
    /// The 99th percentile.
    pub p99: Duration,
}

/// Returns the bucket of a duration. Durations out of range are in the first or the last bucket.
pub fn bucket(duration: Duration) -> usize {
    let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).max(1 << FIRST);
    let power = micros.ilog2();
    if power > LAST {
        return BUCKETS - 1;
    }
    let sub = usize::try_from(micros >> (power - SUB.ilog2())).unwrap_or(usize::MAX) % SUB;
    (power - FIRST) as usize * SUB + sub
}

impl Percentiles {
    /// Returns the percentiles of the bucket counts; `None` if all are zero.
    pub fn of(counts: &[u64; BUCKETS]) -> Option<Self> {
        let total: u64 = counts.iter().sum();
        let percentile = |percent: u64| {
            let rank = (total * percent).div_ceil(100);
            let mut cumulative = 0;
            let bucket = counts.iter().position(|count| {
                cumulative += count;
                cumulative >= rank
            });
            upper_bound(bucket.unwrap_or(BUCKETS - 1))
        };
        (total > 0).then(|| Self { p50: percentile(50), p90: percentile(90), p99: percentile(99) })
    }
}

/// Returns the longest duration of a bucket.
fn upper_bound(bucket: usize) -> Duration {
    let (power, sub) = (bucket / SUB, bucket % SUB);
    let lowest = 1_u64 << (FIRST as usize + power);
    Duration::from_micros(lowest + lowest / SUB as u64 * (sub as u64 + 1) - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(durations: impl IntoIterator<Item = Duration>) -> Option<Percentiles> {
        let mut counts = [0; BUCKETS];
        durations.into_iter().for_each(|duration| counts[bucket(duration)] += 1);
        Percentiles::of(&counts)
    }

    #[test]
    fn empty_histogram_has_no_percentiles() {
        assert_eq!(of([]), None);
    }

    #[test]
    fn percentiles_of_a_hundred_values_are_within_a_sixteenth() {
        let found = of((1..=100).map(|n| Duration::from_millis(10 * n))).unwrap();
        for (found, exact) in [(found.p50, 500), (found.p90, 900), (found.p99, 990)] {
            let exact = Duration::from_millis(exact);
            let max = exact.mul_f64(1.0 + 1.0 / 16.0);
            assert!(found >= exact && found <= max, "{found:?} {exact:?}");
        }
    }

    proptest! {
        #[test]
        fn median_of_one_value_is_within_a_sixteenth(micros in 128_u64..1 << 32) {
            let duration = Duration::from_micros(micros);
            let found = of([duration]).unwrap().p50;
            prop_assert!(found >= duration && found <= duration.mul_f64(1.0 + 1.0 / 16.0));
        }

        #[test]
        fn buckets_are_in_range_and_monotonic(a in any::<u64>(), b in any::<u64>()) {
            let [a, b] = [a.min(b), a.max(b)].map(|micros| bucket(Duration::from_micros(micros)));
            prop_assert!(a <= b && b < BUCKETS);
        }
    }
}
