//! Values as text, and text that keeps its columns.

use ratatui::style::Style;
use ratatui::text::Span;

/// What stands for a value that is not known.
pub const UNKNOWN: &str = "–";

/// Cuts `text` to `width` columns and says so with `…`. Wide characters are never halved.
pub fn fit(text: &str, width: usize) -> String {
    if Span::raw(text).width() <= width {
        return text.to_owned();
    }
    let mut fitted = String::new();
    let mut used = 1;
    for grapheme in Span::raw(text).styled_graphemes(Style::new()) {
        used += columns(grapheme.symbol);
        if used > width {
            break;
        }
        fitted.push_str(grapheme.symbol);
    }
    if width > 0 {
        fitted.push('…');
    }
    fitted
}

/// Returns what is left of `text` without its first `width` columns.
pub fn skip(text: &str, width: usize) -> String {
    let mut skipped = 0;
    Span::raw(text)
        .styled_graphemes(Style::new())
        .skip_while(|grapheme| {
            let before = skipped;
            skipped += columns(grapheme.symbol);
            before < width
        })
        .map(|grapheme| grapheme.symbol)
        .collect()
}

fn columns(text: &str) -> usize {
    Span::raw(text).width()
}

/// Writes a count with its thousands apart: `1,234,567`.
pub fn count(count: Option<u64>) -> String {
    let Some(count) = count else { return UNKNOWN.to_owned() };
    let digits = count.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Writes a count in at most seven columns: `1,234`, else rounded down: `1.23M`.
pub fn short_count(known: Option<u64>) -> String {
    let whole = count(known);
    let Some(value) = known.filter(|_| whole.chars().count() > 7) else { return whole };
    let units = [(1_000_000, 'M'), (1_000_000_000, 'G'), (1_000_000_000_000, 'T')];
    let mut short = String::new();
    for (unit, letter) in units {
        if value >= unit {
            let hundredths = value / (unit / 100);
            short = format!("{}.{:02}{letter}", hundredths / 100, hundredths % 100);
        }
    }
    fit(&short, 7)
}

/// Writes an amount in dollars, digit by digit as the server wrote it.
pub fn dollars(amount: Option<&str>) -> String {
    match amount {
        None => UNKNOWN.to_owned(),
        Some(amount) => match amount.strip_prefix('-') {
            Some(debt) => format!("-${debt}"),
            None => format!("${amount}"),
        },
    }
}

/// Writes a duration in whole milliseconds.
pub fn milliseconds(duration: Option<f64>) -> String {
    duration.map_or_else(|| UNKNOWN.to_owned(), |duration| format!("{duration:.0}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cutting_counts_columns_and_never_halves_a_wide_character() {
        for (text, width, fitted) in [
            ("model", 5, "model"),
            ("models", 5, "mode…"),
            ("模型模型", 8, "模型模型"),
            ("模型模型", 7, "模型模…"),
            ("模型模型", 6, "模型…"),
            ("👩‍👩‍👧x", 2, "…"),
            ("abc", 1, "…"),
            ("abc", 0, ""),
        ] {
            assert_eq!(fit(text, width), fitted, "{text} in {width}");
        }
    }

    #[test]
    fn skipping_a_half_of_a_wide_character_skips_it_whole() {
        for (text, width, left) in
            [("abc", 0, "abc"), ("abc", 2, "c"), ("模型", 1, "型"), ("a", 9, "")]
        {
            assert_eq!(skip(text, width), left, "{text} without {width}");
        }
    }

    #[test]
    fn unknown_is_never_zero() {
        assert_eq!(count(None), "–");
        assert_eq!(count(Some(0)), "0");
        assert_eq!(short_count(None), "–");
        assert_eq!(dollars(None), "–");
        assert_eq!(milliseconds(None), "–");
    }

    #[test]
    fn large_counts_stay_in_their_column() {
        for (value, text) in [
            (999, "999"),
            (128_000, "128,000"),
            (1_234_567, "1.23M"),
            (999_999_999, "999.99M"),
            (1_000_000_000, "1.00G"),
            (u64::MAX, "184467…"),
        ] {
            assert_eq!(short_count(Some(value)), text);
        }
        assert_eq!(count(Some(1_234_567)), "1,234,567");
    }

    #[test]
    fn amounts_keep_every_digit() {
        assert_eq!(dollars(Some("0.000000001")), "$0.000000001");
        assert_eq!(dollars(Some("-12.50")), "-$12.50");
    }
}
