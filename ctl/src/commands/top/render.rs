//! Draws the load for a terminal, in at most its height.

use super::load::{LoadRecord, ShareRecord, UpstreamRecord};
use crate::error::{Failure, one_line};
use crate::output::{Output, Style, wrapped};

/// The longest name that is shown whole, in characters.
const MAX_NAME_WIDTH: usize = 32;
/// The shortest part of a name that is shown, however narrow the terminal is.
const MIN_NAME_WIDTH: usize = 10;
/// The width of the columns of upstreams after the name, in characters; those of the other tables are narrower.
const UPSTREAM_FIGURES_WIDTH: usize = 58;

/// A table with its heading.
struct Table {
    heading: String,
    rows: Vec<String>,
}

/// Renders the load: current figures, then a table each of models, accounts and upstreams. `problem` is why the load is not
/// a newer one. With a `height`, leaves out rows so that the lines and the cursor below them fit.
pub(super) fn render(
    load: &LoadRecord,
    output: &Output<'_>,
    problem: Option<&Failure>,
    height: Option<usize>,
) -> String {
    let width = output.width();
    let name_width = width.map_or(MAX_NAME_WIDTH, |width| {
        width.saturating_sub(UPSTREAM_FIGURES_WIDTH).clamp(MIN_NAME_WIDTH, MAX_NAME_WIDTH)
    });
    let mut lines = figures(load, width);
    if let Some(problem) = problem {
        let sampled_at = load.sampled_at.as_deref().unwrap_or("an earlier time");
        let text = wrapped(&format!("{problem}; this is the load at {sampled_at}"), 0, width);
        lines.extend(text.lines().map(|line| output.styled(line, Style::Warning)));
    }
    let tables = [
        shares("MODEL", &load.models, name_width),
        shares("ACCOUNT", &load.accounts, name_width),
        upstreams(&load.upstreams, name_width, output),
    ];
    // The cursor is below the last line, and each table has an empty line and a heading.
    let max_lines = height.map_or(usize::MAX, |height| height.saturating_sub(1));
    let room = max_lines.saturating_sub(lines.len() + 2 * tables.len());
    let numbers = divided(room, tables.each_ref().map(|table| table.rows.len()));
    for (table, number) in tables.into_iter().zip(numbers) {
        lines.extend([String::new(), output.styled(&table.heading, Style::Heading)]);
        lines.extend(bounded(table.rows, number));
    }
    lines.truncate(max_lines);
    lines.push(String::new());
    lines.join("\n")
}

/// Returns the current figures, on more than one line if the terminal is narrow.
fn figures(load: &LoadRecord, width: Option<usize>) -> Vec<String> {
    let figures = [
        format!("in flight {}", load.in_flight),
        format!("requests/s {:.1}", load.requests_per_second),
        format!("tokens/s {:.0}", load.tokens_per_second),
        format!("failed/min {:.0}", load.errors_per_minute - load.refusals_per_minute),
        format!("refused/min {:.0}", load.refusals_per_minute),
        format!("$/min {:.6}", load.cost_usd_per_minute),
        format!("p50 {}", milliseconds(load.p50_ms)),
        format!("p99 {}", milliseconds(load.p99_ms)),
    ];
    let mut lines: Vec<String> = Vec::new();
    for figure in figures {
        match lines.last_mut() {
            Some(line) if width.is_none_or(|width| line.len() + 3 + figure.len() <= width) => {
                line.extend(["   ", &figure]);
            }
            _ => lines.push(figure),
        }
    }
    lines
}

/// Divides `room` among tables that have `rows`: a table gets more than another only if that one is whole.
fn divided<const N: usize>(mut room: usize, rows: [usize; N]) -> [usize; N] {
    let mut numbers = [0; N];
    while room > 0 && numbers != rows {
        for (number, rows) in numbers.iter_mut().zip(rows) {
            if room > 0 && *number < rows {
                *number += 1;
                room -= 1;
            }
        }
    }
    numbers
}

/// Returns `number` lines: the rows or, if there are more, the first of them and how many are left out.
fn bounded(mut rows: Vec<String>, number: usize) -> Vec<String> {
    if rows.len() > number {
        let omitted = rows.split_off(number.saturating_sub(1)).len();
        rows.extend((number > 0).then(|| format!("... and {omitted} more")));
    }
    rows
}

