//! Horizontal bars: label, bar, number.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::Widget;

use super::text::{fit, short_count};
use crate::theme::Theme;

const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// Draws a bar per row, the longest of which fills its place. An unknown value has none.
pub fn bars(theme: Theme, values: &[(&str, Option<u64>)], buffer: &mut Buffer, area: Rect) {
    let most = values.iter().filter_map(|(_, value)| *value).max().unwrap_or(0);
    for ((label, value), row) in values.iter().zip(area.rows()) {
        let [left, middle, right] =
            Layout::horizontal([Constraint::Fill(3), Constraint::Fill(2), Constraint::Length(7)])
                .spacing(1)
                .areas(row);
        Line::raw(fit(label, left.width.into())).render(left, buffer);
        Line::styled(bar(*value, most, middle.width), theme.accent()).render(middle, buffer);
        Line::raw(short_count(*value)).right_aligned().render(right, buffer);
    }
}

fn bar(value: Option<u64>, most: u64, width: u16) -> String {
    let eighths = match value {
        Some(value) if most > 0 => u128::from(value) * u128::from(width) * 8 / u128::from(most),
        _ => 0,
    };
    let eighths = usize::try_from(eighths).unwrap_or(0);
    // What is more than nothing can be seen.
    let eighths = if value > Some(0) { eighths.max(1) } else { eighths };
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::bar;

    #[test]
    fn the_longest_bar_fills_its_place_and_the_least_can_be_seen() {
        for (value, drawn) in
            [(None, ""), (Some(0), ""), (Some(1), "▏"), (Some(500), "█▌"), (Some(1_000), "███")]
        {
            assert_eq!(bar(value, 1_000, 3), drawn, "{value:?}");
        }
        assert_eq!(bar(Some(u64::MAX), u64::MAX, u16::MAX).chars().count(), usize::from(u16::MAX));
        assert_eq!(bar(Some(0), 0, 3), "");
    }
}
