//! Formatting of values, and truncation and wrapping by display width.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ratatui::style::Style;
use ratatui::text::Span;

/// The text for an unknown value.
pub const UNKNOWN: &str = "–";

/// Truncates `text` to `width` columns, ending in `…`. Never splits a wide character.
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

/// Returns `text` without its first `width` columns. Skips a wide character as a whole.
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

/// Formats a count with thousands separators: `1,234,567`.
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

/// Formats a count in at most seven columns: `1,234`, or rounded down: `1.23M`.
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

/// Formats an amount in US dollars with exactly the server's digits, but at least the cents.
pub fn dollars(amount: Option<&str>) -> String {
    let Some(amount) = amount else { return UNKNOWN.to_owned() };
    let (sign, amount) = match amount.strip_prefix('-') {
        Some(debt) => ("-", debt),
        None => ("", amount),
    };
    let (whole, part) = amount.split_once('.').unwrap_or((amount, ""));
    format!("{sign}${whole}.{part:0<2}")
}

/// Formats a duration in at most six columns: `<1ms`, `850ms`, `12.3s`, `2m05s`.
pub fn duration(milliseconds: Option<f64>) -> String {
    match milliseconds {
        None => UNKNOWN.to_owned(),
        Some(time) if time < 0.995 => "<1ms".to_owned(),
        Some(time) if time < 999.5 => format!("{time:.0}ms"),
        Some(time) if time < 59_950.0 => format!("{:.1}s", time / 1_000.0),
        Some(time) if time < 3_599_500.0 => {
            let seconds = (time / 1_000.0).round();
            format!("{:.0}m{:02.0}s", (seconds / 60.0).floor(), seconds % 60.0)
        }
        Some(time) => fit(&format!("{:.1}h", time / 3_600_000.0), 6),
    }
}

/// Formats a rate in at most seven columns: `0.3`, `12.5`, `1,234`.
pub fn rate(per_second: f64) -> String {
    match format!("{per_second:.0}").parse() {
        Ok(whole) if per_second >= 99.95 => short_count(Some(whole)),
        _ => format!("{per_second:.1}"),
    }
}

