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
pub fn visible(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { '\u{fffd}' } else { c }).collect()
}
