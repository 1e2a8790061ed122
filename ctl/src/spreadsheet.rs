//! Text for the cells of a spreadsheet, which must not be read as formulas.

use proto::text::visible;

/// The characters that start a formula in spreadsheets, including their full-width forms.
const FORMULA_STARTS: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

/// Returns `text` such that a spreadsheet does not read it as a formula. Line breaks become spaces,
/// other invisible characters are replaced. Formulas are escaped with a leading `'`: at the start of
/// the text, and after each `;`, which separates cells in locales with a decimal comma.
pub fn cell(text: &str) -> String {
    let text = visible(&text.replace(['\n', '\r', '\t'], " "));
    let quoted = |part: &str| {
        let quote = if part.starts_with(FORMULA_STARTS) { "'" } else { "" };
        format!("{quote}{part}")
    };
    text.split(';').map(quoted).collect::<Vec<_>>().join(";")
}

/// Returns whether `text` has only the characters of an exact decimal, which needs no escape.
pub fn is_amount(text: &str) -> bool {
    text.bytes().all(|b| b == b'-' || b == b'.' || b.is_ascii_digit())
}
