//! The initial size and the growth of a hold, both for money and for monthly tokens.
//!
//! A stream can be stopped when its hold cannot grow further, so its hold starts with a part of the
//! output cap and grows. A plain answer cannot be stopped early: its hold covers the whole output
//! cap, and the cap is lowered to the part that the hold covers.

/// The step of a reservation, and the initial hold of a stream with a small but sufficient balance,
/// in tokens per answer.
pub const HOLD_STEP: u64 = 1_024;
/// The output cap that a plain answer gets even if it exceeds half of the balance, in tokens.
const MIN_PLAIN_CAP: u64 = 4_096;
/// The divisor of the spendable tokens for one step of a hold. Holds take a small part, so that
/// their unneeded rest does not block concurrent requests.
const HOLD_DIVISOR: u64 = 64;
/// The divisor for small balances, whose part by [`HOLD_DIVISOR`] is less than [`HOLD_STEP`].
const SMALL_BALANCE_DIVISOR: u64 = 16;
/// The minimum growth of a hold, in tokens.
const MIN_STEP: u64 = 16;
/// The maximum growth of a hold beyond the required amount, in tokens.
const MAX_STEP: u64 = 16 * HOLD_STEP;

/// The factor by which an answer may exceed a client's output cap. An answer that ends at the
/// upstream's cap may have more tokens by our tokenizer than by the upstream's. Beyond this factor
/// plus [`CAP_TOLERANCE`], the upstream ignores the cap.
const CLIENT_CAP_FACTOR: u64 = 4;
/// Like [`CLIENT_CAP_FACTOR`], for a cap that was lowered to the balance. Smaller, because the
/// excess is not paid.
const LOWERED_CAP_FACTOR: u64 = 2;
/// The constant part of the tolerance, in tokens. See [`CLIENT_CAP_FACTOR`].
const CAP_TOLERANCE: u64 = 64;

/// The form of an answer, which determines its hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldPolicy {
    /// Streamed; can be stopped early.
    Stream,
    /// Not streamed.
    Plain {
        /// Whether the client set an output cap.
        is_capped: bool,
    },
}

impl HoldPolicy {
    /// Returns the output cap of an answer, in tokens: `wanted` is the requested maximum, `payable`
    /// the tokens that the balance covers.
    ///
    /// A plain answer that must be shortened anyway, or that has no client cap, gets half of
    /// `payable`: the rest remains for concurrent requests.
    pub fn output_cap(self, wanted: u64, payable: u64) -> u64 {
        let share = (payable / 2).max(payable.min(MIN_PLAIN_CAP));
        match self {
            Self::Stream => wanted.min(payable),
            Self::Plain { is_capped: true } if wanted <= payable => wanted,
            Self::Plain { .. } => wanted.min(share),
        }
    }

    /// Returns the least `payable` with which [`Self::output_cap`] allows all of `wanted`, in tokens.
    pub const fn payable_for(self, wanted: u64) -> u64 {
        match self {
            Self::Plain { is_capped: false } if wanted > MIN_PLAIN_CAP => wanted.saturating_mul(2),
            Self::Stream | Self::Plain { .. } => wanted,
        }
    }

    /// Returns the initial hold of an answer with an output cap of `allowed`, in tokens.
    pub fn initial_hold(self, allowed: u64, payable: u64) -> u64 {
        match self {
            Self::Stream => {
                let small = (payable / SMALL_BALANCE_DIVISOR).clamp(MIN_STEP, HOLD_STEP);
                allowed.min((payable / HOLD_DIVISOR).max(small))
            }
            Self::Plain { .. } => allowed,
        }
    }
}

/// Returns the tokens by which a growing hold exceeds the required amount, if the balance covers
/// `payable` tokens.
pub fn growth_step(payable: u64) -> u64 {
    (payable / HOLD_DIVISOR).clamp(MIN_STEP, MAX_STEP)
}

/// Returns the tokens that an answer of `tokens` keeps of its hold while other requests wait for
/// the unneeded rest.
pub const fn retained_hold(tokens: u64) -> u64 {
    tokens.saturating_add(MIN_STEP)
}

/// Returns the maximum length of an answer whose upstream obeys a client's `cap`, in tokens of our
/// tokenizer.
pub const fn max_tolerated_output(cap: u64) -> u64 {
    cap.saturating_mul(CLIENT_CAP_FACTOR).saturating_add(CAP_TOLERANCE)
}

/// Like [`max_tolerated_output`], for a cap that was lowered to the balance.
pub const fn max_tolerated_if_lowered(cap: u64) -> u64 {
    cap.saturating_mul(LOWERED_CAP_FACTOR).saturating_add(CAP_TOLERANCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_start_with_a_partial_hold_and_plain_answers_with_a_full_one() {
        let check = |policy: HoldPolicy, wanted, payable, expected: (u64, u64)| {
            let allowed = policy.output_cap(wanted, payable);
            let found = (allowed, policy.initial_hold(allowed, payable));
            assert_eq!(found, expected, "{policy:?} {wanted} {payable}");
        };
        let (capped, uncapped) =
            (HoldPolicy::Plain { is_capped: true }, HoldPolicy::Plain { is_capped: false });
        check(HoldPolicy::Stream, 131_072, 2_500_000, (131_072, 39_062));
        check(HoldPolicy::Stream, 500, 2_500_000, (500, 500));
        check(HoldPolicy::Stream, 131_072, 50_000, (50_000, 1_024));
        check(HoldPolicy::Stream, 131_072, 8_000, (8_000, 500));
        check(HoldPolicy::Stream, 131_072, 25, (25, 16));
        check(HoldPolicy::Stream, 131_072, 5, (5, 5));
        check(capped, 9_000, 10_000, (9_000, 9_000));
        check(capped, 25_000_000, 10_000, (5_000, 5_000));
        check(capped, 25_000_000, 450, (450, 450));
        check(uncapped, 9_000, 10_000, (5_000, 5_000));
        check(uncapped, 9_000, 1_000_000, (9_000, 9_000));
        check(uncapped, 9_000, 4_000, (4_000, 4_000));
        check(uncapped, 9_000, 0, (0, 0));
        for policy in [HoldPolicy::Stream, capped, uncapped] {
            for wanted in [1, 4_095, 4_096, 4_097, 9_000] {
                let payable = policy.payable_for(wanted);
                let caps =
                    (policy.output_cap(wanted, payable), policy.output_cap(wanted, payable - 1));
                assert!(caps.0 == wanted && caps.1 < wanted, "{policy:?} {wanted}");
            }
        }
    }
}
