//! Renders the usage summary for a terminal: totals, then bars by model, day or hour, and key.

use std::fmt::Write;

use unicode_width::UnicodeWidthStr;

use super::{SummaryRecord, TotalsRecord};
use crate::output::cell::truncate;
use crate::output::{Output, Style, chart, wrapped};

/// The maximum width of names, in columns; longer names are truncated.
const MAX_NAME_WIDTH: usize = 32;
/// The width of bars, in columns; with less room than the minimum, bars are omitted.
const BAR_WIDTH: std::ops::RangeInclusive<usize> = 4..=40;
/// The space between two columns of a row.
const GAP: usize = 2;
/// The maximum number of models and keys to show, most expensive first.
const MAX_ROWS: usize = 20;

/// A row: the totals of a model, day, hour or key.
struct Row<'a> {
    name: String,
    totals: &'a TotalsRecord,
    /// The value that the bar shows.
    size: f64,
}

/// Renders the summary within `width` columns.
pub(super) fn render(summary: &SummaryRecord, width: usize, output: &Output<'_>) -> String {
    let measure = measure(&summary.totals);
    let row = |name: String, totals| Row {
        name: fit(&name, output.unicode()),
        totals,
        size: measure(totals),
    };
    let models = summary.by_model.iter().map(|it| row(it.model.clone(), &it.totals));
    let days = summary.by_day.iter().map(|it| row(it.day.clone(), &it.totals));
    let hours = summary.by_hour.iter().map(|it| row(it.hour.clone(), &it.totals));
    // Few hours say more than their days.
    let times = if summary.by_hour.is_empty() {
        ("By day", days.collect(), usize::MAX)
    } else {
        ("By hour", hours.collect(), usize::MAX)
    };
    let keys = summary.by_key.iter().map(|it| {
        let named = [it.label.as_deref(), it.account.as_deref()].into_iter().flatten();
        let words: Vec<_> = std::iter::once(&*it.key).chain(named).collect();
        row(words.join(" "), &it.totals)
    });
    let mut text = String::new();
    for line in headlines(&summary.totals) {
        text.extend([&wrapped(&line, 0, Some(width)), "\n"]);
    }
    for (title, rows, max_rows) in [
        ("By model", models.collect::<Vec<_>>(), MAX_ROWS),
        times,
        ("By key", keys.collect(), MAX_ROWS),
    ] {
        section(title, &rows, max_rows, width, output, &mut text);
    }
    text
}

/// Returns the measure that bars show: cost; if nothing had a cost, tokens; if there are none,
/// requests.
fn measure(totals: &TotalsRecord) -> fn(&TotalsRecord) -> f64 {
    let cost = |totals: &TotalsRecord| {
        totals.cost_usd.as_deref().and_then(|cost| cost.parse().ok()).unwrap_or_default()
    };
    if cost(totals) > 0.0 {
        cost
    } else if tokens(totals) > 0 {
        |totals| chart::ratio(tokens(totals), 1)
    } else {
        |totals| chart::ratio(totals.requests, 1)
    }
}

fn tokens(totals: &TotalsRecord) -> u64 {
    totals.input_tokens.unwrap_or_default() + totals.output_tokens.unwrap_or_default()
}

fn headlines(totals: &TotalsRecord) -> [String; 2] {
    let count = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
    let (requests, errors) = (plural(totals.requests, "request"), plural(totals.errors, "error"));
    [
        format!("{requests}, {errors}; {}", money(totals)),
        format!(
            "tokens: {} in ({} cached), {} out ({} reasoning)",
            count(totals.input_tokens),
            count(totals.cached_tokens),
            count(totals.output_tokens),
            count(totals.reasoning_tokens),
        ),
    ]
}

fn section(
    title: &str,
    rows: &[Row<'_>],
    max_rows: usize,
    width: usize,
    output: &Output<'_>,
    text: &mut String,
) {
    if rows.is_empty() {
        return;
    }
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n{}", output.styled(title, Style::Heading));
    let figures = |row: &Row<'_>| {
        [
            money(row.totals),
            plural(row.totals.requests, "request"),
            plural(tokens(row.totals), "token"),
        ]
    };
    let largest = rows.iter().map(|row| row.size).fold(0.0, f64::max);
    let names = rows.iter().map(|row| row.name.width()).max().unwrap_or_default();
    let widths = [0, 1, 2]
        .map(|column| rows.iter().map(|row| figures(row)[column].len()).max().unwrap_or_default());
    // On a narrow terminal, the last figures are dropped. The bar gets the remaining room.
    let used_width = |figures: usize| {
        2 + names + widths[..figures].iter().map(|width| width + GAP).sum::<usize>()
    };
    let shown = (1..=widths.len()).rev().find(|count| used_width(*count) <= width).unwrap_or(1);
    let room = width.saturating_sub(used_width(shown) + GAP).min(*BAR_WIDTH.end());
    for row in rows.iter().take(max_rows) {
        let pad = " ".repeat(names - row.name.width());
        let _ = write!(text, "  {}{pad}", row.name);
        if room >= *BAR_WIDTH.start() {
            let share = if largest > 0.0 { row.size / largest } else { 0.0 };
            let bar = chart::bar(share, room, output.unicode());
            let rest = " ".repeat(room - bar.chars().count());
            let _ = write!(text, "  {}{rest}", output.styled(&bar, Style::Success));
        }
        for (figure, width) in figures(row).iter().zip(widths).take(shown) {
            let _ = write!(text, "  {figure:>width$}");
        }
        text.push('\n');
    }
    if rows.len() > max_rows {
        let _ = writeln!(text, "  and {} more; -o json has all", rows.len() - max_rows);
    }
}

fn money(totals: &TotalsRecord) -> String {
    totals.cost_usd.as_ref().map_or("-".to_owned(), |cost| format!("${cost}"))
}

fn plural(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Truncates a name and replaces its invisible characters; returns `-` for an unknown name.
fn fit(name: &str, unicode: bool) -> String {
    if name.is_empty() {
        return "-".to_owned();
    }
    truncate(&proto::text::visible(name), MAX_NAME_WIDTH, unicode)
}

#[cfg(test)]
mod tests {
    use super::{MAX_NAME_WIDTH, fit};

    #[test]
    fn names_are_truncated_sanitized_and_never_blank() {
        let long = "m".repeat(MAX_NAME_WIDTH);
        for (name, shown) in [
            ("", "-"),
            ("sim\u{1b}", "sim\u{fffd}"),
            (&long, &long),
            (&format!("{long}m"), &format!("{}…", &long[1..])),
        ] {
            assert_eq!(fit(name, true), shown);
        }
    }
}
