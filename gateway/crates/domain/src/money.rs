//! Amounts of money in integer nanodollars, so that sums are exact.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Neg};
use std::str::FromStr;

const PER_DOLLAR: u64 = 1_000_000_000;

/// An amount of money in nanodollars (10⁻⁹ US dollar). Parsed from and displayed as an exact
/// decimal number of dollars: `0.00012`, `-3`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub i64);

/// The error for a text that is not an amount of dollars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an amount: give US dollars as a decimal with at most nine places, such as `12.50`")]
pub struct ParseAmountError;

// === impl Nanos ===

impl Nanos {
    /// No money.
    pub const ZERO: Self = Self(0);

    /// Adds and saturates at the bounds of the range.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Add for Nanos {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.saturating_add(other)
    }
}

impl Neg for Nanos {
    type Output = Self;

    fn neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Self::saturating_add)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) =
            (self.0.unsigned_abs() / PER_DOLLAR, self.0.unsigned_abs() % PER_DOLLAR);
        let sign = if self.0 < 0 { "-" } else { "" };
        if part == 0 {
            return write!(f, "{sign}{whole}");
        }
        let digits = format!("{part:09}");
        write!(f, "{sign}{whole}.{}", digits.trim_end_matches('0'))
    }
}

impl FromStr for Nanos {
    type Err = ParseAmountError;

    fn from_str(text: &str) -> Result<Self, ParseAmountError> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
        let is_number = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !is_number(whole) || !is_number(part) || part.len() > 9 {
            return Err(ParseAmountError);
        }
        if digits.ends_with('.') {
            return Err(ParseAmountError);
        }
        let nanos: i128 = format!("{whole}{part:0<9}").parse().map_err(|_| ParseAmountError)?;
        i64::try_from(if negative { -nanos } else { nanos }).map(Self).map_err(|_| ParseAmountError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displays_and_parses_exact_decimals() {
        for (nanos, text) in [
            (0, "0"),
            (1, "0.000000001"),
            (-1, "-0.000000001"),
            (120, "0.00000012"),
            (5_000_000_000, "5"),
            (-12_500_000_000, "-12.5"),
            (i64::MAX, "9223372036.854775807"),
            (i64::MIN, "-9223372036.854775808"),
        ] {
            assert_eq!(Nanos(nanos).to_string(), text);
            assert_eq!(text.parse(), Ok(Nanos(nanos)));
        }
        assert_eq!("007.10".parse(), Ok(Nanos(7_100_000_000)));
    }

    #[test]
    fn rejects_other_formats_and_values_out_of_range() {
        for text in
            ["", "-", ".5", "1.", "1e3", "0.0000000001", "9223372036.854775808", "1,5", "+1", " 1"]
        {
            assert_eq!(text.parse::<Nanos>(), Err(ParseAmountError), "{text:?}");
        }
    }
}
