//! Bounds the cost of a request before it is sent; holds are sized from this bound.
//!
//! It is pure except for the calibration of each model: the tokens per byte of earlier requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;

use domain::hold::{HOLD_STEP, HoldPolicy};
use domain::id::ModelId;
use domain::limit::Demand;
use domain::model::Model;
use domain::money::Nanos;

/// The assumed maximum length of each choice, in tokens, if neither the client nor the model's entry sets one
/// (`max_output_tokens` or a context window).
pub(super) const MAX_ANSWER_TOKENS: u64 = 131_072;

/// The length of each choice, in tokens, for which a gateway obtains its part of a shared balance before it admits a
/// request without a cap. Hardly any answer is longer, and a larger part would often be taken from other gateways.
const MAX_WANTED_TOKENS: u64 = 16_384;

/// Tokens per million bytes before a model is calibrated. Texts have 0.2 to 0.4 tokens per byte.
const DEFAULT_RATE: u64 = 500_000;
/// The lowest rate that estimates use. Few texts have fewer tokens, and requests that consist of whitespace
/// must not lower the estimates of others.
const MIN_RATE: u64 = 150_000;
/// The highest rate that is stored. No text has more tokens, and one implausible count must not make every
/// estimate too large.
const MAX_RATE: u64 = 2_000_000;
const PER_MILLION: u64 = 1_000_000;

/// The size of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestSize {
    /// The length of the body without the data of images, audio and files, in bytes.
    pub input_bytes: u64,
    /// An estimate of the tokens of its images, audio and files.
    pub media_tokens: u64,
    /// The client's cap on each choice, in tokens.
    pub max_output: Option<u64>,
    /// The number of choices that the client requested.
    pub choices: u64,
    /// Whether the answer is streamed.
    pub stream: bool,
}

/// The amount to hold for a request at first, and the output that it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HoldPlan {
    /// The amount to hold.
    pub amount: Nanos,
    /// The output tokens that the amount covers, over all choices.
    pub output_tokens: u64,
    /// The output tokens that may be produced, over all choices.
    pub max_output_tokens: u64,
    /// The output cap to send upstream, in tokens for each choice; `None` if the balances cover the cap that
    /// the client set, or the model's maximum if it set none.
    pub cap: Option<u64>,
}

/// The observed tokens per byte of each model, by the counts of its upstreams.
#[derive(Default)]
pub(super) struct Calibration {
    /// Tokens per million bytes.
    rates: papaya::HashMap<ModelId, Arc<AtomicU64>, RandomState>,
}

impl RequestSize {
    /// Returns the tokens that the request may use, with an input of about `estimate` and at most `max_input`
    /// tokens.
    pub(super) fn demand(&self, model: &Model, estimate: u64, max_input: u64) -> Demand {
        let (max_answer, choices) = (self.longest_answer(model), self.choices.max(1));
        Demand {
            input: estimate.min(max_input),
            max_input,
            output: max_answer.min(self.slice()).saturating_mul(choices),
            step: HOLD_STEP,
            max_answer,
            choices,
            policy: self.policy(),
        }
    }

    /// Returns the bound on the input tokens, which the context window limits. No tokenizer produces more than
    /// one token per byte, and the JSON around each message has more bytes than a chat template has tokens.
    pub fn max_input(&self, model: &Model) -> u64 {
        let tokens = self.input_bytes.saturating_add(self.media_tokens).saturating_add(8);
        model.context_window.map_or(tokens, |window| window.0.min(tokens))
    }

    /// Returns the bound on the input tokens if its text has at most `text_tokens`.
    pub const fn counted_input(&self, text_tokens: u64) -> u64 {
        text_tokens.saturating_add(self.media_tokens)
    }

    /// Returns the maximum length of each choice, in tokens: the client's cap, else the model's.
    fn longest_answer(&self, model: &Model) -> u64 {
        let longest = model.max_output_tokens.or(model.context_window);
        self.max_output.unwrap_or(longest.map_or(MAX_ANSWER_TOKENS, |tokens| tokens.0))
    }

