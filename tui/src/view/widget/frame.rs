//! A box with a title, and label–value rows to fill it.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Widget};

use super::text::fit;
use crate::theme::Theme;

/// Draws a box and returns its inside, one column in from the lines.
pub fn frame(theme: Theme, title: &str, buffer: &mut Buffer, area: Rect) -> Rect {
    let title = fit(title, usize::from(area.width).saturating_sub(4));
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.border())
        .title(Span::styled(format!(" {title} "), theme.accent()));
    block.render(area, buffer);
    inner_area(area).intersection(buffer.area)
}

/// Returns the inside of a box.
pub fn inner_area(area: Rect) -> Rect {
    Rect {
        x: area.x.saturating_add(2),
        y: area.y.saturating_add(1),
        width: area.width.saturating_sub(4),
        height: area.height.saturating_sub(2),
    }
}

/// Draws a box over whatever is there.
pub fn popup(theme: Theme, title: &str, buffer: &mut Buffer, area: Rect) -> Rect {
    Clear.render(area, buffer);
    frame(theme, title, buffer, area)
}

/// Draws a label at the left of each row and its value at the right. Where there is no room for both,
/// the value has what it needs but for what a label needs of the left half.
pub fn rows<'a>(
    theme: Theme,
    rows: impl IntoIterator<Item = (&'a str, Span<'a>)>,
    buffer: &mut Buffer,
    area: Rect,
) {
    for ((label, value), row) in rows.into_iter().zip(area.rows()) {
        let width = usize::from(row.width);
        let label_width = Span::raw(label).width().min(width / 2);
        let value =
            Span::styled(fit(&value.content, width.saturating_sub(label_width + 1)), value.style);
        let label = fit(label, width.saturating_sub(value.width() + 1));
        Line::styled(label, theme.faint()).render(row, buffer);
        Line::from(value).right_aligned().render(row, buffer);
    }
}
