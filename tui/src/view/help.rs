//! The help overlay: the key bindings of the screen below, derived from the key map.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use crate::keymap;
use crate::model::Model;

use super::widget::frame::popup;
use super::widget::text::fit;

/// The width of the key column.
const KEY_COLUMN_WIDTH: usize = 20;

/// Draws the help centred in `area`, scrolled down by `scroll` rows.
pub(super) fn render(model: &Model, scroll: usize, buffer: &mut Buffer, area: Rect) {
    let rows: Vec<_> = keymap::bindings(model.focus_below())
        .filter(|binding| model.allows(binding.action))
        .map(|binding| {
            let mut keys: Vec<_> = binding.labels().collect();
            keys.extend(binding.command.filter(|_| keys.is_empty()).map(|name| format!(":{name}")));
            (keys.join(" "), binding.help)
        })
        .collect();
    let height = u16::try_from(rows.len() + 2).unwrap_or(u16::MAX);
    let area = area.centered(Constraint::Max(72), Constraint::Max(height));
    let room = usize::from(area.height.saturating_sub(2));
    let scroll = scroll.min(rows.len().saturating_sub(room));
    let title = if rows.len() > room + scroll { "Keys · ↓ for more" } else { "Keys" };
    let inside = popup(model.theme, title, buffer, area);
    for ((keys, help), row) in rows.into_iter().skip(scroll).zip(inside.rows()) {
        let keys = Span::styled(format!("{keys:<KEY_COLUMN_WIDTH$}  "), model.theme.accent());
        let help = fit(help, usize::from(row.width).saturating_sub(KEY_COLUMN_WIDTH + 2));
        Line::from_iter([keys, Span::raw(help)]).render(row, buffer);
    }
}
