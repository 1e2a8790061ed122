//! Text that waits to be counted, and where it can be split so that its parts have as many tokens as the
//! whole.

use domain::wire::text::unescape_into;

/// How far from its end a text is searched for the beginning of a word, in bytes. A text without one is split
/// at its end, which costs at most one token per kibibyte.
const MAX_TAIL_BYTES: usize = 1024;

/// Unescaped text of one kind that is not counted yet.
#[derive(Debug, Default)]
pub(super) struct PendingText {
    pending: String,
    /// The first half of a surrogate pair whose second half has not arrived.
    high_surrogate: Option<u16>,
}

// === impl PendingText ===

impl PendingText {
    /// Appends the inside of a JSON string; returns the bytes of text that it adds.
    pub(super) fn push_escaped(&mut self, escaped: &str) -> usize {
        let before = self.pending.len();
        unescape_into(escaped, &mut self.high_surrogate, &mut self.pending);
        self.pending.len() - before
    }

    /// Appends text; returns its length in bytes.
    pub(super) fn push(&mut self, text: &str) -> usize {
        self.pending.push_str(text);
        text.len()
    }

    /// Returns the uncounted text.
    pub(super) fn as_str(&self) -> &str {
        &self.pending
    }

    /// Takes the whole text.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.pending)
    }

    /// Takes the part that can be counted separately, which may be empty. The rest is shorter than
    /// [`MAX_TAIL_BYTES`].
    pub(super) fn take_front(&mut self) -> String {
        let end = match last_boundary(&self.pending) {
            0 if self.pending.len() > MAX_TAIL_BYTES => self.pending.len(),
            end => end,
        };
        let tail = self.pending.split_off(end);
        std::mem::replace(&mut self.pending, tail)
    }

    /// Removes the part that can be counted separately, and returns `count` of it.
    pub(super) fn count_front(&mut self, count: impl FnOnce(&str) -> u64) -> u64 {
        let end = match last_boundary(&self.pending) {
            0 if self.pending.len() > MAX_TAIL_BYTES => self.pending.len(),
            end => end,
        };
        let tokens = count(&self.pending[..end]);
        self.pending.drain(..end);
        tokens
    }
}

/// Returns the beginning of the last word that certainly is one; zero if there is none near the end.
///
/// The tokenizer first splits text into words. A word contains a space after anything but white space, a
/// character other than a slash after a line end, or punctuation after an ideograph only at its beginning. So
/// the text before such a position has the same tokens whatever follows.
fn last_boundary(text: &str) -> usize {
    let near = text.ceil_char_boundary(text.len().saturating_sub(MAX_TAIL_BYTES));
    let mut next = None;
    for (at, character) in text[near..].char_indices().rev() {
        if next.is_some_and(|next| begins_word(character, next)) {
            return near + at + character.len_utf8();
        }
        next = Some(character);
    }
    0
}

/// Returns whether a word certainly begins with `next` after `before`.
fn begins_word(before: char, next: char) -> bool {
    match (before, next) {
        (_, ' ') => !before.is_whitespace(),
        ('\n', '/') => false,
        ('\n', _) => !next.is_whitespace(),
        (_, '。' | '、' | '，' | '；' | '：' | '？' | '！' | '「' | '」' | '（' | '）') => {
            is_ideograph(before)
        }
        _ => false,
    }
}

/// Returns whether `character` is a letter of Chinese, Japanese or Korean text.
fn is_ideograph(character: char) -> bool {
    matches!(character,
        '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tokens(text: &str) -> u64 {
        bpe_openai::o200k_base().count(text) as u64
    }

    proptest! {
        #[test]
        fn text_that_is_cut_into_pieces_counts_the_same(
            words in prop::collection::vec(
                prop_oneof![
                    "[a-zA-Z0-9.,;:'/!?-]{1,9}", "\\PC{0,6}", "[ \n\r\t\u{a0}\u{3000}]{1,4}",
                    Just(" ".to_owned()), Just("'s".to_owned()), Just("日本語。".to_owned()),
                    "[\n\\\\/.。a日\u{3000}]{1,6}", "[漢字かなカ한「」、，！0-9a\u{301}]{1,6}",
                ],
                1..200,
            ),
            cut in 0_usize..2_000,
        ) {
            let text = words.concat();
            let cut = text.floor_char_boundary(cut);
            let (front, rest) = text.split_at(last_boundary(&text[..cut]));
            prop_assert_eq!(tokens(&text), tokens(front) + tokens(rest), "{:?} {:?}", front, rest);
        }
    }

    #[test]
    fn text_is_cut_only_where_a_word_begins() {
        let word = "a".repeat(100);
        for (end, rest) in [
            (" b", " b"),
            (" b ", " "),
            (" b c", " c"),
            ("\n b", ""),
            (" b  ", "  "),
            ("。\n日本", "日本"),
            ("日本。日", "。日"),
            ("b。日", ""),
            ("\nb", "b"),
            ("\n/", ""),
            ("\n\n", ""),
            ("\n\u{3000}日", ""),
        ] {
            let mut text = PendingText::default();
            text.push(&format!("{word}{end}"));
            let (front, whole) = (text.take_front(), format!("{word}{end}"));
            assert_eq!(format!("{front}{}", text.as_str()), whole);
            let expected = if rest.is_empty() { &*whole } else { rest };
            assert_eq!(text.as_str(), expected, "{end:?}");
        }
    }

    #[test]
    fn text_without_words_is_cut_all_the_same_once_it_is_long() {
        let mut text = PendingText::default();
        text.push(&"กขค".repeat(200));
        let whole = tokens(text.as_str());
        assert_eq!(text.count_front(tokens), whole);
        assert_eq!(text.as_str(), "");
        text.push("short");
        assert_eq!((text.take_front(), text.as_str()), (String::new(), "short"));
        assert_eq!(text.take(), "short");
    }
}
