//! The `usage` object of a chat completion.

use super::fields::read_once;
use super::json::{JsonReader, Malformed, RawJson};
use crate::usage::{Tokens, Usage};

/// The counts that an upstream reports. `None` means unknown, never zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageReport {
    /// Tokens of the prompt.
    pub input: Option<Tokens>,
    /// Prompt tokens from the upstream's cache.
    pub cached: Option<Tokens>,
    /// Tokens of the answer.
    pub output: Option<Tokens>,
    /// Answer tokens of reasoning.
    pub reasoning: Option<Tokens>,
    /// Prompt tokens written to the upstream's cache.
    pub cache_write: Option<Tokens>,
    /// The upstream's sum of input and output.
    pub total: Option<Tokens>,
}

/// A request's usage as sent to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerUsage {
    /// The counts that are recorded.
    pub usage: Usage,
    /// Prompt tokens written to the upstream's cache.
    pub cache_write: Tokens,
    /// Input and output together.
    pub total: Tokens,
}

impl From<Usage> for AnswerUsage {
    fn from(usage: Usage) -> Self {
        Self { usage, cache_write: Tokens(0), total: usage.total() }
    }
}

impl UsageReport {
    /// Parses a chat `usage` object; `None` if it has no counts. Of several names for a count, the
    /// first one present is used (rule R-7 of the crate `translate`). An invalid count, such as a negative number, is
    /// unknown and does not invalidate the others.
    pub fn parse(raw: RawJson<'_>) -> Option<Self> {
        let wire = Wire::parse(raw).ok()?;
        let first = |values: [Option<RawJson<'_>>; 2]| values.into_iter().flatten().find_map(count);
        let detail = |details: Option<RawJson<'_>>, name| count(details?.member(name)?);
        let [input_details, output_details] =
            [wire.prompt_tokens_details, wire.completion_tokens_details];
        let mut report = Self {
            input: first([wire.prompt_tokens, wire.input_tokens]),
            cached: detail(input_details, "cached_tokens")
                .or_else(|| count(wire.prompt_cache_hit_tokens?)),
            output: first([wire.completion_tokens, wire.output_tokens]),
            reasoning: detail(output_details, "reasoning_tokens"),
            cache_write: detail(input_details, "cache_write_tokens")
                .or_else(|| detail(input_details, "cache_creation_tokens")),
            total: wire.total_tokens.and_then(count),
        };
        report.output = report.output.map(|output| report.with_reasoning(output));
        (!report.is_empty()).then_some(report)
    }

    /// Adds reasoning tokens to an output that lacks them: some servers include them only in the
    /// total.
    fn with_reasoning(&self, output: Tokens) -> Tokens {
        let Self { input: Some(input), reasoning: Some(reasoning), total: Some(total), .. } = *self
        else {
            return output;
        };
        let whole = output.0.saturating_add(reasoning.0);
        let is_left_out = reasoning > output && input.0.checked_add(whole) == Some(total.0);
        if is_left_out { Tokens(whole) } else { output }
    }

    /// Whether both input and output are unknown.
    pub fn is_empty(&self) -> bool {
        self.input.is_none() && self.output.is_none()
    }

    /// Whether both input and output are known.
    pub fn is_complete(&self) -> bool {
        self.input.is_some() && self.output.is_some()
    }

    /// Returns the usage; `None` if input or output is unknown.
    pub fn complete(&self) -> Option<AnswerUsage> {
        // The counted usage is not used, since the report is complete.
        self.is_complete().then(|| self.or_counted(&Usage::default()))
    }

    /// Returns the usage. Unknown counts are taken from `counted`.
    pub fn or_counted(&self, counted: &Usage) -> AnswerUsage {
        let input = self.input.unwrap_or(counted.input);
        let output = self.output.unwrap_or(counted.output);
        let counted_reasoning = counted.reasoning.filter(|_| self.output.is_none());
        let usage = Usage {
            input,
            cached: self.cached.map(|tokens| tokens.min(input)),
            output,
            reasoning: self.reasoning.or(counted_reasoning).map(|tokens| tokens.min(output)),
        };
        AnswerUsage {
            usage,
            cache_write: self.cache_write.unwrap_or_default().min(input),
            total: self.total.filter(|_| self.is_complete()).unwrap_or(usage.total()),
        }
    }
}

/// Parses a non-negative integer, also in float notation.
fn count(raw: RawJson<'_>) -> Option<Tokens> {
    /// 2⁵³, up to which `f64` represents all integers exactly.
    const MAX_EXACT: f64 = 9_007_199_254_740_992.0;
    if let Ok(tokens) = raw.get().parse() {
        return Some(Tokens(tokens));
    }
    let number: f64 = raw.get().parse().ok()?;
    let is_count = number.fract() == 0.0 && (0.0..=MAX_EXACT).contains(&number);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be a count"
    )]
    is_count.then_some(Tokens(number as u64))
}

