//! Words, which are the simulator's tokens: counting, filler text, splitting into chunks. Pure.

use std::num::NonZeroUsize;

/// The filler text of answers.
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

/// A chunk of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TextChunk {
    pub(super) text: String,
    /// The number of words that begin in this chunk.
    pub(super) words: u64,
}

/// Counts the words of `text`.
pub(super) fn count_words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

/// Returns the first `words` words of `text`, with the whitespace before and between them.
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

/// Extends `text` with filler, or truncates it, to exactly `words` words.
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

/// Truncates `text` to `limit` characters, with an ellipsis.
pub(super) fn shorten(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
    }
}

/// Splits `text` after every `size` characters, or before the whitespace between words.
pub(super) fn split_chunks(text: &str, size: Option<NonZeroUsize>) -> Vec<TextChunk> {
    let mut chunks = Vec::new();
    let mut chunk = TextChunk { text: String::new(), words: 0 };
    let mut length = 0;
    let mut in_word = false;
    for c in text.chars() {
        let full = match size {
            Some(size) => length == size.get(),
            None => in_word && c.is_whitespace(),
        };
        if full {
            chunks.push(std::mem::replace(&mut chunk, TextChunk { text: String::new(), words: 0 }));
            length = 0;
        }
        if !in_word && !c.is_whitespace() {
            chunk.words += 1;
        }
        in_word = !c.is_whitespace();
        chunk.text.push(c);
        length += 1;
    }
    if length > 0 {
        chunks.push(chunk);
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_chunks(text: &str, size: usize, expected: &[&str]) {
        let chunks = split_chunks(text, NonZeroUsize::new(size));
        let texts: Vec<&str> = chunks.iter().map(|chunk| chunk.text.as_str()).collect();
        assert_eq!(texts, expected);
        assert_eq!(chunks.iter().map(|chunk| chunk.words).sum::<u64>(), count_words(text));
    }

    #[test]
    fn splits_by_words_or_characters_and_counts_every_word_once() {
        check_chunks("", 0, &[]);
        check_chunks(" one  two\n", 0, &[" one", "  two", "\n"]);
        check_chunks("grüße an alle", 4, &["grüß", "e an", " all", "e"]);
    }

    #[test]
    fn take_words_keeps_whitespace_between_words() {
        assert_eq!(take_words(" one  two three", 2), " one  two");
        assert_eq!(take_words("one two ", 2), "one two");
        assert_eq!(take_words("one ", 5), "one ");
        assert_eq!(take_words("one", 0), "");
    }

    #[test]
    fn fill_returns_the_exact_number_of_words() {
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
