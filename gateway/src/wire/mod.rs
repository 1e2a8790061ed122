//! The shapes on the wire: chat completions, server-sent events, errors.
//!
//! Bytes in, borrowed views out; no IO and no rule of the product. Bodies are peeked at, not parsed:
//! what we do not know passes through as the bytes that it was.

pub mod chat;
pub mod chunk;
pub mod error;
pub mod splice;
pub mod sse;
pub mod usage;

use serde_json::value::RawValue;

/// Whether a raw value is a JSON array (`[`), an object (`{`), a string (`"`) and so on, by its first
/// byte. `serde_json` strips the white space around raw values.
pub(crate) fn first_byte(raw: &RawValue) -> u8 {
    raw.get().as_bytes().first().copied().unwrap_or_default()
}

/// Where `part`, a slice of `whole`, lies in it.
pub(crate) fn range_in(whole: &str, part: &str) -> std::ops::Range<usize> {
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + part.len()
}
