//! Concatenates fragments of JSON-escaped text, the content of a JSON string without quotes.
//!
//! Escapes are copied as the upstream sent them, except unpaired surrogates (`\ud83d`), which
//! strict readers refuse: the first half of a pair is held back until the second half arrives, and
//! a half without its counterpart becomes U+FFFD.

use std::fmt::Write as _;

/// JSON-escaped text that grows.
#[derive(Debug, Default)]
pub(super) struct EscapedText {
    escaped: String,
    /// The first half of a surrogate pair whose second half has not arrived.
    half: Option<u16>,
}

impl EscapedText {
    /// Appends a fragment and returns the appended text.
    pub(super) fn push(&mut self, piece: &str) -> &str {
        let start = self.escaped.len();
        if self.half.is_none() && !may_hold_surrogates(piece) {
            self.escaped.push_str(piece);
        } else {
            self.push_surrogates(piece);
        }
        &self.escaped[start..]
    }

    /// Ends the text and returns the text that this appended.
    pub(super) fn finish(&mut self) -> &str {
        let start = self.escaped.len();
        self.settle();
        &self.escaped[start..]
    }

    pub(super) fn as_str(&self) -> &str {
        &self.escaped
    }

    pub(super) fn is_empty(&self) -> bool {
        self.escaped.is_empty()
    }

    /// Takes the text out and resets the buffer.
    pub(super) fn take(&mut self) -> String {
        self.half = None;
        std::mem::take(&mut self.escaped)
    }

    fn push_surrogates(&mut self, piece: &str) {
        let mut rest = piece;
        while let Some(at) = rest.find('\\') {
            let (plain, escape) = rest.split_at(at);
            if !plain.is_empty() {
                self.settle();
                self.escaped.push_str(plain);
            }
            let length = if escape.as_bytes().get(1) == Some(&b'u') { 6 } else { 2 };
            let Some((escape, after)) = escape.split_at_checked(length) else { return };
            rest = after;
            let unit = escape.get(2..6).and_then(|digits| u16::from_str_radix(digits, 16).ok());
            match (unit, self.half) {
                (Some(high @ 0xd800..=0xdbff), _) => {
                    self.settle();
                    self.half = Some(high);
                }
                (Some(low @ 0xdc00..=0xdfff), Some(high)) => {
                    self.half = None;
                    _ = write!(self.escaped, "\\u{high:04x}\\u{low:04x}");
                }
                (Some(0xdc00..=0xdfff), None) => self.escaped.push(char::REPLACEMENT_CHARACTER),
                _ => {
                    self.settle();
                    self.escaped.push_str(escape);
                }
            }
        }
        if !rest.is_empty() {
            self.settle();
            self.escaped.push_str(rest);
        }
    }

    fn settle(&mut self) {
        if self.half.take().is_some() {
            self.escaped.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

/// Returns whether the text contains `\ud…`, escaped backslashes included.
fn may_hold_surrogates(piece: &str) -> bool {
    let bytes = piece.as_bytes();
    memchr::memchr_iter(b'\\', bytes)
        .any(|at| matches!(bytes.get(at + 1..at + 3), Some([b'u', b'd' | b'D'])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::wire::text::decode;

    /// Concatenates `pieces`; each delta and the result must be valid JSON strings.
    fn check(pieces: &[&str], expected: &str) {
        let mut text = EscapedText::default();
        let mut deltas = String::new();
        for piece in pieces {
            let delta = text.push(piece);
            serde_json::from_str::<String>(&format!("\"{delta}\"")).unwrap();
            deltas.push_str(delta);
        }
        deltas.push_str(text.finish());
        assert_eq!(deltas, text.as_str());
        assert_eq!(decode(text.as_str()), expected, "{pieces:?}");
        assert_eq!(text.take(), deltas);
    }

    #[test]
    fn escapes_are_copied_unchanged() {
        check(&[], "");
        check(&["a\\n", "\\u0000", "\\\"é😀"], "a\n\0\"é😀");
        check(&["\\\\ud83d"], "\\ud83d");
    }

    #[test]
    fn split_surrogate_pairs_are_joined_and_unpaired_ones_replaced() {
        check(&["\\ud83d\\ude00"], "😀");
        check(&["a\\uD83D", "\\uDE00b"], "a😀b");
        check(&["\\ud83d", "", "\\ude00"], "😀");
        check(&["\\ud83d"], "\u{fffd}");
        check(&["\\ude00"], "\u{fffd}");
        check(&["\\ud83d", "x", "\\ude00"], "\u{fffd}x\u{fffd}");
        check(&["\\ud83d\\ud83d\\ude00\\n"], "\u{fffd}😀\n");
    }
}
