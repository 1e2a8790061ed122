//! The shapes on the wire: chat completions, server-sent events, errors.
//!
//! Bytes in, borrowed views out; no IO and no rule of the product. Bodies are peeked at, not parsed:
//! what we do not know passes through as the bytes that it was.

pub mod call;
pub mod chat;
pub mod chunk;
pub mod content;
pub mod error;
pub mod fields;
pub mod finish;
pub mod names;
pub mod splice;
pub mod sse;
pub mod text;
pub mod usage;

use serde_json::error::Category;
use serde_json::value::RawValue;

/// Whether a raw value is a JSON array (`[`), an object (`{`), a string (`"`) and so on, by its first
/// byte. `serde_json` strips the white space around raw values.
pub fn first_byte(raw: &RawValue) -> u8 {
    raw.get().as_bytes().first().copied().unwrap_or_default()
}

/// What is wrong with a JSON text, without its words: an upstream's may be anybody's.
pub fn parse_error(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        Category::Syntax => "no JSON",
        Category::Data => "not of the right shape",
        Category::Eof => "cut off",
        Category::Io => "not readable",
    };
    format!("{what}, at line {} column {}", error.line(), error.column())
}

/// Where `part`, a slice of `whole`, lies in it.
pub fn range_in(whole: &str, part: &str) -> std::ops::Range<usize> {
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + part.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flaw_is_told_without_the_words_around_it() {
        let parse_error = |json| parse_error(&serde_json::from_str::<Vec<u64>>(json).unwrap_err());
        assert_eq!(parse_error(r#"["sk-secret"]"#), "not of the right shape, at line 1 column 12");
        assert_eq!(parse_error("<html>"), "no JSON, at line 1 column 1");
        assert_eq!(parse_error("[1,"), "cut off, at line 1 column 3");
    }
}
