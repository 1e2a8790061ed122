//! The `usage` object of a chat answer.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::usage::{Tokens, Usage};

/// A chat `usage` object: what the upstream says, as far as it says. `None` is unknown, never zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageReport {
    /// Tokens of the prompt.
    pub input: Option<Tokens>,
    /// Those that the upstream had in its cache.
    pub cached: Option<Tokens>,
    /// Tokens of the answer.
    pub output: Option<Tokens>,
    /// Those that went into reasoning.
    pub reasoning: Option<Tokens>,
    /// Tokens of the prompt that the upstream wrote to its cache.
    pub cache_write: Option<Tokens>,
    /// Input and output together, as the upstream adds them up.
    pub total: Option<Tokens>,
}

/// A request's usage with what only answers repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerUsage {
    /// What records keep.
    pub usage: Usage,
    /// Tokens of the prompt that the upstream wrote to its cache.
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
    /// Reads a chat `usage` object (rule R-7, first name present); `None` if it has no counts. What is
    /// no count, such as a negative number, is unknown, and does not make the others unknown.
    pub fn parse(raw: &RawValue) -> Option<Self> {
        let wire: Wire<'_> = serde_json::from_str(raw.get()).ok()?;
        let input_details: InputDetails<'_> = object(wire.prompt_tokens_details);
        let output_details: OutputDetails<'_> = object(wire.completion_tokens_details);
        let first = |names: &[Option<&RawValue>]| names.iter().find_map(|raw| count((*raw)?));
        let mut report = Self {
            input: first(&[wire.prompt_tokens, wire.input_tokens]),
            cached: first(&[input_details.cached_tokens, wire.prompt_cache_hit_tokens]),
            output: first(&[wire.completion_tokens, wire.output_tokens]),
            reasoning: first(&[output_details.reasoning_tokens]),
            cache_write: first(&[
                input_details.cache_write_tokens,
                input_details.cache_creation_tokens,
            ]),
            total: first(&[wire.total_tokens]),
        };
        report.output = report.output.map(|output| report.with_reasoning(output));
        (!report.is_empty()).then_some(report)
    }

    /// Adds the reasoning to an output that lacks it: some servers leave it out of the answer's tokens, and
    /// only their total has it.
    fn with_reasoning(&self, output: Tokens) -> Tokens {
        let Self { input: Some(input), reasoning: Some(reasoning), total: Some(total), .. } = *self
        else {
            return output;
        };
        let whole = output.0.saturating_add(reasoning.0);
        let is_left_out = reasoning > output && input.0.checked_add(whole) == Some(total.0);
        if is_left_out { Tokens(whole) } else { output }
    }

    /// Whether it says neither how long the prompt was nor how long the answer.
    pub fn is_empty(&self) -> bool {
        self.input.is_none() && self.output.is_none()
    }

    /// Whether it says both.
    pub fn is_complete(&self) -> bool {
        self.input.is_some() && self.output.is_some()
    }

    /// What was used; `None` if that is not all known.
    pub fn complete(&self) -> Option<AnswerUsage> {
        // nothing is taken from the count
        self.is_complete().then(|| self.or_counted(&Usage::default()))
    }

    /// What was used, with what is unknown taken from a count.
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

/// Reads a count: a whole number that is not negative, also where it is written as a float.
fn count(raw: &RawValue) -> Option<Tokens> {
    /// Floats are exact up to here.
    const MAX_EXACT: f64 = 9_007_199_254_740_992.0;
    if let Ok(tokens) = raw.get().parse() {
        return Some(Tokens(tokens));
    }
    let number: f64 = raw.get().parse().ok()?;
    let is_count = number.fract() == 0.0 && (0.0..=MAX_EXACT).contains(&number);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a count")]
    is_count.then_some(Tokens(number as u64))
}

/// Reads an object of details; empty if it is none.
fn object<'a, T: Default + Deserialize<'a>>(raw: Option<&'a RawValue>) -> T {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow)]
    prompt_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    input_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    completion_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    output_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    total_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt_tokens_details: Option<&'a RawValue>,
    #[serde(borrow)]
    completion_tokens_details: Option<&'a RawValue>,
    /// DeepSeek's name for the cached tokens.
    #[serde(borrow)]
    prompt_cache_hit_tokens: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[expect(clippy::struct_field_names, reason = "so they are called on the wire")]
struct InputDetails<'a> {
    #[serde(borrow)]
    cached_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    cache_write_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    cache_creation_tokens: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct OutputDetails<'a> {
    #[serde(borrow)]
    reasoning_tokens: Option<&'a RawValue>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Option<UsageReport> {
        UsageReport::parse(&RawValue::from_string(json.to_owned()).unwrap())
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
    fn reads_every_dialect() {
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
    fn reasoning_that_only_the_total_has_is_output() {
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
    fn what_is_not_said_is_unknown() {
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
    fn what_is_unknown_is_taken_from_a_count() {
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
    fn what_is_no_usage_is_none() {
        for json in ["{}", "null", "[]", "3", r#"{"prompt_tokens":-1}"#, r#"{"prompt_tokens":"9"}"#]
        {
            assert_eq!(parse(json), None, "{json}");
        }
    }

    #[test]
    fn an_answer_repeats_what_only_answers_do() {
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