/// Formats a count rounded down, with one decimal below ten units: `950`, `12k`, `1.2M`.
pub fn approximate_count(count: u64) -> String {
    let units = [(1_000_000_000_000, "T"), (1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
    let Some((unit, name)) = units.into_iter().find(|(unit, _)| count >= *unit) else {
        return count.to_string();
    };
    let (whole, tenth) = (count / unit, count % unit * 10 / unit);
    if whole < 10 && tenth > 0 {
        format!("{whole}.{tenth}{name}")
    } else {
        format!("{whole}{name}")
    }
}

/// Formats a number of things: `1 request`, `2 requests`.
pub fn several(number: impl TryInto<u64>, noun: &str) -> String {
    let number = number.try_into().ok();
    let plural = if number == Some(1) { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// Formats an optional limit.
pub fn limit(limit: Option<u64>) -> String {
    limit.map_or_else(|| "no limit".to_owned(), |limit| count(Some(limit)))
}

/// Formats the time since an event: `just now`, `5m ago`, `3d ago`.
pub fn ago(time: Option<Timestamp>, now: Option<Timestamp>) -> String {
    let (Some(time), Some(now)) = (time, now) else { return UNKNOWN.to_owned() };
    match now.duration_since(time).as_secs() {
        ..60 => "just now".to_owned(),
        seconds @ 60..3_600 => format!("{}m ago", seconds / 60),
        seconds @ 3_600..86_400 => format!("{}h ago", seconds / 3_600),
        seconds => format!("{}d ago", seconds / 86_400),
    }
}

/// Formats the time of day.
pub fn time_of_day(time: Option<Timestamp>, zone: &TimeZone) -> String {
    format_time(time, zone, "%T")
}

/// Formats a future time in at most eight columns: the time of day, or the date if it is not today.
pub fn upcoming(time: Timestamp, now: Option<Timestamp>, zone: &TimeZone) -> String {
    let day = |time: Timestamp| time.to_zoned(zone.clone()).date();
    let today = now.is_none_or(|now| day(now) == day(time));
    format_time(Some(time), zone, if today { "%T" } else { "%b %-d" })
}

/// Formats date and time of day.
pub fn date_and_time(time: Option<Timestamp>, zone: &TimeZone) -> String {
    format_time(time, zone, "%F %T")
}

/// Formats date, time of day and the name of the time zone.
pub fn full_time(time: Option<Timestamp>, zone: &TimeZone) -> String {
    format_time(time, zone, "%F %T %Z")
}

/// Formats a past time in at most eleven columns: the time of day, after the date and without the
/// seconds if it was not today.
pub fn log_time(time: Option<Timestamp>, now: Option<Timestamp>, zone: &TimeZone) -> String {
    let day = |time: Timestamp| time.to_zoned(zone.clone()).date();
    let is_today = time.map(day) == now.map(day);
    format_time(time, zone, if is_today { "%T" } else { "%m-%d %H:%M" })
}

/// Formats hour and minute.
pub fn clock_time(time: Option<Timestamp>, zone: &TimeZone) -> String {
    format_time(time, zone, "%H:%M")
}

/// Formats hour and minute with the abbreviation of the time zone: `14:05 CET`.
pub fn hour_and_zone(time: Option<Timestamp>, zone: &TimeZone) -> String {
    format_time(time, zone, "%H:%M %Z")
}

fn format_time(time: Option<Timestamp>, zone: &TimeZone, format: &str) -> String {
    let time = time.map(|time| time.to_zoned(zone.clone()).strftime(format).to_string());
    time.unwrap_or_else(|| UNKNOWN.to_owned())
}

/// Wraps `text` at `width` columns, between words if possible.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split_inclusive(' ') {
            if !line.is_empty() && columns(&line) + columns(word.trim_end()) > width {
                lines.push(std::mem::take(&mut line));
            }
            for grapheme in Span::raw(word).styled_graphemes(Style::new()) {
                if !line.is_empty() && columns(&line) + columns(grapheme.symbol.trim_end()) > width
                {
                    lines.push(std::mem::take(&mut line));
                }
                line.push_str(grapheme.symbol);
            }
        }
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fit_counts_columns_and_never_splits_a_wide_character() {
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
    fn skip_never_splits_a_wide_character() {
        for (text, width, left) in
            [("abc", 0, "abc"), ("abc", 2, "c"), ("模型", 1, "型"), ("a", 9, "")]
        {
            assert_eq!(skip(text, width), left, "{text} without {width}");
        }
    }

    #[test]
    fn unknown_values_differ_from_zero() {
        assert_eq!(count(None), "–");
        assert_eq!(count(Some(0)), "0");
        assert_eq!(short_count(None), "–");
        assert_eq!(dollars(None), "–");
        assert_eq!(duration(None), "–");
        assert_eq!(ago(None, None), "–");
    }

    #[test]
    fn short_count_limits_the_width() {
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
    fn duration_limits_the_width() {
        for (time, text) in [
            (0.4, "<1ms"),
            (999.4, "999ms"),
            (999.6, "1.0s"),
            (59_949.0, "59.9s"),
            (59_951.0, "1m00s"),
            (125_400.0, "2m05s"),
            (3_600_000.0, "1.0h"),
            (1e12, "27777…"),
        ] {
            assert_eq!(duration(Some(time)), text, "{time}");
        }
    }

    #[test]
    fn upcoming_shows_the_date_unless_it_is_today() {
        let now = Timestamp::from_second(1_795_010_000).unwrap();
        for (seconds, text) in [(60, "13:54:20"), (40_000, "Nov 19"), (86_400 * 20, "Dec 8")] {
            let time = Timestamp::from_second(1_795_010_000 + seconds).unwrap();
            assert_eq!(upcoming(time, Some(now), &TimeZone::UTC), text);
        }
    }

    #[test]
    fn approximate_count_rounds_down() {
        for (count, text) in [
            (999, "999"),
            (1_000, "1k"),
            (1_250, "1.2k"),
            (12_500_000, "12M"),
            (u64::MAX, "18446744T"),
        ] {
            assert_eq!(approximate_count(count), text);
        }
    }

    #[test]
    fn wrap_prefers_word_boundaries() {
        for (text, width, lines) in [
            ("one two three", 8, &["one two ", "three"][..]),
            ("abcdefghij", 4, &["abcd", "efgh", "ij"]),
            ("模型模", 4, &["模型", "模"]),
            ("a\nb", 9, &["a", "b"]),
            ("ab", 0, &["a", "b"]),
            ("", 5, &[]),
        ] {
            assert_eq!(wrap(text, width), lines, "{text} in {width}");
        }
    }

    #[test]
    fn amounts_keep_every_digit() {
        assert_eq!(dollars(Some("0.000000001")), "$0.000000001");
        assert_eq!(dollars(Some("-12.50")), "-$12.50");
    }
}
