//! A histogram with fixed bounds, as Prometheus defines it.

/// Counts values by the smallest bound that is not less than them.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One for each bound, and one for the values above all of them.
    counts: Box<[u64]>,
    sum: f64,
}

impl Histogram {
    /// Creates an empty histogram with these bounds, in ascending order.
    pub fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1].into(), sum: 0.0 }
    }

    /// Counts a value.
    pub fn observe(&mut self, value: f64) {
        self.counts[self.bucket(value)] += 1;
        self.sum += value;
    }

    /// Returns the index of the bucket that a value is counted in.
    pub fn bucket(&self, value: f64) -> usize {
        self.bounds.partition_point(|bound| *bound < value)
    }

    /// Returns the number of buckets.
    pub fn buckets(&self) -> usize {
        self.counts.len()
    }

    /// Returns the number of values in each bucket.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Returns each bound with the number of values up to it; the last bound is infinite.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        bounds.zip(&self.counts).scan(0, |total, (bound, count)| {
            *total += count;
            Some((bound, *total))
        })
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of the values.
    pub fn sum(&self) -> f64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_includes_the_values_that_equal_it() {
        let mut histogram = Histogram::new(&[1.0, 2.0]);
        for value in [0.5, 1.0, 1.5, 2.0, 9.0] {
            histogram.observe(value);
        }
        let expected = [(1.0, 2), (2.0, 4), (f64::INFINITY, 5)];
        assert_eq!(histogram.cumulative().collect::<Vec<_>>(), expected);
        assert_eq!((histogram.count(), histogram.sum()), (5, 14.0));
    }
}
