//! What a request may cost, before it is sent: the bound that a hold is sized from.
//!
//! Pure but for what it has learnt of each model: how many tokens a byte of a request is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;

use domain::hold::{HoldPolicy, SLICE};
use domain::id::ModelId;
use domain::limit::Demand;
use domain::model::Model;
use domain::money::Nanos;

/// The longest answer of a model that does not say, in tokens.
pub(super) const LONGEST_ANSWER: u64 = 131_072;

/// Tokens in a million bytes, before anything is known of a model. Texts have 0.2 to 0.4 tokens a byte.
const FIRST_RATE: u64 = 500_000;
/// No text has more; whatever an upstream says, one absurd count must not make every hold too large.
const LARGEST_RATE: u64 = 2_000_000;
const PER_MILLION: u64 = 1_000_000;

/// What is known of a request's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The length of its body.
    pub input_bytes: u64,
    /// The client's cap on each answer, in tokens.
    pub max_output: Option<u64>,
    /// How many answers it wants.
    pub choices: u64,
    /// Whether the answer shows as it grows.
    pub stream: bool,
}

/// What to hold for a request, and what it may be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    /// What to hold.
    pub amount: Nanos,
    /// How many output tokens that pays, over all answers.
    pub output_tokens: u64,
    /// How many output tokens may come, over all answers.
    pub max_output_tokens: u64,
    /// The cap to send, if the client's own is more than can be paid; tokens for each answer.
    pub cap: Option<u64>,
}

/// How many tokens a byte is, learnt for each model from what its upstream counts.
#[derive(Default)]
pub(super) struct Calibration {
    /// Tokens in a million bytes.
    rates: papaya::HashMap<ModelId, Arc<AtomicU64>, RandomState>,
}

impl Size {
    /// The tokens that it may take, with `input_tokens` at most.
    pub(super) fn demand(&self, model: &Model, input_tokens: u64) -> Demand {
        let (longest, choices) = (self.longest_answer(model), self.choices.max(1));
        Demand {
            input: input_tokens,
            output: longest.min(self.slice()).saturating_mul(choices),
            step: SLICE,
            longest,
            choices,
            policy: self.policy(),
        }
    }

    /// The longest that each answer may be, in tokens.
    fn longest_answer(&self, model: &Model) -> u64 {
        let longest = model.max_output_tokens.or(model.context_window);
        self.max_output.unwrap_or(longest.map_or(LONGEST_ANSWER, |tokens| tokens.0))
    }

    /// How much of each answer counts under limits per minute to begin with, in tokens.
    fn slice(&self) -> u64 {
        const MAX_PLAIN_SLICE: u64 = 4 * SLICE;
        match (self.stream, self.max_output) {
            (false, Some(cap)) if cap <= MAX_PLAIN_SLICE => cap,
            _ => SLICE,
        }
    }

    fn policy(&self) -> HoldPolicy {
        if self.stream {
            HoldPolicy::Stream
        } else {
            HoldPolicy::Plain { is_capped: self.max_output.is_some() }
        }
    }
}

impl Bound {
    /// What to hold for a request of `input_tokens` at most, with `spendable` at hand; `None` if that
    /// does not pay for its input and one token.
    pub(super) fn of(
        model: &Model,
        size: &Size,
        input_tokens: u64,
        spendable: Nanos,
    ) -> Option<Self> {
        let choices = size.choices.max(1);
        let dearest = model.price.input.max(model.price.cached);
        let input = cost(input_tokens, dearest);
        let rest = spendable.0.checked_sub(input.0).filter(|rest| *rest >= 0)?;
        let payable = tokens_for(Nanos(rest), model.price.output) / choices;
        let wanted = size.longest_answer(model);
        let allowed = size.policy().allowed(wanted, payable);
        if allowed == 0 {
            return None;
        }
        let output_tokens = size.policy().initial(allowed, payable).saturating_mul(choices);
        Some(Self {
            amount: input + cost(output_tokens, model.price.output),
            output_tokens,
            max_output_tokens: allowed.saturating_mul(choices),
            cap: (allowed < wanted).then_some(allowed),
        })
    }
}

impl Calibration {
    /// At most how many tokens a body of so many bytes is.
    pub(super) fn input_tokens(&self, model: &Model, bytes: u64) -> u64 {
        let rate = self.rates.pin().get(&model.id).map(|rate| rate.load(Ordering::Relaxed));
        let tokens = bytes.saturating_mul(rate.unwrap_or(FIRST_RATE)) / PER_MILLION + 8;
        tokens.min(model.context_window.map_or(u64::MAX, |window| window.0))
    }

