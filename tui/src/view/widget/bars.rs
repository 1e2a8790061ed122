//! Horizontal bars with labels and numbers, and gauges that show the used part of a limit.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::text::fit;
use crate::theme::Theme;

const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// A labelled bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// The label.
    pub label: String,
    /// The length; an unknown value has no bar.
    pub value: Option<u64>,
    /// The text after the bar.
    pub number: String,
}

/// The minimum width of the bar area. Longer labels are truncated.
const MIN_BAR_WIDTH: u16 = 3;

/// Draws one bar per row. The longest bar fills the bar area.
pub fn bars(theme: Theme, values: &[Bar], buffer: &mut Buffer, area: Rect) {
    let max = values.iter().filter_map(|bar| bar.value).max().unwrap_or(0);
    let number = values.iter().map(|bar| bar.number.chars().count()).max().unwrap_or(0);
    let number = u16::try_from(number).unwrap_or(u16::MAX);
    let room = area.width.saturating_sub(number.saturating_add(2 + MIN_BAR_WIDTH));
    let label = values.iter().map(|bar| Span::raw(&bar.label).width()).max().unwrap_or(0);
    let label = u16::try_from(label).unwrap_or(u16::MAX).min(room);
    for (bar, row) in values.iter().zip(area.rows()) {
        let [left, middle, right] = Layout::horizontal([
            Constraint::Length(label),
            Constraint::Fill(1),
            Constraint::Length(number),
        ])
        .spacing(1)
        .areas(row);
        Line::raw(fit(&bar.label, left.width.into())).render(left, buffer);
        Line::styled(bar_glyphs(bar.value, max, middle.width), theme.bar()).render(middle, buffer);
        Line::raw(bar.number.as_str()).right_aligned().render(right, buffer);
    }
}

/// Draws the used part of `limit` as a bar over a line.
pub fn gauge(theme: Theme, used: u64, limit: u64, buffer: &mut Buffer, area: Rect) {
    let rest = "─".repeat(area.width.into());
    Line::styled(rest, theme.border()).render(area, buffer);
    let full = bar_glyphs(Some(used.min(limit)), limit, area.width);
    Line::styled(full, usage_style(theme, used, limit)).render(area, buffer);
}

/// Returns the style for a used part of a limit.
pub fn usage_style(theme: Theme, used: u64, limit: u64) -> Style {
    match u128::from(used) * 100 / u128::from(limit.max(1)) {
        0..70 => theme.good(),
        70..95 => theme.warning(),
        _ => theme.bad(),
    }
}

fn bar_glyphs(value: Option<u64>, max: u64, width: u16) -> String {
    let eighths = match value {
        Some(value) if max > 0 => u128::from(value) * u128::from(width) * 8 / u128::from(max),
        _ => 0,
    };
    let eighths = usize::try_from(eighths).unwrap_or(0);
    // A non-zero value always shows at least one eighth.
    let eighths = if value > Some(0) { eighths.max(1) } else { eighths };
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::bar_glyphs;

    #[test]
    fn the_longest_bar_fills_the_width_and_the_shortest_is_visible() {
        for (value, drawn) in
            [(None, ""), (Some(0), ""), (Some(1), "▏"), (Some(500), "█▌"), (Some(1_000), "███")]
        {
            assert_eq!(bar_glyphs(value, 1_000, 3), drawn, "{value:?}");
        }
        assert_eq!(
            bar_glyphs(Some(u64::MAX), u64::MAX, u16::MAX).chars().count(),
            usize::from(u16::MAX)
        );
        assert_eq!(bar_glyphs(Some(0), 0, 3), "");
    }
}
