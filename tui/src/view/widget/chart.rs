//! A column chart over time. In one row, it is a sparkline.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::Span;

use super::area::covered;
use super::scale::Scale;
use super::text::approximate_count;
use crate::model::recent::Recent;
use crate::theme::Theme;

const EIGHTHS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
/// The width of the axis, unless a label is longer. Charts beside each other show the same time.
const MIN_AXIS_WIDTH: u16 = 5;
/// The maximum width of a column.
const MAX_COLUMN_WIDTH: usize = 8;

/// Draws one column per value, the newest at the right, and the axis of the values at the left. Without
/// room for all, several values share a column, which is as high as the highest of them. The values of `part` are parts of the others, drawn at their feet in another style. Returns the
/// area of the columns.
pub fn chart(
    theme: Theme,
    values: &[u64],
    style: Style,
    part: Option<(&[u64], Style)>,
    buffer: &mut Buffer,
    area: Rect,
) -> Rect {
    let max = values.iter().copied().max().unwrap_or(0);
    if max == 0 {
        return area;
    }
    let scale = Scale::up_to(max);
    let widest = scale.labels().map(|label| approximate_count(label).len()).max().unwrap_or(0);
    let axis = u16::try_from(widest + 1).unwrap_or(u16::MAX).max(MIN_AXIS_WIDTH);
    let [axis, plot] =
        Layout::horizontal([Constraint::Length(axis), Constraint::Fill(1)]).areas(area);
    scale.render(theme, approximate_count, buffer, axis);
    columns(values, scale.top, style, part, buffer, plot);
    plot
}

/// Draws the columns. A value of `max` fills the height.
fn columns(
    values: &[u64],
    max: u64,
    style: Style,
    part: Option<(&[u64], Style)>,
    buffer: &mut Buffer,
    area: Rect,
) {
    let room = usize::from(area.width);
    let count = values.len().min(room);
    if count == 0 {
        return;
    }
    // The columns share the whole width; some are one cell wider than others.
    let used = room.min(MAX_COLUMN_WIDTH * count);
    let start = |place: usize| room - used + place * used / count;
    // Wide columns have a gap.
    let gap = usize::from(used / count > 2);
    for place in 0..count {
        let Some(index) = covered(place, count, values.len()).max_by_key(|index| values[*index])
        else {
            continue;
        };
        let eighths = eighths(values[index], max, area.height);
        for (line, row) in area.rows().rev().enumerate() {
            let symbol = EIGHTHS[eighths.saturating_sub(line * 8).min(8)];
            let of_part = part.map(|(parts, style)| (parts.get(index), style));
            let (symbol, style) = match of_part {
                Some((Some(part), part_style)) => {
                    let part = self::eighths(*part, max, area.height).saturating_sub(line * 8);
                    combined(symbol, style, part.min(8), part_style)
                }
                _ => (symbol, style),
            };
            for column in start(place)..start(place + 1) - gap {
                let x = row.x.saturating_add(u16::try_from(column).unwrap_or(u16::MAX));
                if let Some(cell) = buffer.cell_mut((x, row.y)) {
                    cell.set_symbol(symbol).set_style(style);
                }
            }
        }
    }
}

/// Returns the symbol and the style of a cell whose lower `part` eighths have another style. A
/// full-height column behind it becomes the background.
fn combined(
    symbol: &'static str,
    style: Style,
    part: usize,
    part_style: Style,
) -> (&'static str, Style) {
    match part {
        0 => (symbol, style),
        _ if symbol == EIGHTHS[8] && part < 8 => {
            (EIGHTHS[part], style.fg.map_or(part_style, |colour| part_style.bg(colour)))
        }
        part => (EIGHTHS[part], part_style),
    }
}

/// Returns recent requests as a row of columns; the most fill it.
pub fn trend(recent: Option<&Recent>) -> Span<'static> {
    let Some(recent) = recent else { return Span::raw("") };
    let max = recent.trend.iter().copied().max().unwrap_or(0);
    let columns = recent.trend.iter().map(|value| EIGHTHS[eighths(*value, max, 1).min(8)]);
    Span::raw(columns.collect::<String>())
}

/// Returns the height of a column in eighths of a row. A non-zero value has at least one.
fn eighths(value: u64, max: u64, height: u16) -> usize {
    let eighths = u128::from(value) * u128::from(height) * 8 / u128::from(max.max(1));
    usize::try_from(eighths).unwrap_or(0).max(usize::from(value > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: a narrow chart left the oldest values out, but was labelled with their time.
    #[test]
    fn values_without_a_column_share_one_with_the_highest() {
        let area = Rect::new(0, 0, 4, 1);
        let mut buffer = Buffer::empty(area);
        let (values, style) = ([8, 0, 0, 0, 4, 1, 1, 2], Style::new());
        columns(&values, 8, style, None, &mut buffer, area);
        let drawn: String = area.columns().map(|it| buffer[(it.x, it.y)].symbol()).collect();
        assert_eq!(drawn, "█ ▄▂");
    }

    #[test]
    fn the_highest_column_fills_the_height_and_the_lowest_is_visible() {
        for (value, height) in [(0, 0), (1, 1), (500, 8), (1_000, 16)] {
            assert_eq!(eighths(value, 1_000, 2), height);
        }
        assert_eq!(eighths(u64::MAX, u64::MAX, u16::MAX), usize::from(u16::MAX) * 8);
    }
}
