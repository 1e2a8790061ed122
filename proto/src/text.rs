//! Text of the contract that is shown to people on a terminal or in a spreadsheet.

use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

/// Whether a character is not seen where it is printed, or changes what is printed around it: controls,
/// formats such as those of text direction, separators of lines, fillers, what Unicode has not assigned.
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

/// Returns a text with what is [hidden](is_hidden) in it made visible as `\u{fffd}`, the replacement character.
/// A joiner after a symbol stays: emoji are made so.
pub fn visible(text: &str) -> String {
    let mut is_symbol = false;
    let shown = text.chars().map(|c| {
        let is_kept = !is_hidden(c) || (c == '\u{200d}' && is_symbol);
        // what chooses the look of an emoji stands between it and the joiner
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
    fn what_is_hidden_is_shown_and_emoji_stay_whole() {
        for text in
            ["aÄ1 -«»李ي\u{e31}\u{a0}…–", "👩\u{200d}🔬", "🏳\u{fe0f}\u{200d}🌈", "👩🏽\u{200d}🔬"]
        {
            assert_eq!(visible(text), text);
        }
        assert_eq!(visible("bob\u{202e}\u{200d}\0\u{3164}"), "bob\u{fffd}\u{fffd}\u{fffd}\u{fffd}");
    }
}
