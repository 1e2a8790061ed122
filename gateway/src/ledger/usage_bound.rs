//! Bounds the usage of one request, whatever its upstream reports.
//!
//! Reported counts are charged up to this bound; the rest is the operator's loss. The bounds are generous: an
//! upstream that counts correctly never comes near them.

use super::bound::{MAX_ANSWER_TOKENS, RequestSize};
use domain::model::Model;

/// The maximum number of tokens that a chat template and a system prompt of the server add to the input.
const TEMPLATE_TOKENS: u64 = 16_384;
/// The tokens of an image, audio or file part beyond those of its bytes.
const MEDIA_PART_TOKENS: u64 = 131_072;
/// The maximum length of each choice, in tokens, if the client set a cap and the model's entry has no maximum.
const MAX_CAPPED_ANSWER_TOKENS: u64 = 1_048_576;

/// The bound on the usage of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageBound {
    /// The model's context window, in tokens.
    context_window: Option<u64>,
    /// The longest answer that the model's entry allows, in tokens.
    model_output: Option<u64>,
    /// The client's own cap on each choice, in tokens.
    client_cap: Option<u64>,
    choices: u64,
}

impl UsageBound {
    /// Returns the bound of a request of `size` to `model`.
    pub fn of(model: &Model, size: &RequestSize) -> Self {
        let context_window = model.context_window.map(|tokens| tokens.0);
        Self {
            context_window,
            model_output: model.max_output_tokens.map(|tokens| tokens.0).or(context_window),
            client_cap: size.max_output,
            choices: size.choices.max(1),
        }
    }

    /// Returns the bound on the input tokens of a request of `bytes` with `media_parts` images, audio or file
    /// parts. No tokenizer produces more than one token per byte.
    pub fn input_tokens(&self, bytes: u64, media_parts: u64) -> u64 {
        let media = media_parts.saturating_mul(MEDIA_PART_TOKENS);
        let tokens = bytes.saturating_add(media).saturating_add(TEMPLATE_TOKENS);
        self.context_window.map_or(tokens, |window| window.min(tokens))
    }

    /// Returns the bound on the output tokens of all choices. `produced_bytes` is the length of the received
    /// text, without hidden reasoning. `lowered_cap` is the output cap that was sent for each choice, if it is
    /// lower than the client's.
    pub fn output_tokens(&self, lowered_cap: Option<u64>, produced_bytes: u64) -> u64 {
        let of_all = |tokens: u64| tokens.saturating_mul(self.choices);
        let cap = self.client_cap.into_iter().chain(lowered_cap).min();
        let longest = match (cap, self.model_output) {
            (_, Some(longest)) => longest,
            (Some(_), None) => MAX_CAPPED_ANSWER_TOKENS,
            (None, None) => MAX_ANSWER_TOKENS,
        };
        let tokens = of_all(longest).max(produced_bytes);
        let limits = [cap, self.context_window].into_iter().flatten().map(of_all);
        limits.fold(tokens, u64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNKNOWN: UsageBound =
        UsageBound { context_window: None, model_output: None, client_cap: None, choices: 1 };

    #[test]
    fn a_prompt_has_no_more_tokens_than_its_bytes_and_its_window_allow() {
        assert_eq!(UNKNOWN.input_tokens(100, 0), 100 + 16_384);
        assert_eq!(UNKNOWN.input_tokens(100, 2), 100 + 16_384 + 2 * 131_072);
        let small = UsageBound { context_window: Some(8_192), ..UNKNOWN };
        assert_eq!(small.input_tokens(100, 2), 8_192);
        assert_eq!(UNKNOWN.input_tokens(u64::MAX, u64::MAX), u64::MAX);
    }

    #[test]
    fn an_answer_is_no_longer_than_it_was_allowed_to_be() {
        let check = |bound: UsageBound, lowered: Option<u64>, produced: u64, expected: u64| {
            assert_eq!(bound.output_tokens(lowered, produced), expected, "{bound:?} {lowered:?}");
        };
        check(UNKNOWN, None, 10, 131_072);
        check(UNKNOWN, None, 1_000_000, 1_000_000);
        let capped = UsageBound { client_cap: Some(50), choices: 3, ..UNKNOWN };
        check(capped, None, 1_000_000, 150);
        check(capped, Some(20), 0, 60);
        check(UsageBound { client_cap: Some(u64::MAX), ..UNKNOWN }, None, 0, 1_048_576);
        let known = UsageBound {
            context_window: Some(10_000),
            model_output: Some(1_000),
            client_cap: Some(5_000),
            choices: 1,
        };
        check(known, None, 0, 1_000);
        check(known, None, 3_000, 3_000);
        check(known, None, 1_000_000, 5_000);
        check(UsageBound { client_cap: None, ..known }, None, 1_000_000, 10_000);
        check(UsageBound { choices: u64::MAX, ..known }, Some(u64::MAX), u64::MAX, u64::MAX);
    }
}
