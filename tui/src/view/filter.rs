//! The filter input in place of the footer, and above it what completes the last word or the
//! filters typed before.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use crate::model::filter::{FilterInput, completions};
use crate::model::{Model, Screen};

use super::widget::field;
use super::widget::frame::{clear, popup};
use super::widget::text::fit;

/// The maximum number of rows above the input.
const MAX_ROWS: usize = 8;
/// The width of the box above the input.
const WIDTH: u16 = 60;

/// Draws the input in `area`, and the box above it at the end of `body`.
pub(super) fn render(
    model: &Model,
    filter: &FilterInput,
    buffer: &mut Buffer,
    body: Rect,
    area: Rect,
) {
    let theme = model.theme;
    if filter.recalled.is_some() {
        recalled(model, filter, buffer, body);
    } else {
        words(model, filter, buffer, body);
    }
    clear(theme, buffer, area);
    let hint = match model.screen {
        Screen::Usage => "words, status:failed model:NAME cost>0.01 since:1h · Tab completes ",
        _ => "words, column:value · Tab completes, ↑ earlier ones, Ctrl-S saves ",
    };
    let hint = Line::styled(hint, theme.faint());
    let [left, middle] =
        Layout::horizontal([Constraint::Length(2), Constraint::Fill(1)]).areas(area);
    Line::styled(" /", theme.accent()).render(left, buffer);
    // Show the hint only if it fits beside the input and its cursor.
    if Span::raw(filter.input.value()).width() + 2 + hint.width() <= middle.width.into() {
        hint.right_aligned().render(middle, buffer);
    }
    field::typed(theme, &filter.input, buffer, middle);
}

/// Draws the words that Tab chooses from.
fn words(model: &Model, filter: &FilterInput, buffer: &mut Buffer, body: Rect) {
    let text = filter.completed_text();
    if text.is_empty() {
        return;
    }
    let words = completions(&model.data, model.screen, text);
    let chosen = filter.completion.as_ref().map(|(_, index)| *index);
    let rows: Vec<_> = words.iter().map(|word| (word.as_str(), false)).collect();
    list(model, "Tab completes", &rows, chosen, buffer, body);
}

/// Draws the filters typed before; a star marks saved ones.
fn recalled(model: &Model, filter: &FilterInput, buffer: &mut Buffer, body: Rect) {
    let Some(memory) = model.filters.get(model.screen.name()) else { return };
    let rows = memory.all().map(|it| (it.as_str(), memory.saved.contains(it)));
    let rows: Vec<_> = rows.collect();
    list(model, "Earlier filters · ★ saved, Ctrl-S", &rows, filter.recalled, buffer, body);
}

fn list(
    model: &Model,
    title: &str,
    rows: &[(&str, bool)],
    chosen: Option<usize>,
    buffer: &mut Buffer,
    body: Rect,
) {
    if rows.is_empty() {
        return;
    }
    let height = u16::try_from(rows.len().min(MAX_ROWS) + 2).unwrap_or(u16::MAX);
    let height = height.min(body.height);
    let place = Rect { y: body.bottom() - height, height, width: WIDTH.min(body.width), ..body };
    let inside = popup(model.theme, title, buffer, place);
    let visible = usize::from(inside.height);
    let first = (chosen.unwrap_or(0) + 1).saturating_sub(visible);
    for ((index, (text, is_saved)), row) in rows.iter().enumerate().skip(first).zip(inside.rows()) {
        let star = if *is_saved { "★ " } else { "" };
        let text = fit(&format!("{star}{text}"), row.width.into());
        Line::raw(text).render(row, buffer);
        if chosen == Some(index) {
            buffer.set_style(row, model.theme.cursor());
        }
    }
}
