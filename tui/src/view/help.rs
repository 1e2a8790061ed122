//! The help overlay: the keys and commands of the screen below and of all others, derived from the
//! key map, and a search in them.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use crate::keymap::help::{HelpRow, help};
use crate::model::Model;
use crate::model::overlay::Help;

use super::widget::field;
use super::widget::frame::popup;
use super::widget::text::fit;

/// The width of the key column.
const KEY_COLUMN_WIDTH: usize = 20;
/// The maximum width of the box.
const MAX_WIDTH: u16 = 100;

/// A line of the help.
enum HelpLine<'a> {
    /// The place of the rows below.
    Place(&'a str),
    /// A row and its index.
    Row(usize, &'a HelpRow),
}

/// Draws the help centred in `area`.
pub(super) fn render(model: &Model, open: &Help, buffer: &mut Buffer, area: Rect) {
    let theme = model.theme;
    let query = open.input.value();
    let rows = help(model, open);
    let lines = lines(&rows, query.trim().is_empty());
    // The box keeps its size while the search finds less.
    let height = if query.is_empty() {
        u16::try_from(lines.len() + 3).unwrap_or(u16::MAX)
    } else {
        u16::MAX
    };
    let area = area.centered(Constraint::Max(MAX_WIDTH), Constraint::Max(height));
    let title = match rows.len() {
        0 => "Help".to_owned(),
        count => format!("Help · {} of {count}", open.selected.min(count - 1) + 1),
    };
    let inside = popup(theme, &title, buffer, area);
    let mut places = inside.rows();
    if let Some(row) = places.next() {
        if open.is_typing || !query.is_empty() {
            Span::styled("/", theme.accent()).render(row, buffer);
            let typed = Rect { x: row.x + 1, width: row.width.saturating_sub(1), ..row };
            if open.is_typing {
                field::typed(theme, &open.input, buffer, typed);
            } else {
                field::line(theme, query, None, buffer, typed);
            }
        } else {
            let hint = "type to search, with / before q or ? · Enter runs a row";
            Line::styled(hint, theme.faint()).render(row, buffer);
        }
    }
    let visible = usize::from(inside.height.saturating_sub(1));
    let is_selected =
        |line: &HelpLine<'_>| matches!(line, HelpLine::Row(index, _) if *index == open.selected);
    let selected = lines.iter().position(is_selected).unwrap_or(0);
    let first = (selected + 1).saturating_sub(visible);
    if rows.is_empty()
        && let Some(row) = places.next()
    {
        Line::styled("nothing has these words", theme.faint()).render(row, buffer);
        return;
    }
    for (line, row) in lines.iter().skip(first).zip(places) {
        match line {
            HelpLine::Place(name) => Line::styled(*name, theme.strong()).render(row, buffer),
            HelpLine::Row(_, found) => {
                let is_found = !query.trim().is_empty();
                draw_row(model, found, is_found, buffer, row);
                if is_selected(line) {
                    buffer.set_style(row, theme.cursor());
                }
            }
        }
    }
}

/// Returns the rows; with a line before the first one of each place, if `has_places`.
fn lines(rows: &[HelpRow], has_places: bool) -> Vec<HelpLine<'_>> {
    let mut lines = Vec::new();
    let mut place = "";
    for (index, row) in rows.iter().enumerate() {
        if has_places && row.place != place {
            place = &row.place;
            lines.push(HelpLine::Place(place));
        }
        lines.push(HelpLine::Row(index, row));
    }
    lines
}

/// Draws keys and description at the left, and the command at the right; for a row that a search
/// found, also the place.
fn draw_row(model: &Model, found: &HelpRow, is_found: bool, buffer: &mut Buffer, row: Rect) {
    let theme = model.theme;
    let mut right = found.command();
    if is_found {
        right = format!("{right}  {}", found.place);
    }
    let width = usize::from(row.width);
    let right = fit(&right, (width / 3).max(12));
    let keys = fit(&found.keys(), KEY_COLUMN_WIDTH);
    let pad = KEY_COLUMN_WIDTH + 1 - Span::raw(keys.as_str()).width();
    let room = width.saturating_sub(KEY_COLUMN_WIDTH + 2 + Span::raw(right.as_str()).width());
    let help = fit(found.binding.help, room);
    let keys = Span::styled(keys, theme.accent());
    Line::from_iter([keys, Span::raw(" ".repeat(pad)), Span::raw(help)]).render(row, buffer);
    Line::from(Span::styled(right, theme.faint())).right_aligned().render(row, buffer);
}
