//! Characters of a text that may be escaped: in JSON, also several times over, or in percent-encoding.

/// The number of backslashes that one character may have: JSON within JSON doubles them.
const MAX_BACKSLASHES: usize = 16;

/// Returns what follows the longest beginning of `text` whose characters are `is_part`, with escapes undone.
pub(super) fn skip_while(text: &str, is_part: impl Fn(char) -> bool) -> &str {
    let mut rest = text;
    while let Some((_, after)) = next_char(rest).filter(|(part, _)| is_part(*part)) {
        rest = after;
    }
    rest
}

/// Returns what follows the character that begins `text`, escaped or not; `None` if another one does.
pub(super) fn skip_char(text: &str, expected: char) -> Option<&str> {
    if let Some((_, after)) = decode_escape(text).filter(|(decoded, _)| *decoded == expected) {
        return Some(after);
    }
    text.strip_prefix(expected).or_else(|| skip_backslashes(text).strip_prefix(expected))
}

/// Returns the character of the numeric escape that begins `text`, in JSON or percent-encoding, and what follows it.
pub(super) fn decode_escape(text: &str) -> Option<(char, &str)> {
    let (digits, after) = match text.strip_prefix('%') {
        Some(digits) => digits.split_at_checked(2)?,
        None if text.starts_with('\\') => {
            skip_backslashes(text).strip_prefix('u')?.split_at_checked(4)?
        }
        None => return None,
    };
    // `from_str_radix` also takes a sign.
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let code = u32::from_str_radix(digits, 16).ok()?;
    Some((char::from_u32(code)?, after))
}

/// Returns what follows the backslashes that begin `text`.
pub(super) fn skip_backslashes(text: &str) -> &str {
    let backslashes = text.bytes().take(MAX_BACKSLASHES).take_while(|byte| *byte == b'\\');
    &text[backslashes.count()..]
}

/// Returns what follows `expected` at the beginning of `text`, escaped or not; `None` if another text is there.
pub(super) fn skip_text<'a>(text: &'a str, expected: &str) -> Option<&'a str> {
    expected.chars().try_fold(text, skip_char)
}

/// Returns the first character of `text`, with a numeric escape undone, and what follows it.
pub(super) fn next_char(text: &str) -> Option<(char, &str)> {
    let plain = || Some((text.chars().next()?, &text[text.chars().next()?.len_utf8()..]));
    decode_escape(text).or_else(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone_if_they_have_hexadecimal_digits() {
        for (text, expected) in [
            ("%2Dx", Some(('-', "x"))),
            ("\\u00e9x", Some(('é', "x"))),
            ("\\\\\\u002D", Some(('-', ""))),
            ("%+f", None),
            ("\\u+02d", None),
            ("\\u-02d", None),
            ("%2", None),
            ("%é", None),
            ("\\u00é", None),
            // One half of a pair.
            ("\\ud83d", None),
            ("\\n", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(decode_escape(text), expected, "{text}");
        }
        // Every cut of a text with escapes is passed to its end.
        let text = "a\\\\\\\\u00e9%C3é\\\"\\ud83d\\u0022%%2\\";
        for (end, _) in text.char_indices() {
            let cut = &text[..end];
            assert_eq!(skip_while(cut, |_| true), "", "{cut}");
        }
    }

    #[test]
    fn a_character_is_found_in_each_form() {
        for text in ["\"x", "\\\"x", "\\\\\\\"x", "\\u0022x", "%22x"] {
            assert_eq!(skip_char(text, '"'), Some("x"));
        }
        assert_eq!(skip_text("%2d\\u002d-x", "---"), Some("x"));
        for text in ["", "\\", "x", "%2", "\\u002"] {
            assert_eq!(skip_char(text, '"'), None, "{text}");
        }
        let many = "\\".repeat(MAX_BACKSLASHES + 1) + "\"";
        assert_eq!(skip_char(&many, '"'), None);
    }
}
