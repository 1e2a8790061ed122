//! Token prices and the cost of a request.

use super::money::Nanos;
use super::usage::Usage;

/// Prices per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    /// For input tokens that were not cached.
    pub input: Nanos,
    /// For cached input tokens.
    pub cached: Nanos,
    /// For output tokens, including reasoning.
    pub output: Nanos,
    /// The version, incremented with each change.
    pub version: u32,
}

impl Price {
    /// Whether all prices are zero or negative.
    pub fn is_free(&self) -> bool {
        self.input <= Nanos::ZERO && self.cached <= Nanos::ZERO && self.output <= Nanos::ZERO
    }

    /// Returns the cost of `usage`, summed in 128 bits and rounded once, half up, to the
    /// nanodollar.
    pub fn cost(&self, usage: &Usage) -> Nanos {
        let cached = usage.cached.map_or(0, |tokens| tokens.0.min(usage.input.0));
        let of = |tokens: u64, price: Nanos| i128::from(tokens) * i128::from(price.0);
        let millionths = of(usage.input.0 - cached, self.input)
            .saturating_add(of(cached, self.cached))
            .saturating_add(of(usage.output.0, self.output));
        let rounded = millionths.saturating_add(500_000).div_euclid(1_000_000);
        Nanos(i64::try_from(rounded).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::Tokens;

    fn check(price: [i64; 3], input: u64, cached: Option<u64>, output: u64, expected: i64) {
        let price = Price {
            input: Nanos(price[0]),
            cached: Nanos(price[1]),
            output: Nanos(price[2]),
            version: 1,
        };
        let usage = Usage {
            input: Tokens(input),
            cached: cached.map(Tokens),
            output: Tokens(output),
            reasoning: None,
        };
        assert_eq!(price.cost(&usage), Nanos(expected));
    }

    #[test]
    fn charges_each_class_at_its_price() {
        check(
            [3_000_000_000, 300_000_000, 15_000_000_000],
            1_000,
            Some(400),
            100,
            1_800_000 + 120_000 + 1_500_000,
        );
        check([1_000_000, 0, 1_000_000], 120, None, 100, 220);
    }

    #[test]
    fn rounds_once_and_half_up() {
        check([1, 1, 1], 250_000, Some(125_000), 250_000, 1);
        check([1, 1, 1], 499_999, None, 0, 0);
    }

    #[test]
    fn huge_counts_saturate_without_overflow() {
        check([i64::MAX; 3], u64::MAX, None, u64::MAX, i64::MAX);
        check([5, 1, 0], 10, Some(u64::MAX), 0, 0);
    }
}
