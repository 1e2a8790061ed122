//! Line wrapping between words, but never inside backticks, so that quoted commands stay on one
//! line.

use unicode_width::UnicodeWidthStr;

/// Wraps `text` at `width` columns. The first line starts at column `indent`, and each further line
/// is indented to it. Longer words are not broken.
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

/// Splits a text into words; a text between backticks is part of one word.
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
    fn wraps_between_words_but_not_inside_backticks() {
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
