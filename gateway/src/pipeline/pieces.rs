//! Where a long text can be cut so that its pieces have as many tokens as the whole.

/// How long text becomes before it is counted on the way, in bytes: what is left to be counted at the end
/// is hardly longer, and takes about a millisecond. Most answers are shorter.
const PIECE: usize = 16 * 1024;

/// Takes off the front of escaped text what can be counted by itself, if it has become long.
///
/// The tokenizer first cuts text into words. None of its words has a space behind anything but white
/// space, or anything but a slash behind a line's end: what comes before a space that follows something
/// else, or before the first character of a line, counts the same whatever comes after. Text that has
/// neither is left as it is.
pub(super) fn take_piece(text: &mut String) -> String {
    let end = if text.len() < PIECE { 0 } else { last_boundary(text) };
    if end == 0 {
        return String::new();
    }
    let rest = text.split_off(end);
    std::mem::replace(text, rest)
}

/// Where the last word begins that is known to be one; zero if it is not near the end.
fn last_boundary(text: &str) -> usize {
    /// How far it is looked for, in bytes.
    const NEAR: usize = 1024;
    let near = text.len().saturating_sub(NEAR);
    // a space begins a word, and the `n` of a `\n` is before one
    let near_text = &text.as_bytes()[near..];
    let mut places = memchr::memrchr2_iter(b' ', b'n', near_text)
        .map(|at| near + at + usize::from(near_text[at] == b'n'));
    let begins = |at: &usize| begins_word(&text.as_bytes()[..*at], &text[*at..]);
    places.find(begins).unwrap_or_default()
}

/// Whether a word is known to begin with `after`.
fn begins_word(before: &[u8], after: &str) -> bool {
    /// An escape is no longer; it may stand for white space.
    const ESCAPE: usize = 6;
    match after.chars().next() {
        Some(' ') => {
            let escape = &before[before.len().saturating_sub(ESCAPE)..];
            escape.last().is_some_and(u8::is_ascii_graphic) && !escape.contains(&b'\\')
        }
        Some('/' | '\\') | None => false,
        Some(next) => {
            let line = before.strip_suffix(br"\n");
            line.is_some_and(|line| line.last() != Some(&b'\\')) && !next.is_whitespace()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn text_that_is_cut_into_pieces_counts_the_same(
            words in prop::collection::vec(
                prop_oneof![
                    "[a-zA-Z0-9.,;:'/!?-]{1,9}", "\\PC{0,6}", "[ \n\r\t\u{a0}\u{3000}]{1,4}",
                    Just(" ".to_owned()), Just("'s".to_owned()), Just("日本語。".to_owned()),
                    "[\n\\\\/.。a日\u{3000}]{1,6}",
                ],
                1..200,
            ),
            cut in 0_usize..2_000,
        ) {
            let escaped = serde_json::to_string(&words.concat()).unwrap();
            let escaped = &escaped[1..escaped.len() - 1];
            let cut = escaped.floor_char_boundary(cut);
            let (front, rest) = escaped.split_at(last_boundary(&escaped[..cut]));
            let counts = [escaped, front, rest].map(|text| {
                let text: String = serde_json::from_str(&format!("\"{text}\"")).unwrap();
                bpe_openai::o200k_base().count(&text)
            });
            prop_assert_eq!(counts[0], counts[1] + counts[2], "{:?} {:?}", front, rest);
        }
    }

    #[test]
    fn only_long_text_is_cut_and_only_where_a_word_begins() {
        let take = |text: &str| {
            let mut rest = text.to_owned();
            let piece = take_piece(&mut rest);
            assert_eq!(format!("{piece}{rest}"), text);
            rest
        };
        let long = "a".repeat(PIECE);
        for (end, rest) in [
            (" b", " b"),
            (" b ", " "),
            (" b c", " c"),
            (r"\n b", ""),
            (" b  ", "  "),
            (r"。\n日本", "日本"),
            (r"\nb", "b"),
            (r"\\nb", ""),
            (r"\n/", ""),
            (r"\n\n", ""),
            ("\\n\u{3000}日", ""),
        ] {
            let expected = if rest.is_empty() { format!("{long}{end}") } else { rest.to_owned() };
            assert_eq!(take(&format!("{long}{end}")), expected, "{end:?}");
        }
        assert_eq!(take(&long), long);
        assert_eq!(take("a b"), "a b");
    }
}
