//! Renders traffic for a terminal: current figures, and the last hour as sparklines.

use super::{MinuteRecord, TrafficRecord};
use crate::output::cell::{TIME_FORMAT, format_time};
use crate::output::{Output, Style, chart};

/// The width of the line names, in columns.
const NAME_WIDTH: usize = 11;

/// Renders a sample, one line per figure.
pub(super) fn render(traffic: &TrafficRecord, output: &Output<'_>) -> String {
    let ms = |ms: Option<f64>| ms.map_or("-".to_owned(), |ms| format!("{ms:.0} ms"));
    let hour = |of: fn(&MinuteRecord) -> u64| {
        let values: Vec<_> = traffic.minutes.iter().map(of).collect();
        let busiest = values.iter().max().copied().unwrap_or_default();
        let caption = format!("max {busiest} per minute");
        let room = output.width().map(|width| width.saturating_sub(NAME_WIDTH + caption.len() + 5));
        let columns = downsample(&values, room.unwrap_or(values.len()));
        format!("[{}] {caption}", chart::sparkline(&columns, output.unicode()))
    };
    let mut lines = vec![
        ("in flight", traffic.in_flight.to_string()),
        ("requests/s", format!("{:.1}", traffic.requests_per_second)),
        ("tokens/s", format!("{:.1}", traffic.tokens_per_second)),
        (
            "first token",
            format!(
                "p50 {}, p90 {}, p99 {}",
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
        let last = error.last_at.as_deref();
        let last = last.map_or("-".to_owned(), |at| format_time(at, TIME_FORMAT));
        lines.push(("", format!("{} x {}, last {last}", error.count, error.code)));
    }
    let mut text = String::new();
    for (name, value) in lines {
        // An error code may come from an upstream: it must not control the terminal.
        let value = crate::error::one_line(&value);
        let name = output.styled(&format!("{name:<NAME_WIDTH$}"), Style::Heading);
        text.extend([&name, "  ", &value, "\n"]);
    }
    text
}

/// Reduces `values` to at most `room` values, each the maximum of a chunk.
fn downsample(values: &[u64], room: usize) -> Vec<u64> {
    let chunk_size = values.len().div_ceil(room.max(1)).max(1);
    values.chunks(chunk_size).filter_map(|chunk| chunk.iter().copied().max()).collect()
}

#[cfg(test)]
mod tests {
    use super::downsample;

    #[test]
    fn downsampling_keeps_peaks() {
        for (room, drawn) in [
            (5, vec![1, 9, 0, 0, 3]),
            (4, vec![9, 0, 3]),
            (2, vec![9, 3]),
            (1, vec![9]),
            (0, vec![9]),
        ] {
            assert_eq!(downsample(&[1, 9, 0, 0, 3], room), drawn, "{room}");
        }
        assert!(downsample(&[], 0).is_empty());
    }
}
