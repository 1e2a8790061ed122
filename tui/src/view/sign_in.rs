//! The sign-in form.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Paragraph, Widget, Wrap};

use crate::model::Model;
use crate::model::sign_in::Field;

use super::widget::frame::frame;
use super::widget::text::skip;

/// Draws the form in the middle of `area`.
pub(super) fn render(model: &Model, buffer: &mut Buffer, area: Rect) {
    let theme = model.theme;
    let area = area.centered(Constraint::Max(60), Constraint::Max(10));
    let inside = frame(theme, "Sign in", buffer, area);
    let [_, name, password, _, below] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Fill(1),
    ])
    .areas(inside);

    let form = &model.sign_in;
    let typed = (form.name.value().to_owned(), form.name.visual_cursor());
    field(model, Field::Name, "name", typed, buffer, name);
    let length = form.password.value().chars().count();
    let masked = ("•".repeat(length), form.password.cursor());
    field(model, Field::Password, "password", masked, buffer, password);

    let text = match &form.problem {
        _ if form.busy => Text::styled("signing in…", theme.warning()),
        Some(problem) => Text::styled(problem.as_str(), theme.bad()),
        None => Text::styled("no account yet? `ctl register` makes one", theme.faint()),
    };
    Paragraph::new(text).wrap(Wrap { trim: true }).render(below, buffer);
}

/// Draws a field so that the cursor, a column in `text`, is in sight.
fn field(
    model: &Model,
    field: Field,
    label: &'static str,
    (text, cursor): (String, usize),
    buffer: &mut Buffer,
    area: Rect,
) {
    let [left, right] =
        Layout::horizontal([Constraint::Length(10), Constraint::Fill(1)]).areas(area);
    let theme = model.theme;
    let focused = model.sign_in.field == field && !model.sign_in.busy;
    let style = if focused { theme.accent() } else { theme.faint() };
    Line::styled(label, style).render(left, buffer);

    // A wide character at the cut goes whole, so the text may start a column late: room for two.
    let hidden = (cursor + 2).saturating_sub(usize::from(right.width));
    let visible = skip(&text, hidden);
    let shown = Span::raw(&text).width() - Span::raw(&visible).width();
    Line::raw(visible).render(right, buffer);
    if focused && let Ok(column) = u16::try_from(cursor.saturating_sub(shown)) {
        let cell = Rect { x: right.x.saturating_add(column), width: 1, height: 1, ..right };
        buffer.set_style(cell.intersection(right), theme.cursor());
    }
}
