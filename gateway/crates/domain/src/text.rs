//! Detection of invisible and control characters in displayed text.

use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

/// Whether a character is invisible or alters the display of its neighbours: control characters,
/// format characters such as bidirectional controls, line separators, fillers, unassigned code
/// points.
pub fn is_hidden(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    match c.general_category_group() {
        GeneralCategoryGroup::Other => true,
        GeneralCategoryGroup::Separator => is_line_end(c),
        _ => is_filler(c),
    }
}

/// Whether a text contains a [hidden](is_hidden) character. A zero-width joiner after a symbol is
/// accepted, since emoji sequences need it.
pub fn has_hidden(text: &str) -> bool {
    let mut is_symbol = false;
    text.chars().any(|c| {
        let is_kept = c == '\u{200d}' && is_symbol;
        is_symbol = c.general_category_group() == GeneralCategoryGroup::Symbol
            || (is_symbol && c == '\u{fe0f}');
        is_hidden(c) && !is_kept
    })
}

fn is_line_end(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}')
}

/// Whether `c` is a letter or mark without a glyph.
fn is_filler(c: char) -> bool {
    let fillers =
        ['\u{34f}', '\u{115f}', '\u{1160}', '\u{17b4}', '\u{17b5}', '\u{3164}', '\u{ffa0}'];
    fillers.contains(&c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_hidden_characters_and_accepts_visible_text() {
        assert!(!has_hidden("👩\u{200d}🔬 🏳\u{fe0f}\u{200d}🌈"));
        assert!(has_hidden("bob\u{200d}") && has_hidden("👩\u{200d}\u{200d}"));
        assert!(!"aÄ1 -«»李ي\u{e31}\u{a0}…–😀".chars().any(is_hidden));
        let hidden = "\0\n\u{1b}\u{7f}\u{9b}\u{ad}\u{34f}\u{200b}\u{200e}\u{2028}\u{202e}\u{2066}\u{3164}\u{feff}\u{e0041}\u{378}";
        assert!(hidden.chars().all(is_hidden));
    }
}
