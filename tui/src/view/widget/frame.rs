//! A box with a title, and rows of labels and values.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Widget};

use super::text::fit;
use crate::theme::Theme;

/// The least height at which a box above a screen leaves rows of it free.
const MIN_HEIGHT_WITH_MARGIN: u16 = 18;

/// Draws a box and returns its inner area, with one column of padding.
pub fn frame(theme: Theme, title: &str, buffer: &mut Buffer, area: Rect) -> Rect {
    let title = fit(title, usize::from(area.width).saturating_sub(4));
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.border())
        .title(Span::styled(format!(" {title} "), theme.accent()));
    block.render(area, buffer);
    inner_area(area).intersection(buffer.area)
}

/// Draws the first of the notes that has room beside the title, at the right end of the top border of
/// the box in `area`.
pub fn note(theme: Theme, title: &str, notes: &[String], buffer: &mut Buffer, area: Rect) {
    let room = usize::from(area.width).saturating_sub(Span::raw(title).width() + 8);
    let note = notes.iter().find(|note| Span::raw(note.as_str()).width() <= room);
    if let (Some(note), Some(row)) = (note, area.rows().next()) {
        let row = Rect { width: row.width.saturating_sub(2), ..row };
        let note = Span::styled(format!(" {note} "), theme.faint());
        Line::from(note).right_aligned().render(row, buffer);
    }
}

/// Returns the inner area of a box.
pub fn inner_area(area: Rect) -> Rect {
    Rect {
        x: area.x.saturating_add(2),
        y: area.y.saturating_add(1),
        width: area.width.saturating_sub(4),
        height: area.height.saturating_sub(2),
    }
}

/// Clears `area`.
pub fn clear(theme: Theme, buffer: &mut Buffer, area: Rect) {
    Clear.render(area, buffer);
    buffer.set_style(area, theme.base());
}

/// Clears `area`, draws a box in it and returns its inner area.
pub fn popup(theme: Theme, title: &str, buffer: &mut Buffer, area: Rect) -> Rect {
    clear(theme, buffer, area);
    frame(theme, title, buffer, area)
}

/// Returns the number of rows that a box above a screen leaves free; none in a small terminal.
pub fn margin(area: Rect) -> u16 {
    if area.height < MIN_HEIGHT_WITH_MARGIN { 0 } else { 2 }
}

/// Draws rows with the label at the left and the value at the right. In a narrow row, the label
/// keeps up to half of the width, and the value gets the rest.
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
        // A styled line would style the cells of the value, too.
        Line::from(Span::styled(label, theme.faint())).render(row, buffer);
        Line::from(value).right_aligned().render(row, buffer);
    }
}
