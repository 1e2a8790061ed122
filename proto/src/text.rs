//! Sanitizes received text before it is shown on a terminal or written to a spreadsheet.

use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

/// Returns whether a character is invisible or affects the text around it: control characters, format characters
/// such as those of text direction, line separators, fillers and unassigned code points.
pub fn is_hidden(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    let fillers =
        ['\u{34f}', '\u{115f}', '\u{1160}', '\u{17b4}', '\u{17b5}', '\u{3164}', '\u{ffa0}'];
    match c.general_category_group() {
        GeneralCategoryGroup::Other => true,
        GeneralCategoryGroup::Separator => matches!(c, '\u{2028}' | '\u{2029}'),
        _ => fillers.contains(&c),
    }
}

/// Replaces every [hidden](is_hidden) character with `\u{fffd}`, the replacement character. Keeps a zero-width
/// joiner after a symbol, because emoji are composed with it.
pub fn visible(text: &str) -> String {
    let mut is_symbol = false;
    let shown = text.chars().map(|c| {
        let is_kept = !is_hidden(c) || (c == '\u{200d}' && is_symbol);
        // A variation selector may be between an emoji and the joiner.
        is_symbol = c.general_category_group() == GeneralCategoryGroup::Symbol
            || (is_symbol && c == '\u{fe0f}');
        if is_kept { c } else { '\u{fffd}' }
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn replaces_hidden_characters_and_keeps_emoji() {
        for text in
            ["aÄ1 -«»李ي\u{e31}\u{a0}…–", "👩\u{200d}🔬", "🏳\u{fe0f}\u{200d}🌈", "👩🏽\u{200d}🔬"]
        {
            assert_eq!(visible(text), text);
        }
        assert_eq!(visible("bob\u{202e}\u{200d}\0\u{3164}"), "bob\u{fffd}\u{fffd}\u{fffd}\u{fffd}");
    }
}
