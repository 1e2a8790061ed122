//! The traffic as a person sees it: figures of now, and the last hour as sparklines.

use super::{MinuteRecord, TrafficRecord};
use crate::output::cell::{TIME, moment};
use crate::output::{Hue, Output, chart};

/// How wide the names of lines are.
const NAME: usize = 11;

/// Draws the traffic, a line for each thing to know.
pub(super) fn draw(traffic: &TrafficRecord, output: &Output<'_>) -> String {
    let ms = |ms: Option<f64>| ms.map_or("-".to_owned(), |ms| format!("{ms:.0} ms"));
    let hour = |of: fn(&MinuteRecord) -> u64| {
        let values: Vec<_> = traffic.minutes.iter().map(of).collect();
        let busiest = values.iter().max().copied().unwrap_or_default();
        let caption = format!("at most {busiest} a minute");
        let room = output.width().map(|width| width.saturating_sub(NAME + caption.len() + 5));
        let columns = squeezed(&values, room.unwrap_or(values.len()));
        format!("[{}] {caption}", chart::sparkline(&columns, output.unicode()))
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
        let last = error.last_at.as_deref().map_or("-".to_owned(), |at| moment(at, TIME));
        lines.push(("", format!("{} x {}, last {last}", error.count, error.code)));
    }
    let mut text = String::new();
    for (name, said) in lines {
        // A code may be what an upstream sent; it must not drive the terminal.
        let said = crate::error::one_line(&said);
        let name = output.hued(&format!("{name:<NAME$}"), Hue::Strong);
        text.extend([&name, "  ", &said, "\n"]);
    }
    text
}

/// Has each value stand for itself or, where there is no room for all, for the highest of some.
fn squeezed(values: &[u64], room: usize) -> Vec<u64> {
    let some = values.len().div_ceil(room.max(1)).max(1);
    values.chunks(some).filter_map(|some| some.iter().copied().max()).collect()
}

#[cfg(test)]
mod tests {
    use super::squeezed;

    #[test]
    fn what_does_not_fit_is_squeezed_and_keeps_its_peaks() {
        for (room, drawn) in [
            (5, vec![1, 9, 0, 0, 3]),
            (4, vec![9, 0, 3]),
            (2, vec![9, 3]),
            (1, vec![9]),
            (0, vec![9]),
        ] {
            assert_eq!(squeezed(&[1, 9, 0, 0, 3], room), drawn, "{room}");
        }
        assert!(squeezed(&[], 0).is_empty());
    }
}