    /// Returns the part of each choice that counts under per-minute limits at first, in tokens.
    fn slice(&self) -> u64 {
        const MAX_PLAIN_SLICE: u64 = 4 * HOLD_STEP;
        match (self.stream, self.max_output) {
            (false, Some(cap)) if cap <= MAX_PLAIN_SLICE => cap,
            _ => HOLD_STEP,
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

impl HoldPlan {
    /// Plans the hold of a request with at most `input_tokens` if `spendable` is available; `None` if that
    /// does not cover the input and one output token for each choice.
    pub(super) fn of(
        model: &Model,
        size: &RequestSize,
        input_tokens: u64,
        spendable: Nanos,
    ) -> Option<Self> {
        let choices = size.choices.max(1);
        let dearest = model.price.input.max(model.price.cached);
        let input = cost(input_tokens, dearest);
        let rest = spendable.0.checked_sub(input.0).filter(|rest| *rest >= 0)?;
        let payable = tokens_for(Nanos(rest), model.price.output) / choices;
        let wanted = size.longest_answer(model);
        let allowed = size.policy().output_cap(wanted, payable);
        if allowed == 0 {
            return None;
        }
        let output_tokens = size.policy().initial_hold(allowed, payable).saturating_mul(choices);
        Some(Self {
            amount: input + cost(output_tokens, model.price.output),
            output_tokens,
            max_output_tokens: allowed.saturating_mul(choices),
            cap: (allowed < wanted).then_some(allowed),
        })
    }
}

impl HoldPlan {
    /// Returns the amount with which an answer to a request with at most `input_tokens` is not shortened: the
    /// client's cap or, without one, [`MAX_WANTED_TOKENS`].
    pub(super) fn wanted(model: &Model, size: &RequestSize, input_tokens: u64) -> Nanos {
        let longest = size.longest_answer(model);
        let wanted = size.max_output.unwrap_or_else(|| longest.min(MAX_WANTED_TOKENS));
        let output = size.policy().payable_for(wanted).saturating_mul(size.choices.max(1));
        let dearest = model.price.input.max(model.price.cached);
        let input = cost(input_tokens, dearest);
        Nanos(input.0.saturating_add(cost(output, model.price.output).0))
    }
}

impl Calibration {
    /// Estimates the input tokens of a request, rather too high than too low.
    pub(super) fn input_tokens(&self, model: &Model, size: &RequestSize) -> u64 {
        let rate = self.rates.pin().get(&model.id).map(|rate| rate.load(Ordering::Relaxed));
        let rate = rate.unwrap_or(DEFAULT_RATE).max(MIN_RATE);
        let text = size.input_bytes.saturating_mul(rate) / PER_MILLION + 8;
        text.saturating_add(size.media_tokens).min(size.max_input(model))
    }

    /// Adjusts the rate to a request whose input was counted upstream. The rate rises at once to a quarter
    /// above the observed one, and falls by at most 1/64 per request.
    pub(super) fn calibrate(&self, model: &ModelId, bytes: u64, tokens: u64) {
        if bytes == 0 {
            return;
        }
        let seen = (tokens.saturating_mul(PER_MILLION) / bytes).saturating_mul(5) / 4;
        let seen = seen.min(MAX_RATE);
        let rates = self.rates.pin();
        let rate = match rates.get(model) {
            Some(rate) => rate,
            None => rates.get_or_insert_with(model.clone(), || Arc::new(DEFAULT_RATE.into())),
        };
        let next = |before: u64| Some(seen.max(before - before / 64));
        // The closure always returns `Some`, so the update cannot fail.
        _ = rate.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }
}

/// Returns the cost of `tokens`, rounded up.
pub(super) fn cost(tokens: u64, per_million: Nanos) -> Nanos {
    let millionths = i128::from(tokens) * i128::from(per_million.0.max(0));
    let nanos = (millionths + i128::from(PER_MILLION) - 1) / i128::from(PER_MILLION);
    Nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
}

/// Returns the tokens that `amount` pays for; saturates if they are free.
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
    use domain::price::Price;
    use domain::usage::Tokens;

    /// One dollar per million input tokens, two per million output tokens.
    fn model(longest: Option<u64>) -> Model {
        Model {
            context_window: Some(Tokens(100_000)),
            max_output_tokens: longest.map(Tokens),
            price: Price {
                input: Nanos(1_000_000_000),
                cached: Nanos(100_000_000),
                output: Nanos(2_000_000_000),
                version: 1,
            },
            ..Model::new(ModelId::new("m"), Timestamp::UNIX_EPOCH)
        }
    }

    fn of(input_bytes: u64, media_tokens: u64) -> RequestSize {
        RequestSize { input_bytes, media_tokens, max_output: None, choices: 1, stream: true }
    }

    #[track_caller]
    fn check(
        (max_output, stream, choices): (Option<u64>, bool, u64),
        spendable: i64,
        expected: Option<(i64, u64, Option<u64>)>,
    ) {
        let size = RequestSize { input_bytes: 0, media_tokens: 0, max_output, choices, stream };
        let bound = HoldPlan::of(&model(Some(10_000)), &size, 100, Nanos(spendable));
        let bound = bound.map(|bound| (bound.amount.0, bound.output_tokens, bound.cap));
        assert_eq!(bound, expected);
    }

    #[test]
    fn a_cap_is_lowered_to_what_can_be_paid_and_held_in_part_or_in_full() {
        const RICH: i64 = 1_000_000_000;
        // Half a million tokens are affordable, and a stream holds 1/64 of them at first.
        check((None, true, 1), RICH, Some((100_000 + 15_622_000, 7_811, None)));
        check((Some(50), true, 1), RICH, Some((100_000 + 100_000, 50, None)));
        check((Some(50), true, 3), RICH, Some((100_000 + 300_000, 150, None)));
        check((Some(3_000), false, 1), RICH, Some((100_000 + 6_000_000, 3_000, None)));
        check((Some(9_000), false, 1), RICH, Some((100_000 + 18_000_000, 9_000, None)));
        // 100,000 for the input, and 2,000 for each of 25 tokens.
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
        let input_tokens = |input_bytes: u64| calibration.input_tokens(&model, &of(input_bytes, 0));
        assert_eq!(input_tokens(1_000), 508);
        calibration.calibrate(&model.id, 1_000, 800);
        assert_eq!(input_tokens(1_000), 1_008);
        for _ in 0..1_000 {
            calibration.calibrate(&model.id, 1_000, 200);
        }
        assert_eq!(input_tokens(1_000), 258);
        assert_eq!(input_tokens(u64::MAX), 100_000, "the window is a bound");
        for _ in 0..1_000 {
            calibration.calibrate(&model.id, 1_000_000, 1);
        }
        assert_eq!(
            input_tokens(1_000),
            158,
            "whitespace does not lower the rate below the minimum"
        );
        calibration.calibrate(&model.id, 0, 7);
        calibration.calibrate(&model.id, 1_000, u64::MAX);
        assert_eq!(input_tokens(1_000), 1_008, "no text has more tokens than bytes");
    }

    #[test]
    fn an_input_is_bounded_by_its_bytes_its_media_and_the_window() {
        let model = model(None);
        assert_eq!(of(1_000, 0).max_input(&model), 1_008);
        assert_eq!(of(1_000, 4_096).max_input(&model), 5_104);
        assert_eq!(of(u64::MAX, u64::MAX).max_input(&model), 100_000);
        assert_eq!(of(1_000, 4_096).counted_input(200), 4_296);
        let demand = of(1_000, 0).demand(&model, 508, 1_008);
        assert_eq!((demand.input, demand.max_input), (508, 1_008));
    }

    #[test]
    fn absurd_sizes_do_not_wrap() {
        let size = RequestSize {
            max_output: Some(u64::MAX),
            choices: u64::MAX,
            stream: false,
            ..of(0, 0)
        };
        assert_eq!(HoldPlan::of(&model(None), &size, u64::MAX, Nanos(i64::MAX)), None);
        assert_eq!(HoldPlan::of(&model(None), &size, 0, Nanos(i64::MAX)), None);
    }
}