fn shares(title: &str, shares: &[ShareRecord], name_width: usize) -> Table {
    let heading = format!(
        "{title:<name_width$} {:>8} {:>8} {:>8} {:>10} {:>12}",
        "REQUESTS", "FAILED", "REFUSED", "TOKENS", "COST"
    );
    let row = |share: &ShareRecord| {
        let ShareRecord { name, requests, errors, refusals, tokens, cost_usd } = share;
        let name = shortened(name, name_width);
        let failed = errors - refusals;
        format!(
            "{name:<name_width$} {requests:>8} {failed:>8} {refusals:>8} {tokens:>10} \
             {cost_usd:>12.6}"
        )
    };
    Table { heading, rows: shares.iter().map(row).collect() }
}

fn upstreams(upstreams: &[UpstreamRecord], name_width: usize, output: &Output<'_>) -> Table {
    let heading = format!(
        "{:<name_width$} {:>9} {:>9} {:>8} {:>8} {:>9} {:>9}",
        "UPSTREAM", "BREAKER", "IN FLIGHT", "REQUESTS", "FAILURES", "P50", "P99"
    );
    let row = |upstream: &UpstreamRecord| {
        let breaker = upstream.breaker.as_deref().unwrap_or("-");
        let style = match breaker {
            "closed" => Style::Success,
            "half_open" => Style::Warning,
            _ => Style::Error,
        };
        format!(
            "{:<name_width$} {} {:>9} {:>8} {:>8} {:>9} {:>9}",
            shortened(&upstream.name, name_width),
            output.styled(&format!("{breaker:>9}"), style),
            upstream.in_flight,
            upstream.requests,
            upstream.failures,
            milliseconds(upstream.p50_ms),
            milliseconds(upstream.p99_ms),
        )
    };
    Table { heading, rows: upstreams.iter().map(row).collect() }
}

/// Returns a name that fits into `width` characters. It may come from a client: it must not control the terminal.
fn shortened(name: &str, width: usize) -> String {
    let name = one_line(name);
    if name.chars().count() <= width {
        return name;
    }
    name.chars().take(width - 3).chain("...".chars()).collect()
}

fn milliseconds(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.0} ms"))
}

#[cfg(test)]
mod tests {
    use proto::v1::{RequestRecord, UpstreamHealth, WatchTrafficResponse};

    use super::*;
    use crate::output::Format;
    use crate::profile::Environment;

    /// Returns the lines for a load of 100 models, one account and 40 upstreams.
    fn lines(width: u16, height: Option<usize>) -> Vec<String> {
        let model = |number| Some(format!("a-model-with-a-very-long-name-{number:03}"));
        let request = |number| RequestRecord { model: model(number), ..RequestRecord::default() };
        let requests: Vec<_> = (0..100).map(request).collect();
        let name = |number| format!("upstream-{number}");
        let upstream = |number| UpstreamHealth { name: name(number), ..UpstreamHealth::default() };
        let upstreams = (0..40).map(upstream).collect();
        let load =
            LoadRecord::of(&WatchTrafficResponse::default(), &requests, true, upstreams, 100);
        let home = Environment::for_home("/nonexistent".as_ref());
        let environment = Environment { width: Some(width), ..home };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let output = Output::new(Format::Table, false, &environment, &mut out, &mut err);
        let problem = Failure::usage("no answer");
        let text = render(&load, &output, Some(&problem), height);
        assert!(text.ends_with('\n'), "{text}");
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_picture_fits_into_its_terminal() {
        for height in 2..200 {
            for width in [80, 100] {
                let lines = lines(width, Some(height));
                assert!(lines.len() < height, "{height}: {lines:#?}");
                let fits = |line: &String| line.chars().count() <= usize::from(width);
                assert!(lines.iter().all(fits), "{width}: {lines:#?}");
            }
        }
        assert_eq!(lines(100, None).len(), 2 + 1 + 3 * 2 + 100 + 1 + 40);
    }

    #[test]
    fn tables_share_the_room_and_say_what_they_leave_out() {
        let lines = lines(100, Some(24));
        assert_eq!(lines.len(), 23);
        let more: Vec<_> = lines.iter().filter(|line| line.ends_with(" more")).collect();
        assert_eq!(more, ["... and 94 more", "... and 35 more"]);
    }
}
