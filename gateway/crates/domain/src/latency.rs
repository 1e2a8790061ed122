//! How long things take: counts in buckets that widen with what they hold, and what they say.
//!
//! Pure arithmetic. Whoever counts keeps the buckets, as plain or as atomic numbers.

use std::time::Duration;

/// How many buckets there are.
pub const BUCKETS: usize = SUB * (LAST - FIRST + 1) as usize;
/// Buckets between a duration and twice that: what is told of one is at most a sixteenth above it.
const SUB: usize = 16;
/// Powers of two, in microseconds: the first buckets begin at an eighth of a millisecond, the last ones
/// end at 71 minutes.
const FIRST: u32 = 7;
const LAST: u32 = 31;

/// How long half, nine tenths and 99 hundredths of the cases took at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percentiles {
    /// Half of them.
    pub p50: Duration,
    /// Nine in ten.
    pub p90: Duration,
    /// 99 in a hundred.
    pub p99: Duration,
}

/// Returns the bucket of a duration; what is beyond the ends is in the first or the last one.
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
    /// Returns what the counts of all buckets say; `None` if they are all zero.
    pub fn of(counts: &[u64; BUCKETS]) -> Option<Self> {
        let cases: u64 = counts.iter().sum();
        let within = |hundredths: u64| {
            let wanted = (cases * hundredths).div_ceil(100);
            let mut seen = 0;
            let last = counts.iter().position(|count| {
                seen += count;
                seen >= wanted
            });
            end(last.unwrap_or(BUCKETS - 1))
        };
        (cases > 0).then(|| Self { p50: within(50), p90: within(90), p99: within(99) })
    }
}

/// The longest duration of a bucket.
fn end(bucket: usize) -> Duration {
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
    fn nothing_says_nothing() {
        assert_eq!(of([]), None);
    }

    #[test]
    fn a_hundred_cases_are_told_apart() {
        let told = of((1..=100).map(|n| Duration::from_millis(10 * n))).unwrap();
        for (told, exact) in [(told.p50, 500), (told.p90, 900), (told.p99, 990)] {
            let exact = Duration::from_millis(exact);
            assert!(told >= exact && told <= exact.mul_f64(1.0 + 1.0 / 16.0), "{told:?} {exact:?}");
        }
    }

    proptest! {
        #[test]
        fn one_case_is_told_to_a_sixteenth(micros in 128_u64..1 << 32) {
            let duration = Duration::from_micros(micros);
            let told = of([duration]).unwrap().p50;
            prop_assert!(told >= duration && told <= duration.mul_f64(1.0 + 1.0 / 16.0));
        }

        #[test]
        fn every_duration_has_a_bucket_and_longer_ones_no_earlier(a in any::<u64>(), b in any::<u64>()) {
            let [a, b] = [a.min(b), a.max(b)].map(|micros| bucket(Duration::from_micros(micros)));
            prop_assert!(a <= b && b < BUCKETS);
        }
    }
}
