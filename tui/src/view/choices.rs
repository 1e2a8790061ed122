//! Draws choices from a list: columns, values to copy, and themes.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use crate::model::Model;
use crate::model::choices::{ColumnChoice, ThemeChoice, ValueChoice};
use crate::model::table::TableState;
use crate::theme::Theme;

use super::widget::frame::popup;
use super::widget::text::fit;

/// The width of the names of values.
const NAME_WIDTH: usize = 14;

/// Draws the columns with a sign for the visible ones.
pub(super) fn columns(
    model: &Model,
    choice: &ColumnChoice,
    table: &TableState,
    buffer: &mut Buffer,
    area: Rect,
) {
    let rows = choice.titles.iter().map(|title| {
        let sign = if table.hidden.contains(title) { "[ ]" } else { "[x]" };
        Line::raw(format!("{sign} {title}"))
    });
    list(model.theme, "Columns", 34, rows.collect(), choice.selected, buffer, area);
}

/// Draws the values of a row with the titles of their columns.
pub(super) fn values(model: &Model, choice: &ValueChoice, buffer: &mut Buffer, area: Rect) {
    let rows = choice.values.iter().map(|(title, value)| {
        let title = Span::styled(format!("{title:<NAME_WIDTH$}"), model.theme.faint());
        Line::from_iter([title, Span::raw(value.clone())])
    });
    list(model.theme, "Copy a value", 72, rows.collect(), choice.selected, buffer, area);
}

/// Draws the names of the themes at the right, so that the screen shows the selected one.
pub(super) fn themes(model: &Model, choice: ThemeChoice, buffer: &mut Buffer, area: Rect) {
    let rows = model.themes.iter().map(|it| Line::raw(it.name.clone())).collect();
    let width = 26.min(area.width);
    let right = Rect { x: area.right() - width, width, ..area };
    list(model.theme, "Theme", width, rows, choice.selected, buffer, right);
}

fn list(
    theme: Theme,
    title: &str,
    width: u16,
    rows: Vec<Line<'_>>,
    selected: usize,
    buffer: &mut Buffer,
    area: Rect,
) {
    let height = u16::try_from(rows.len() + 2).unwrap_or(u16::MAX);
    let area = area.centered(Constraint::Max(width), Constraint::Max(height));
    let inside = popup(theme, &fit(title, width.into()), buffer, area);
    let visible = usize::from(inside.height);
    let first = (selected + 1).saturating_sub(visible);
    for ((index, line), row) in rows.into_iter().enumerate().skip(first).zip(inside.rows()) {
        line.render(row, buffer);
        if index == selected {
            buffer.set_style(row, theme.cursor());
        }
    }
}
