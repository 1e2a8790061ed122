//! The help: what the keys do on the screen below, read off the key map.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Widget};

use crate::keymap;
use crate::model::Model;

use super::widget::frame::frame;

/// Draws a box over the middle of `area`.
pub(super) fn render(model: &Model, buffer: &mut Buffer, area: Rect) {
    let rows: Vec<_> = keymap::bindings(model.focus_below_help())
        .map(|binding| (binding.labels().collect::<Vec<_>>().join(" "), binding.help))
        .collect();
    let height = u16::try_from(rows.len() + 2).unwrap_or(u16::MAX);
    let area = area.centered(Constraint::Max(56), Constraint::Max(height));
    Clear.render(area, buffer);
    let inside = frame(model.theme, "Keys", buffer, area);
    for ((keys, help), row) in rows.into_iter().zip(inside.rows()) {
        let keys = Span::styled(format!("{keys:<22}"), model.theme.accent());
        Line::from_iter([keys, Span::raw(help)]).render(row, buffer);
    }
}
