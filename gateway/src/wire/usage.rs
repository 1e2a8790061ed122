//! The `usage` object of a chat answer.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::domain::usage::{Tokens, Usage};

/// A chat `usage` object in full: what records keep of it, and what only answers repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageReport {
    /// What records keep.
    pub usage: Usage,
    /// Tokens of the prompt that the upstream wrote to its cache.
    pub cache_write: Tokens,
    /// Input and output together, as the upstream adds them up.
    pub total: Tokens,
}

impl From<Usage> for UsageReport {
    fn from(usage: Usage) -> Self {
        Self { usage, cache_write: Tokens(0), total: usage.total() }
    }
}

impl UsageReport {
    /// Reads a chat `usage` object (rule R-7, first name present); `None` if it has no counts.
    pub fn parse(raw: &RawValue) -> Option<Self> {
        let wire: Wire = serde_json::from_str(raw.get()).ok()?;
        let input = wire.prompt_tokens.or(wire.input_tokens)?;
        let output = wire.completion_tokens.or(wire.output_tokens).unwrap_or_default();
        let details = wire.prompt_tokens_details.unwrap_or_default();
        let cached = details.cached_tokens.or(wire.prompt_cache_hit_tokens);
        let cache_write = details.cache_write_tokens.or(details.cache_creation_tokens);
        let reasoning = wire.completion_tokens_details.and_then(|details| details.reasoning_tokens);
        let usage = Usage {
            input: Tokens(input),
            cached: cached.map(|tokens| Tokens(tokens.min(input))),
            output: Tokens(output),
            reasoning: reasoning.map(|tokens| Tokens(tokens.min(output))),
        };
        Some(Self {
            usage,
            cache_write: Tokens(cache_write.unwrap_or_default()),
            total: wire.total_tokens.map_or_else(|| usage.total(), Tokens),
        })
    }
}

#[derive(Deserialize)]
struct Wire {
    prompt_tokens: Option<u64>,
    input_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    output_tokens: Option<u64>,
    total_tokens: Option<u64>,
    prompt_tokens_details: Option<InputDetails>,
    completion_tokens_details: Option<OutputDetails>,
    /// DeepSeek's name for the cached tokens.
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Default, Deserialize)]
#[expect(clippy::struct_field_names, reason = "so they are called on the wire")]
struct InputDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
    cache_creation_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct OutputDetails {
    reasoning_tokens: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expected: Option<(u64, Option<u64>, u64, Option<u64>)>) {
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        let expected = expected.map(|(input, cached, output, reasoning)| Usage {
            input: Tokens(input),
            cached: cached.map(Tokens),
            output: Tokens(output),
            reasoning: reasoning.map(Tokens),
        });
        assert_eq!(UsageReport::parse(&raw).map(|report| report.usage), expected, "{json}");
    }

    #[test]
    fn reads_every_dialect() {
        check(
            r#"{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":2}}"#,
            Some((9, Some(4), 5, Some(2))),
        );
        check(r#"{"prompt_tokens":9,"completion_tokens":5}"#, Some((9, None, 5, None)));
        check(
            r#"{"prompt_tokens":9,"completion_tokens":null,"prompt_tokens_details":null}"#,
            Some((9, None, 0, None)),
        );
        check(r#"{"input_tokens":1,"output_tokens":2}"#, Some((1, None, 2, None)));
        check(
            r#"{"prompt_tokens":9,"completion_tokens":5,"prompt_cache_hit_tokens":99}"#,
            Some((9, Some(9), 5, None)),
        );
    }

    #[test]
    fn what_is_no_usage_is_none() {
        for json in ["{}", "null", "[]", "3", r#"{"prompt_tokens":-1}"#, r#"{"prompt_tokens":"9"}"#]
        {
            check(json, None);
        }
    }

    #[test]
    fn the_report_has_what_only_answers_repeat() {
        let check = |json: &str, cache_write: u64, total: u64| {
            let raw = RawValue::from_string(json.to_owned()).unwrap();
            let report = UsageReport::parse(&raw).unwrap();
            assert_eq!((report.cache_write.0, report.total.0), (cache_write, total), "{json}");
        };
        check(r#"{"prompt_tokens":9,"completion_tokens":5,"total_tokens":20}"#, 0, 20);
        check(r#"{"prompt_tokens":9,"completion_tokens":5,"total_tokens":null}"#, 0, 14);
        check(r#"{"prompt_tokens":9,"prompt_tokens_details":{"cache_write_tokens":3}}"#, 3, 9);
        check(r#"{"prompt_tokens":9,"prompt_tokens_details":{"cache_creation_tokens":4}}"#, 4, 9);
    }
}
