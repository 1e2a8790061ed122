//! A single-line input field.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;
use tui_input::Input;

use super::text::skip;
use crate::theme::Theme;

/// Draws the input, scrolled so that the caret is visible.
pub fn typed(theme: Theme, input: &Input, buffer: &mut Buffer, area: Rect) {
    line(theme, input.value(), Some(input.visual_cursor()), buffer, area);
}

/// Draws the input as dots.
pub fn masked(theme: Theme, input: &Input, focused: bool, buffer: &mut Buffer, area: Rect) {
    let dots = "•".repeat(input.value().chars().count());
    line(theme, &dots, focused.then(|| input.cursor()), buffer, area);
}

/// Draws text, scrolled so that the caret column is visible, if there is one.
pub fn line(theme: Theme, text: &str, caret: Option<usize>, buffer: &mut Buffer, area: Rect) {
    let Some(caret) = caret else {
        Line::raw(super::text::fit(text, area.width.into())).render(area, buffer);
        return;
    };
    // A wide character at the left edge is skipped as a whole, so the text may start one column
    // late. Reserve two columns.
    let hidden = (caret + 2).saturating_sub(usize::from(area.width));
    let visible = skip(text, hidden);
    let shown = Span::raw(text).width() - Span::raw(&visible).width();
    Line::raw(visible).render(area, buffer);
    if let Ok(column) = u16::try_from(caret.saturating_sub(shown)) {
        let cell = Rect { x: area.x.saturating_add(column), width: 1, height: 1, ..area };
        buffer.set_style(cell.intersection(area), theme.caret());
    }
}
