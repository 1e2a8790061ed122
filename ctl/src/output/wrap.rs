//! Lines that break between words, and never inside of what is quoted: a command stays whole.

use unicode_width::UnicodeWidthStr;

/// Breaks `text` into lines of at most `width` columns. It begins at column `indent`, and so does
/// each line after the first. What is longer than a line is left to the terminal.
pub(crate) fn wrapped(text: &str, indent: usize, width: Option<usize>) -> String {
    let Some(width) = width else { return text.to_owned() };
    let mut lines = String::new();
    let mut column = indent;
    for word in words(text) {
        if column > indent && column + 1 + word.width() > width {
            lines.push('\n');
            lines.push_str(&" ".repeat(indent));
            column = indent;
        } else if column > indent {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += word.width();
    }
    lines
}

/// The words of a text; what stands between backticks is part of one.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_paired = text.matches('`').count().is_multiple_of(2);
    let mut is_quoted = false;
    text.split(move |c| {
        is_quoted ^= c == '`' && is_paired;
        c == ' ' && !is_quoted
    })
    .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn lines_break_between_words_and_not_in_a_command() {
        for (text, indent, lines) in [
            ("one two three", 0, "one two\nthree"),
            ("one two three", 2, "one two\n  three"),
            ("see `ctl key list` now", 0, "see\n`ctl key list`\nnow"),
            ("it's an odd ` one", 0, "it's an\nodd ` one"),
            ("/a/very/long/path is", 2, "/a/very/long/path\n  is"),
            ("日本 日本 日本", 0, "日本 日本\n日本"),
            ("", 0, ""),
        ] {
            assert_eq!(wrapped(text, indent, Some(9)), lines);
            assert_eq!(wrapped(text, indent, None), text);
        }
    }
}
