//! The arrays and objects of a JSON text: their number, and how deep they are nested, which is bounded because parsers of
//! upstreams recurse.

use memchr::memchr2;

/// Up to this length, in bytes, counting all brackets is faster than finding those outside strings.
const SHORT: usize = 4 * 1024;
/// The length of a block whose opening brackets fit a counter of eight bits, which the compiler vectorizes.
const BLOCK: usize = u8::MAX as usize;

/// Returns whether arrays and objects of `json` are nested deeper than `limit`. Text that is not JSON gives any result.
pub fn is_deeper_than(json: &[u8], limit: usize) -> bool {
    // A text that is deeper has more than `limit` opening brackets and as many closing ones.
    if json.len() / 2 <= limit || (json.len() <= SHORT && opening_brackets(json) <= limit) {
        return false;
    }
    let mut depth = 0_usize;
    Brackets { rest: json }.any(|bracket| {
        depth = if is_opening(bracket) { depth + 1 } else { depth.saturating_sub(1) };
        depth > limit
    })
}

/// Returns whether `json` has more than `limit` arrays and objects. Text that is not JSON gives any result.
pub fn has_more_containers_than(json: &[u8], limit: usize) -> bool {
    Brackets { rest: json }.filter(|bracket| is_opening(*bracket)).nth(limit).is_some()
}

/// The brackets of a JSON text, without those within strings.
struct Brackets<'a> {
    rest: &'a [u8],
}

impl Iterator for Brackets<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        loop {
            let is_found = |byte: &u8| matches!(byte, b'"' | b'[' | b'{' | b']' | b'}');
            let at = self.rest.iter().position(is_found)?;
            let found = self.rest[at];
            self.rest = &self.rest[at + 1..];
            if found != b'"' {
                return Some(found);
            }
            self.rest = after_string(self.rest);
        }
    }
}

/// Counts the opening brackets of a JSON text, those within strings included.
fn opening_brackets(json: &[u8]) -> usize {
    let count = |block: &[u8]| -> u8 { block.iter().map(|byte| u8::from(is_opening(*byte))).sum() };
    json.chunks(BLOCK).map(|block| usize::from(count(block))).sum()
}

/// `[` and `{` differ in one bit.
const fn is_opening(byte: u8) -> bool {
    byte | 0x20 == b'{'
}

/// Returns what follows a string, given what follows its opening quote.
fn after_string(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = memchr2(b'"', b'\\', rest) {
        let is_end = rest[at] == b'"';
        rest = rest.get(at + if is_end { 1 } else { 2 }..).unwrap_or_default();
        if is_end {
            return rest;
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_and_objects_count_outside_strings() {
        for (json, depth) in [
            ("1", 0),
            ("[]", 1),
            (r#"{"a": [{"b": [1, 2]}, [3]]}"#, 4),
            (r#"["[[[[[[", "\"[[[", "\\", [1]]"#, 2),
            (r#"{"a\\": "\\\"{{{{{{", "b": {"c": {}}}"#, 3),
        ] {
            for spaces in [100, 2 * SHORT] {
                let padded = format!("{json}{}", " ".repeat(spaces));
                assert!(!is_deeper_than(padded.as_bytes(), depth), "{json}");
                assert!(depth == 0 || is_deeper_than(padded.as_bytes(), depth - 1), "{json}");
            }
        }
    }

    #[test]
    fn containers_are_counted_outside_strings() {
        for (json, containers) in
            [("1", 0), ("[]", 1), (r#"[{"[{\"[": {}}, [1], "{"]"#, 4), ("{\"[", 1), ("]}", 0)]
        {
            assert!(!has_more_containers_than(json.as_bytes(), containers), "{json}");
            assert!(
                containers == 0 || has_more_containers_than(json.as_bytes(), containers - 1),
                "{json}"
            );
        }
    }

    #[test]
    fn any_depth_is_compared_exactly() {
        for pairs in [1, 127, 128, 1_024, 100_000] {
            let json = format!("{}1{}", "[{\"a\":".repeat(pairs), "}]".repeat(pairs));
            assert!(is_deeper_than(json.as_bytes(), 2 * pairs - 1), "{pairs}");
            assert!(!is_deeper_than(json.as_bytes(), 2 * pairs), "{pairs}");
        }
    }

    #[test]
    fn text_that_is_not_json_is_scanned_to_its_end() {
        for text in ["\"\\", "]]]]}}}}[[", "\"abc", "[\"\\\"", "{\"a"] {
            let text = format!("{}{text}", " ".repeat(8));
            assert!(!is_deeper_than(text.as_bytes(), 2), "{text}");
        }
    }
}
