//! The summary as a person at a terminal sees it: totals, then bars by model, day and key.

use std::fmt::Write;

use unicode_width::UnicodeWidthStr;

use super::{SummaryRecord, TotalsRecord};
use crate::output::cell::cut;
use crate::output::{Hue, Output, chart, wrapped};

/// Names are cut at so many columns.
const MAX_NAME_WIDTH: usize = 32;
/// Bars are at most so long, and left out where there is less room than the least.
const BAR: std::ops::RangeInclusive<usize> = 4..=40;
/// The columns between two things in a row.
const GAP: usize = 2;
/// So many models and keys are shown, the dearest ones.
const MAX_ROWS: usize = 20;

/// A row: what it is of, and its figures.
struct Row<'a> {
    name: String,
    totals: &'a TotalsRecord,
    /// What its bar shows.
    size: f64,
}

/// Draws the summary within `width` columns.
pub(super) fn draw(summary: &SummaryRecord, width: usize, output: &Output<'_>) -> String {
    let measure = measure(&summary.totals);
    let row = |name: String, totals| Row {
        name: fit(&name, output.unicode()),
        totals,
        size: measure(totals),
    };
    let models = summary.by_model.iter().map(|it| row(it.model.clone(), &it.totals));
    let days = summary.by_day.iter().map(|it| row(it.day.clone(), &it.totals));
    let keys = summary.by_key.iter().map(|it| {
        let named = [it.label.as_deref(), it.account.as_deref()].into_iter().flatten();
        let words: Vec<_> = std::iter::once(&*it.key).chain(named).collect();
        row(words.join(" "), &it.totals)
    });
    let mut text = String::new();
    for line in headlines(&summary.totals) {
        text.extend([&wrapped(&line, 0, Some(width)), "\n"]);
    }
    for (title, rows, most) in [
        ("By model", models.collect::<Vec<_>>(), MAX_ROWS),
        ("By day", days.collect(), usize::MAX),
        ("By key", keys.collect(), MAX_ROWS),
    ] {
        section(title, &rows, most, width, output, &mut text);
    }
    text
}

/// Bars show money; where nothing cost anything, tokens; where there are none, requests.
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
    most: usize,
    width: usize,
    output: &Output<'_>,
    text: &mut String,
) {
    if rows.is_empty() {
        return;
    }
    // Writing to a text cannot fail.
    let _ = writeln!(text, "\n{}", output.hued(title, Hue::Strong));
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
    // On a narrow terminal the last figures go; a bar takes what room is left.
    let taken = |figures: usize| {
        2 + names + widths[..figures].iter().map(|width| width + GAP).sum::<usize>()
    };
    let shown = (1..=widths.len()).rev().find(|count| taken(*count) <= width).unwrap_or(1);
    let room = width.saturating_sub(taken(shown) + GAP).min(*BAR.end());
    for row in rows.iter().take(most) {
        let pad = " ".repeat(names - row.name.width());
        let _ = write!(text, "  {}{pad}", row.name);
        if room >= *BAR.start() {
            let share = if largest > 0.0 { row.size / largest } else { 0.0 };
            let bar = chart::bar(share, room, output.unicode());
            let rest = " ".repeat(room - bar.chars().count());
            let _ = write!(text, "  {}{rest}", output.hued(&bar, Hue::Good));
        }
        for (figure, width) in figures(row).iter().zip(widths).take(shown) {
            let _ = write!(text, "  {figure:>width$}");
        }
        text.push('\n');
    }
    if rows.len() > most {
        let _ = writeln!(text, "  and {} more; -o json has all", rows.len() - most);
    }
}

fn money(totals: &TotalsRecord) -> String {
    totals.cost_usd.as_ref().map_or("-".to_owned(), |cost| format!("${cost}"))
}

fn plural(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Cuts a name at its longest, and keeps a terminal safe from it; an unknown one is `-`.
fn fit(name: &str, unicode: bool) -> String {
    if name.is_empty() {
        return "-".to_owned();
    }
    cut(&proto::text::visible(name), MAX_NAME_WIDTH, unicode)
}

#[cfg(test)]
mod tests {
    use super::{MAX_NAME_WIDTH, fit};

    #[test]
    fn a_name_is_cut_disarmed_and_never_blank() {
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
