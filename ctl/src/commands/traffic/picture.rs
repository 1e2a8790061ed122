//! The traffic as a person sees it: figures of now, and the last hour as sparklines.

use super::{MinuteRecord, TrafficRecord};
use crate::output::{Hue, Output, chart};

/// Draws the traffic, a line for each thing to know.
pub(super) fn draw(traffic: &TrafficRecord, output: &Output<'_>) -> String {
    let ms = |ms: Option<f64>| ms.map_or("-".to_owned(), |ms| format!("{ms:.0} ms"));
    let hour = |of: fn(&MinuteRecord) -> u64| {
        let values: Vec<_> = traffic.minutes.iter().map(of).collect();
        let busiest = values.iter().max().copied().unwrap_or_default();
        format!("[{}] at most {busiest} a minute", chart::sparkline(&values, output.unicode()))
    };
    let mut lines = vec![
        ("in flight", traffic.in_flight.to_string()),
        ("requests/s", format!("{:.1}", traffic.requests_per_second)),
        ("tokens/s", format!("{:.1}", traffic.tokens_per_second)),
        (
            "first token",
            format!(
                "half within {}, 9 in 10 within {}, 99 in 100 within {}",
                ms(traffic.ttft_p50_ms),
                ms(traffic.ttft_p90_ms),
                ms(traffic.ttft_p99_ms)
            ),
        ),
        ("requests", hour(|minute| minute.requests)),
        ("errors", hour(|minute| minute.errors)),
        ("tokens", hour(|minute| minute.tokens)),
    ];
    for error in &traffic.errors {
        let last = error.last_at.as_deref().unwrap_or("-");
        lines.push(("", format!("{} x {}, last {last}", error.count, error.code)));
    }
    let mut text = String::new();
    for (name, said) in lines {
        // A code may be what an upstream sent; it must not drive the terminal.
        let said = crate::error::one_line(&said);
        let name = output.hued(&format!("{name:<11}"), Hue::Strong);
        text.extend([&name, "  ", &said, "\n"]);
    }
    text
}
