//! Generates ids of items and calls (`R-10`).

/// Generates distinct ids from a seed.
#[derive(Debug)]
pub(super) struct IdGenerator {
    seed: u128,
    made: u128,
}

impl IdGenerator {
    pub(super) fn new(seed: u128) -> Self {
        Self { seed, made: 0 }
    }

    /// Returns the next id: `prefix` and 32 hexadecimal digits.
    pub(super) fn next(&mut self, prefix: &str) -> String {
        // Each step is a bijection, so distinct counters give distinct ids.
        let mut mixed = self.seed.wrapping_add(self.made.wrapping_mul(STEP));
        for _ in 0..2 {
            mixed ^= mixed >> 67;
            mixed = mixed.wrapping_mul(FACTOR);
        }
        mixed ^= mixed >> 61;
        self.made += 1;
        format!("{prefix}{mixed:032x}")
    }
}

/// Odd constants with irregular bits.
const STEP: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
const FACTOR: u128 = 0xd6e8_feb8_6659_fd93_c2b2_ae3d_27d4_eb4f;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_are_distinct_and_repeatable() {
        let make = |seed| {
            let mut ids = IdGenerator::new(seed);
            (0..10_000).map(|_| ids.next("fc_")).collect::<Vec<_>>()
        };
        let (one, other) = (make(0), make(1));
        assert_eq!(one, make(0));
        assert!(one.iter().all(|id| id.len() == 35), "{}", one[0]);
        assert_eq!(one.iter().chain(&other).collect::<HashSet<_>>().len(), 20_000);
    }
}
