//! Words: the simulator's tokens, its filler, and how it cuts text into chunks. Pure.

use std::num::NonZeroUsize;

/// The filler of answers.
const LOREM: [&str; 32] = [
    "lorem",
    "ipsum",
    "dolor",
    "sit",
    "amet",
    "consectetur",
    "adipiscing",
    "elit",
    "sed",
    "do",
    "eiusmod",
    "tempor",
    "incididunt",
    "ut",
    "labore",
    "et",
    "dolore",
    "magna",
    "aliqua",
    "enim",
    "ad",
    "minim",
    "veniam",
    "quis",
    "nostrud",
    "exercitation",
    "ullamco",
    "laboris",
    "nisi",
    "aliquip",
    "ex",
    "ea",
];

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) text: String,
    /// The words that begin in it.
    pub(super) words: u64,
}

/// Counts the words of `text`.
pub(super) fn count_words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

/// Returns the start of `text` up to the end of its word number `words`.
pub(super) fn take_words(text: &str, words: usize) -> &str {
    let mut end = 0;
    for _ in 0..words {
        let rest = &text[end..];
        let word = rest.trim_start();
        if word.is_empty() {
            return text;
        }
        end += rest.len() - word.len();
        end += word.find(char::is_whitespace).unwrap_or(word.len());
    }
    &text[..end]
}

/// Appends filler to `text` until it has `words` words, or drops words if it has more.
pub(super) fn fill(mut text: String, words: usize, seed: u64) -> String {
    let have = text.split_whitespace().count();
    if have >= words {
        return take_words(&text, words).to_owned();
    }
    let start = usize::try_from(seed % LOREM.len() as u64).unwrap_or_default();
    for word in LOREM.iter().cycle().skip(start).take(words - have) {
        text.push(' ');
        text.push_str(word);
    }
    text
}

/// Shortens `text` to `limit` characters.
pub(super) fn shorten(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
    }
}

/// Cuts `text` after every `size` characters, or before the space between two words.
pub(super) fn pieces(text: &str, size: Option<NonZeroUsize>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut piece = Piece { text: String::new(), words: 0 };
    let mut length = 0;
    let mut in_word = false;
    for c in text.chars() {
        let full = match size {
            Some(size) => length == size.get(),
            None => in_word && c.is_whitespace(),
        };
        if full {
            pieces.push(std::mem::replace(&mut piece, Piece { text: String::new(), words: 0 }));
            length = 0;
        }
        if !in_word && !c.is_whitespace() {
            piece.words += 1;
        }
        in_word = !c.is_whitespace();
        piece.text.push(c);
        length += 1;
    }
    if length > 0 {
        pieces.push(piece);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_pieces(text: &str, size: usize, expected: &[&str]) {
        let pieces = pieces(text, NonZeroUsize::new(size));
        let texts: Vec<&str> = pieces.iter().map(|piece| piece.text.as_str()).collect();
        assert_eq!(texts, expected);
        assert_eq!(pieces.iter().map(|piece| piece.words).sum::<u64>(), count_words(text));
    }

    #[test]
    fn pieces_are_words_or_runs_of_characters_and_count_every_word_once() {
        check_pieces("", 0, &[]);
        check_pieces(" one  two\n", 0, &[" one", "  two", "\n"]);
        check_pieces("grüße an alle", 4, &["grüß", "e an", " all", "e"]);
    }

    #[test]
    fn take_words_keeps_the_space_between_words() {
        assert_eq!(take_words(" one  two three", 2), " one  two");
        assert_eq!(take_words("one two ", 2), "one two");
        assert_eq!(take_words("one ", 5), "one ");
        assert_eq!(take_words("one", 0), "");
    }

    #[test]
    fn fill_makes_the_number_of_words_exact() {
        for words in [0, 1, 2, 3, 100] {
            assert_eq!(count_words(&fill("two words".to_owned(), words, 7)), words as u64);
        }
    }

    #[test]
    fn shorten_counts_characters() {
        assert_eq!(shorten("grüße", 5), "grüße");
        assert_eq!(shorten("grüße", 4), "grüß…");
    }
}
