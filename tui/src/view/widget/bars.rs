//! Horizontal bars with labels and numbers, and gauges that show the used part of a limit.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
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

/// The minimum width of the bar area. Longer labels are truncated, unless they fit without bars.
const MIN_BAR_WIDTH: u16 = 3;

/// Draws one bar per row. The longest bar fills the bar area.
pub fn bars(theme: Theme, values: &[Bar], buffer: &mut Buffer, area: Rect) {
    let max = values.iter().filter_map(|bar| bar.value).max().unwrap_or(0);
    let number = values.iter().map(|bar| bar.number.chars().count()).max().unwrap_or(0);
    let number = u16::try_from(number).unwrap_or(u16::MAX);
    let widest = values.iter().map(|bar| Span::raw(&bar.label).width()).max().unwrap_or(0);
    let widest = u16::try_from(widest).unwrap_or(u16::MAX);
    let room = area.width.saturating_sub(number.saturating_add(1));
    let with_bars = room.saturating_sub(1 + MIN_BAR_WIDTH);
    let label = if widest <= room && widest > with_bars { room } else { widest.min(with_bars) };
    for (bar, row) in values.iter().zip(area.rows()) {
        let left = Rect { width: label, ..row };
        let right = Rect { x: row.right().saturating_sub(number), width: number, ..row };
        let right = right.intersection(row);
        let start = left.right().saturating_add(1);
        let width = right.x.saturating_sub(start.saturating_add(1));
        let middle = Rect { x: start, width, ..row };
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
    use super::*;
    use crate::theme::Palette;

    #[test]
    fn labels_that_fit_without_bars_are_not_truncated() {
        for (width, expected) in [
            (20, "insufficient ████ 12"),
            (18, "insufficient    12"),
            (15, "insufficient 12"),
            (14, "insuff… ███ 12"),
        ] {
            let bar = Bar { label: "insufficient".into(), value: Some(12), number: "12".into() };
            let area = Rect::new(0, 0, width, 1);
            let mut buffer = Buffer::empty(area);
            bars(Theme::new(Palette::Plain), &[bar], &mut buffer, area);
            let drawn: String = area.columns().map(|it| buffer[(it.x, it.y)].symbol()).collect();
            assert_eq!(drawn, expected, "in {width}");
        }
    }

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
