//! Draws the load for a terminal.

use std::fmt::Write as _;

use super::load::{LoadRecord, ShareRecord};
use crate::error::one_line;
use crate::output::{Output, Style};

/// The longest name that is shown whole, in characters.
const NAME_WIDTH: usize = 32;

/// Renders the load: current figures, then a table each of models, accounts and upstreams.
pub(super) fn render(load: &LoadRecord, output: &Output<'_>) -> String {
    let mut text = format!(
        "in flight {}   requests/s {:.1}   tokens/s {:.0}   errors/min {:.0}   $/min {:.6}   p50 {}   p99 {}\n",
        load.in_flight,
        load.requests_per_second,
        load.tokens_per_second,
        load.errors_per_minute,
        load.cost_usd_per_minute,
        milliseconds(load.p50_ms),
        milliseconds(load.p99_ms),
    );
    for (title, shares) in [("MODEL", &load.models), ("ACCOUNT", &load.accounts)] {
        let heading = format!(
            "{title:<NAME_WIDTH$} {:>8} {:>8} {:>10} {:>12}",
            "REQUESTS", "ERRORS", "TOKENS", "COST"
        );
        text.extend(["\n", &output.styled(&heading, Style::Heading), "\n"]);
        text.extend(shares.iter().map(row));
    }
    let heading = format!(
        "{:<NAME_WIDTH$} {:>9} {:>9} {:>8} {:>8} {:>9} {:>9}",
        "UPSTREAM", "BREAKER", "IN FLIGHT", "REQUESTS", "FAILURES", "P50", "P99"
    );
    text.extend(["\n", &output.styled(&heading, Style::Heading), "\n"]);
    for upstream in &load.upstreams {
        let breaker = upstream.breaker.as_deref().unwrap_or("-");
        let style = match breaker {
            "closed" => Style::Success,
            "half_open" => Style::Warning,
            _ => Style::Error,
        };
        _ = writeln!(
            text,
            "{:<NAME_WIDTH$} {} {:>9} {:>8} {:>8} {:>9} {:>9}",
            shortened(&upstream.name),
            output.styled(&format!("{breaker:>9}"), style),
            upstream.in_flight,
            upstream.requests,
            upstream.failures,
            milliseconds(upstream.p50_ms),
            milliseconds(upstream.p99_ms),
        );
    }
    text
}

fn row(share: &ShareRecord) -> String {
    let ShareRecord { name, requests, errors, tokens, cost_usd } = share;
    let name = shortened(name);
    format!("{name:<NAME_WIDTH$} {requests:>8} {errors:>8} {tokens:>10} {cost_usd:>12.6}\n")
}

/// Returns a name that fits into its column. It may come from a client: it must not control the terminal.
fn shortened(name: &str) -> String {
    let name = one_line(name);
    if name.chars().count() <= NAME_WIDTH {
        return name;
    }
    name.chars().take(NAME_WIDTH - 3).chain("...".chars()).collect()
}

fn milliseconds(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.0} ms"))
}
