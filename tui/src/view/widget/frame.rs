//! A box with a title, and label–value rows to fill it.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Widget};

use super::text::fit;
use crate::theme::Theme;

/// Draws a box and returns its inside, one column in from the lines.
pub fn frame(theme: Theme, title: &str, buffer: &mut Buffer, area: Rect) -> Rect {
    let title = fit(title, usize::from(area.width).saturating_sub(6));
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.border())
        .title(Span::styled(format!(" {title} "), theme.accent()));
    let inside = block.inner(area);
    block.render(area, buffer);
    Rect { x: inside.x + 1, width: inside.width.saturating_sub(2), ..inside }
        .intersection(buffer.area)
}

/// Draws a label at the left of each row and its value at the right; a value goes before a label.
pub fn rows(
    theme: Theme,
    rows: impl IntoIterator<Item = (&'static str, Span<'static>)>,
    buffer: &mut Buffer,
    area: Rect,
) {
    for ((label, value), row) in rows.into_iter().zip(area.rows()) {
        let width = usize::from(row.width);
        let value =
            Span::styled(fit(&value.content, width.saturating_sub(label.len() + 1)), value.style);
        Line::styled(label, theme.faint()).render(row, buffer);
        Line::from(value).right_aligned().render(row, buffer);
    }
}
