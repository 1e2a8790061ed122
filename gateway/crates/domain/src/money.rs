//! Amounts of money in integer nanodollars, so that sums are exact.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Neg};
use std::str::FromStr;

const PER_DOLLAR: u64 = 1_000_000_000;
const MAX_AMOUNT_BYTES: usize = "-9223372036.854775808".len();

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
        // Written from its end, without the formatter: each request shows its cost.
        let mut text = [0; MAX_AMOUNT_BYTES];
        let mut at = text.len();
        let mut put = |byte| {
            at -= 1;
            text[at] = byte;
        };
        let digit = |number: u64| b'0' + (number % 10).to_le_bytes()[0];
        let amount = self.0.unsigned_abs();
        let (mut whole, mut part) = (amount / PER_DOLLAR, amount % PER_DOLLAR);
        if part > 0 {
            let mut places = 9;
            while part.is_multiple_of(10) {
                (part, places) = (part / 10, places - 1);
            }
            for _ in 0..places {
                put(digit(part));
                part /= 10;
            }
            put(b'.');
        }
        put(digit(whole));
        while whole >= 10 {
            whole /= 10;
            put(digit(whole));
        }
        if self.0 < 0 {
            put(b'-');
        }
        f.write_str(std::str::from_utf8(&text[at..]).map_err(|_| fmt::Error)?)
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
