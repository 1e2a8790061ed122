//! The values that the focused field of a form offers, in a box below the field.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use crate::model::Model;
use crate::model::fetched::FetchState;
use crate::model::form::Form;
use crate::model::picker::{Offers, offers};

use super::overlay::{below_fields, gap};
use super::widget::frame::popup;
use super::widget::text::fit;

/// The maximum number of visible values.
const MAX_ROWS: usize = 6;
/// The column of the values in the form.
const LEFT: u16 = 15;

/// Draws the values that the focused field of `form`, which is drawn in `place`, offers. The box is
/// below the field, or above it where there is more room, and does not cover the problem of the form.
pub(super) fn render(model: &Model, form: &Form, buffer: &mut Buffer, body: Rect, place: Rect) {
    let Some(offers) = offers(form, &model.data) else { return };
    if form.is_submitting || form.picker.is_hidden {
        return;
    }
    let Some(lines) = lines(model, &offers) else { return };
    let rows = lines.len().min(MAX_ROWS);
    let height = u16::try_from(rows + 2).unwrap_or(u16::MAX);
    // The border and the gap precede the first field.
    let first = place.y.saturating_add(1 + gap(form, place));
    let field = first.saturating_add(u16::try_from(form.current).unwrap_or(0));
    let end = if form.problem.is_some() { below_fields(form, place) } else { body.bottom() };
    let below = end.saturating_sub(field.saturating_add(1));
    let above = field.saturating_sub(body.y);
    let is_below = below >= height || below >= above;
    let height = height.min(if is_below { below } else { above });
    let y = if is_below { field.saturating_add(1) } else { field.saturating_sub(height) };
    let x = place.x.saturating_add(LEFT);
    let width = place.width.saturating_sub(LEFT);
    let area = Rect { x, y, width, height }.intersection(body);
    let title = match (form.picker.selected, offers.rows.len()) {
        (_, 0) => offers.known.name().to_owned(),
        (None, count) => format!("{} · {count}, ↓ chooses", offers.known.name()),
        (Some(index), count) => format!("{} of {count} · Tab takes it", index.min(count - 1) + 1),
    };
    let inside = popup(model.theme, &title, buffer, area);
    let visible = usize::from(inside.height);
    let first = form.picker.selected.map_or(0, |index| (index + 1).saturating_sub(visible));
    for ((index, line), row) in lines.into_iter().enumerate().skip(first).zip(inside.rows()) {
        line.render(row, buffer);
        if form.picker.selected == Some(index) {
            buffer.set_style(row, model.theme.cursor());
        }
    }
}

/// Returns a line per value, or what prevents that there are any; `None` if the typed word is none
/// of the known values.
fn lines<'a>(model: &Model, offers: &'a Offers<'_>) -> Option<Vec<Line<'a>>> {
    let theme = model.theme;
    let width = usize::from(model.size.0);
    let state = match offers.fetch {
        _ if !offers.rows.is_empty() => {
            let lines = offers.rows.iter().map(|offer| {
                let note = Span::styled(fit(&offer.note, width), theme.faint());
                Line::from_iter([Span::raw(offer.value.as_str()), Span::raw("  "), note])
            });
            return Some(lines.collect());
        }
        FetchState::Loading => "loading…".to_owned(),
        FetchState::Failed(problem) => format!("not known: {problem}"),
        FetchState::Ready | FetchState::Unsupported => return None,
    };
    Some(vec![Line::styled(state, theme.warning())])
}