/// The fields of a `usage` object.
#[derive(Default)]
struct Wire<'a> {
    prompt_tokens: Option<RawJson<'a>>,
    input_tokens: Option<RawJson<'a>>,
    completion_tokens: Option<RawJson<'a>>,
    output_tokens: Option<RawJson<'a>>,
    total_tokens: Option<RawJson<'a>>,
    prompt_tokens_details: Option<RawJson<'a>>,
    completion_tokens_details: Option<RawJson<'a>>,
    /// DeepSeek's name for the cached tokens.
    prompt_cache_hit_tokens: Option<RawJson<'a>>,
}

impl<'a> Wire<'a> {
    /// Reads an object.
    ///
    /// # Errors
    /// The value is not an object, or has two values for a field.
    fn parse(raw: RawJson<'a>) -> Result<Self, Malformed> {
        let mut wire = Self::default();
        JsonReader::new(raw.get()).object(|json, name| {
            let field = match &*name {
                "prompt_tokens" => &mut wire.prompt_tokens,
                "input_tokens" => &mut wire.input_tokens,
                "completion_tokens" => &mut wire.completion_tokens,
                "output_tokens" => &mut wire.output_tokens,
                "total_tokens" => &mut wire.total_tokens,
                "prompt_tokens_details" => &mut wire.prompt_tokens_details,
                "completion_tokens_details" => &mut wire.completion_tokens_details,
                "prompt_cache_hit_tokens" => &mut wire.prompt_cache_hit_tokens,
                _ => return json.value().map(drop),
            };
            read_once(field, json)
        })?;
        Ok(wire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Option<UsageReport> {
        UsageReport::parse(JsonReader::new(json).value().unwrap())
    }

    fn check(json: &str, expected: (u64, Option<u64>, u64, Option<u64>)) {
        let (input, cached, output, reasoning) = expected;
        let expected = Usage {
            input: Tokens(input),
            cached: cached.map(Tokens),
            output: Tokens(output),
            reasoning: reasoning.map(Tokens),
        };
        assert_eq!(parse(json).unwrap().complete().unwrap().usage, expected, "{json}");
    }

    #[test]
    fn parses_every_dialect() {
        check(
            r#"{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":2}}"#,
            (9, Some(4), 5, Some(2)),
        );
        check(r#"{"prompt_tokens":9,"completion_tokens":5}"#, (9, None, 5, None));
        check(r#"{"input_tokens":1,"output_tokens":2}"#, (1, None, 2, None));
        check(
            r#"{"prompt_tokens":9,"completion_tokens":5,"prompt_cache_hit_tokens":99}"#,
            (9, Some(9), 5, None),
        );
        check(r#"{"prompt_tokens":9.0,"completion_tokens":5e0}"#, (9, None, 5, None));
        check(
            r#"{"prompt_tokens":9,"completion_tokens":5,"prompt_tokens_details":3,"completion_tokens_details":{"reasoning_tokens":-1}}"#,
            (9, None, 5, None),
        );
    }

    #[test]
    fn reasoning_missing_from_output_is_added() {
        let report = |completion: u64, reasoning: u64, total: u64| {
            format!(
                r#"{{"prompt_tokens":10,"completion_tokens":{completion},"total_tokens":{total},"completion_tokens_details":{{"reasoning_tokens":{reasoning}}}}}"#
            )
        };
        check(&report(5, 300, 315), (10, None, 305, Some(300)));
        check(&report(5, 300, 15), (10, None, 5, Some(5)));
        check(&report(305, 300, 315), (10, None, 305, Some(300)));
        check(&report(5, u64::MAX, u64::MAX), (10, None, 5, Some(5)));
    }

    #[test]
    fn missing_counts_are_unknown() {
        let check = |json: &str, input: Option<u64>, output: Option<u64>| {
            let report = parse(json).unwrap();
            assert_eq!((report.input, report.output), (input.map(Tokens), output.map(Tokens)));
            assert_eq!(report.complete(), None, "{json}");
        };
        check(r#"{"prompt_tokens":5}"#, Some(5), None);
        check(r#"{"prompt_tokens":5,"completion_tokens":null}"#, Some(5), None);
        check(r#"{"prompt_tokens":5,"completion_tokens":-1}"#, Some(5), None);
        check(r#"{"prompt_tokens":5,"completion_tokens":1.5}"#, Some(5), None);
        check(r#"{"prompt_tokens":1e300,"completion_tokens":5}"#, None, Some(5));
        check(r#"{"completion_tokens":5}"#, None, Some(5));
    }

    #[test]
    fn unknown_counts_come_from_the_counted_usage() {
        let counted =
            Usage { input: Tokens(8), cached: None, output: Tokens(6), reasoning: Some(Tokens(4)) };
        let check = |json: &str, input: u64, output: u64, reasoning: Option<u64>| {
            let used = parse(json).unwrap().or_counted(&counted);
            let expected = (Tokens(input), Tokens(output), reasoning.map(Tokens));
            let usage = used.usage;
            assert_eq!((usage.input, usage.output, usage.reasoning), expected, "{json}");
            assert_eq!(used.total, Tokens(input + output), "{json}");
        };
        check(r#"{"prompt_tokens":5,"total_tokens":5}"#, 5, 6, Some(4));
        check(r#"{"completion_tokens":3}"#, 8, 3, None);
        check(
            r#"{"prompt_tokens":5,"completion_tokens_details":{"reasoning_tokens":9}}"#,
            5,
            6,
            Some(6),
        );
    }

    #[test]
    fn values_without_counts_are_not_a_report() {
        for json in [
            "{}",
            "null",
            "[]",
            "3",
            r#"{"prompt_tokens":-1}"#,
            r#"{"prompt_tokens":"9"}"#,
            r#"{"prompt_tokens":9,"prompt_tokens":9}"#,
        ] {
            assert_eq!(parse(json), None, "{json}");
        }
    }

    #[test]
    fn keeps_cache_writes_and_total_for_the_client() {
        let check = |json: &str, cache_write: u64, total: u64| {
            let used = parse(json).unwrap().complete().unwrap();
            assert_eq!((used.cache_write.0, used.total.0), (cache_write, total), "{json}");
        };
        check(r#"{"prompt_tokens":9,"completion_tokens":5,"total_tokens":20}"#, 0, 20);
        check(r#"{"prompt_tokens":9,"completion_tokens":5,"total_tokens":null}"#, 0, 14);
        let details = |name: &str| {
            format!(
                r#"{{"prompt_tokens":9,"completion_tokens":0,"prompt_tokens_details":{{"{name}":3}}}}"#
            )
        };
        check(&details("cache_write_tokens"), 3, 9);
        check(&details("cache_creation_tokens"), 3, 9);
    }
}
