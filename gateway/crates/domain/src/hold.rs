//! How much of an answer is held for before it begins, and how a hold grows: the same for money and for
//! tokens per month.
//!
//! A stream can be ended where nobody can pay for more, so it begins with a part of its cap and grows. A
//! plain answer shows nothing before its end: all that it may be is held for, and what is not held for it
//! may not be.

/// Held for a stream in any case where there is enough, in tokens for each answer.
pub const SLICE: u64 = 1_024;
/// What a plain answer may be even if that is more than its share, in tokens.
const MIN_PLAIN_CAP: u64 = 4_096;
/// A hold takes this part of what can be spent at once, so that what it does not need in the end stands in
/// nobody's way: with plenty.
const PART_OF_PLENTY: u64 = 64;
/// The same where there is less than [`SLICE`] for each of that many.
const PART_OF_LITTLE: u64 = 16;
/// A hold grows by this much at least, in tokens.
const MIN_STEP: u64 = 16;
/// A hold grows by this much at most beyond what is needed, in tokens.
const MAX_STEP: u64 = 16 * SLICE;

/// An answer that ends by its upstream's cap may have more tokens by our tokenizer than by the upstream's.
/// Beyond this factor and [`CAP_TOLERANCE`] the upstream does not keep to a cap that its client set.
const CLIENT_CAP_FACTOR: u64 = 4;
/// The same of a cap that was lowered to what can be paid: what is beyond it is paid by nobody.
const LOWERED_CAP_FACTOR: u64 = 2;
/// See [`CLIENT_CAP_FACTOR`]; in tokens.
const CAP_TOLERANCE: u64 = 64;

/// How an answer comes, as far as that decides what is held for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldPolicy {
    /// In pieces, so that it can be ended.
    Stream,
    /// All at once.
    Plain {
        /// Whether its client said how long it may be.
        is_capped: bool,
    },
}

impl HoldPolicy {
    /// How long an answer may be, in tokens, whose longest is `wanted` if what is left pays for `payable`.
    ///
    /// A plain answer that is to be shortened anyway, or to which its client set no bound, gets half of
    /// what is left: the rest is for the requests beside it.
    pub fn allowed(self, wanted: u64, payable: u64) -> u64 {
        let share = (payable / 2).max(payable.min(MIN_PLAIN_CAP));
        match self {
            Self::Stream => wanted.min(payable),
            Self::Plain { is_capped: true } if wanted <= payable => wanted,
            Self::Plain { .. } => wanted.min(share),
        }
    }

    /// How much of an answer of up to `allowed` tokens is held for to begin with.
    pub fn initial(self, allowed: u64, payable: u64) -> u64 {
        match self {
            Self::Stream => {
                let little = (payable / PART_OF_LITTLE).clamp(MIN_STEP, SLICE);
                allowed.min((payable / PART_OF_PLENTY).max(little))
            }
            Self::Plain { .. } => allowed,
        }
    }
}

/// How much is held beyond what is needed by a hold that grows while so many tokens can be paid for.
pub fn growth_step(payable: u64) -> u64 {
    (payable / PART_OF_PLENTY).clamp(MIN_STEP, MAX_STEP)
}

/// How much of a hold is kept by an answer of so many tokens while others wait for what it does not need.
pub const fn kept(tokens: u64) -> u64 {
    tokens.saturating_add(MIN_STEP)
}

/// The most tokens, by our tokenizer, that an answer has whose upstream keeps to its client's cap.
pub const fn tolerated(cap: u64) -> u64 {
    cap.saturating_mul(CLIENT_CAP_FACTOR).saturating_add(CAP_TOLERANCE)
}

/// The same of a cap that was lowered to what can be paid.
pub const fn tolerated_if_lowered(cap: u64) -> u64 {
    cap.saturating_mul(LOWERED_CAP_FACTOR).saturating_add(CAP_TOLERANCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_begins_with_a_part_and_a_plain_answer_has_all_that_it_may_be() {
        let check = |policy: HoldPolicy, wanted, payable, expected: (u64, u64)| {
            let allowed = policy.allowed(wanted, payable);
            let found = (allowed, policy.initial(allowed, payable));
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
    }
}
