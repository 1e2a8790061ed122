//! The wire formats of chat completions: request and response bodies, server-sent events, errors.
//!
//! Parsers return borrowed views of the input. No IO, no business rules. Bodies are only partially
//! parsed: unknown fields pass through unchanged.

pub mod call;
pub mod chat;
pub mod chunk;
pub mod content;
pub mod conversation;
pub mod depth;
pub mod error;
pub mod fields;
pub mod finish;
pub mod json;
pub mod names;
pub mod piece;
pub mod splice;
pub mod sse;
pub mod text;
pub mod usage;

use serde_json::error::Category;
use serde_json::value::RawValue;

/// Returns the first byte of a raw value, which identifies its JSON type: `[`, `{`, `"` and so on.
/// `serde_json` strips whitespace around raw values.
pub fn first_byte(raw: &RawValue) -> u8 {
    raw.get().as_bytes().first().copied().unwrap_or_default()
}

/// Describes a JSON error by kind and position, without any of the text, which may contain user
/// data.
pub fn parse_error(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        Category::Syntax => "no JSON",
        Category::Data => "not of the right shape",
        Category::Eof => "cut off",
        Category::Io => "not readable",
    };
    format!("{what}, at line {} column {}", error.line(), error.column())
}

/// Returns the byte range of `part`, which must be a slice of `whole`.
pub fn range_in(whole: &str, part: &str) -> std::ops::Range<usize> {
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + part.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_error_contains_no_input_text() {
        let parse_error = |json| parse_error(&serde_json::from_str::<Vec<u64>>(json).unwrap_err());
        assert_eq!(parse_error(r#"["sk-secret"]"#), "not of the right shape, at line 1 column 12");
        assert_eq!(parse_error("<html>"), "no JSON, at line 1 column 1");
        assert_eq!(parse_error("[1,"), "cut off, at line 1 column 3");
    }
}
