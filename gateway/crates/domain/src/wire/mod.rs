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

/// Returns the byte range of `part`, which must be a slice of `whole`.
pub fn range_in(whole: &str, part: &str) -> std::ops::Range<usize> {
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + part.len()
}
