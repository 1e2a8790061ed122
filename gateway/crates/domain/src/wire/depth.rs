//! The nesting depth of a JSON text, which is bounded because parsers of upstreams recurse.

use memchr::memchr2;

/// The length of a block whose opening brackets fit a counter of eight bits, which the compiler vectorizes.
const BLOCK: usize = u8::MAX as usize;

/// Returns whether arrays and objects of `json` are nested deeper than `limit`. Text that is not JSON gives any result.
///
/// Hardly any text is scanned for its strings: one that is deeper than `limit` has more than `limit` opening
/// brackets and as many closing ones.
pub fn is_deeper_than(json: &[u8], limit: usize) -> bool {
    json.len() / 2 > limit && opening_brackets(json) > limit && max_depth_exceeds(json, limit)
}

/// Counts the opening brackets of a JSON text, those within strings included.
pub fn opening_brackets(json: &[u8]) -> usize {
    let count = |block: &[u8]| -> u8 { block.iter().map(|byte| u8::from(is_opening(*byte))).sum() };
    json.chunks(BLOCK).map(|block| usize::from(count(block))).sum()
}

/// `[` and `{` differ in one bit.
const fn is_opening(byte: u8) -> bool {
    byte | 0x20 == b'{'
}

fn max_depth_exceeds(json: &[u8], limit: usize) -> bool {
    let mut depth = 0_usize;
    let mut rest = json;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'"' => rest = after_string(after),
            b'[' | b'{' => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
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
            let padded = format!("{json}{}", " ".repeat(100));
            assert!(!is_deeper_than(padded.as_bytes(), depth), "{json}");
            assert!(depth == 0 || is_deeper_than(padded.as_bytes(), depth - 1), "{json}");
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