    /// Learns from a request whose tokens were counted upstream: up at once, down by and by, and a
    /// quarter above what was seen.
    pub(super) fn learn(&self, model: &ModelId, bytes: u64, tokens: u64) {
        if bytes == 0 {
            return;
        }
        let seen = (tokens.saturating_mul(PER_MILLION) / bytes).saturating_mul(5) / 4;
        let seen = seen.min(LARGEST_RATE);
        let rates = self.rates.pin();
        let rate = match rates.get(model) {
            Some(rate) => rate,
            None => rates.get_or_insert_with(model.clone(), || Arc::new(FIRST_RATE.into())),
        };
        let next = |before: u64| Some(seen.max(before - before / 64));
        // it never fails: there is always a next
        _ = rate.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }
}

/// What `tokens` cost, rounded up.
pub(super) fn cost(tokens: u64, per_million: Nanos) -> Nanos {
    let millionths = i128::from(tokens) * i128::from(per_million.0.max(0));
    let nanos = (millionths + i128::from(PER_MILLION) - 1) / i128::from(PER_MILLION);
    Nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
}

/// How many tokens `amount` pays for; saturates, as it does where they are free.
pub(super) fn tokens_for(amount: Nanos, per_million: Nanos) -> u64 {
    if per_million <= Nanos::ZERO {
        return u64::MAX;
    }
    let tokens = i128::from(amount.0.max(0)) * i128::from(PER_MILLION) / i128::from(per_million.0);
    u64::try_from(tokens).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use domain::limit::Limits;
    use domain::price::Price;
    use domain::usage::Tokens;

    /// One dollar a million input tokens, two a million output tokens.
    fn model(longest: Option<u64>) -> Model {
        Model {
            id: ModelId::new("m"),
            display_name: String::new(),
            description: String::new(),
            context_window: Some(Tokens(100_000)),
            max_output_tokens: longest.map(Tokens),
            limits: Limits::default(),
            price: Price {
                input: Nanos(1_000_000_000),
                cached: Nanos(100_000_000),
                output: Nanos(2_000_000_000),
                version: 1,
            },
            abilities: Vec::new(),
            inputs: Vec::new(),
            aliases: Vec::new(),
            deployments: Vec::new(),
            created_at: Timestamp::UNIX_EPOCH,
        }
    }

    #[track_caller]
    fn check(
        (max_output, stream, choices): (Option<u64>, bool, u64),
        spendable: i64,
        expected: Option<(i64, u64, Option<u64>)>,
    ) {
        let size = Size { input_bytes: 0, max_output, choices, stream };
        let bound = Bound::of(&model(Some(10_000)), &size, 100, Nanos(spendable));
        let bound = bound.map(|bound| (bound.amount.0, bound.output_tokens, bound.cap));
        assert_eq!(bound, expected);
    }

    #[test]
    fn a_cap_is_lowered_to_what_can_be_paid_and_held_in_part_or_in_full() {
        const RICH: i64 = 1_000_000_000;
        // half a million tokens can be paid, and a stream holds a sixty-fourth of them at first
        check((None, true, 1), RICH, Some((100_000 + 15_622_000, 7_811, None)));
        check((Some(50), true, 1), RICH, Some((100_000 + 100_000, 50, None)));
        check((Some(50), true, 3), RICH, Some((100_000 + 300_000, 150, None)));
        check((Some(3_000), false, 1), RICH, Some((100_000 + 6_000_000, 3_000, None)));
        check((Some(9_000), false, 1), RICH, Some((100_000 + 18_000_000, 9_000, None)));
        // 100,000 for the input, and 2,000 for each of 25 tokens
        check((None, true, 1), 150_000, Some((132_000, 16, Some(25))));
        check((None, false, 1), 150_000, Some((150_000, 25, Some(25))));
        check((Some(20), true, 1), 150_000, Some((132_000, 16, None)));
        check((Some(20), true, 5), 150_000, Some((150_000, 25, Some(5))));
        check((Some(20), true, 1), 101_999, None);
        check((Some(20), true, 1), 0, None);
    }

    #[test]
    fn a_rate_goes_up_at_once_and_down_by_and_by() {
        let (calibration, model) = (Calibration::default(), model(None));
        assert_eq!(calibration.input_tokens(&model, 1_000), 508);
        calibration.learn(&model.id, 1_000, 800);
        assert_eq!(calibration.input_tokens(&model, 1_000), 1_008);
        for _ in 0..1_000 {
            calibration.learn(&model.id, 1_000, 200);
        }
        assert_eq!(calibration.input_tokens(&model, 1_000), 258);
        assert_eq!(calibration.input_tokens(&model, u64::MAX), 100_000, "the window is a bound");
        calibration.learn(&model.id, 0, 7);
        calibration.learn(&model.id, 1_000, u64::MAX);
        assert_eq!(
            calibration.input_tokens(&model, 1_000),
            2_008,
            "an absurd count is not believed"
        );
    }

    #[test]
    fn absurd_sizes_do_not_wrap() {
        let size =
            Size { input_bytes: 0, max_output: Some(u64::MAX), choices: u64::MAX, stream: false };
        assert_eq!(Bound::of(&model(None), &size, u64::MAX, Nanos(i64::MAX)), None);
        assert_eq!(Bound::of(&model(None), &size, 0, Nanos(i64::MAX)), None);
    }
}
