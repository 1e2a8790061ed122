//! The sessions screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Span;

use crate::model::Model;
use crate::model::sessions::Session;

use super::panes::Panes;
use super::widget::detail::{Detail, plain};
use super::widget::table::Column;
use super::widget::text::{date_and_time, full_time};

const COLUMNS: &[Column] = &[
    Column::text("id", 14, 1, 0),
    Column::text("session", 9, 1, 0),
    Column::text("opened", 19, 0, 0),
    Column::text("ends", 19, 0, 1),
];

/// Draws the list of sessions.
pub(super) fn render(model: &Model, buffer: &mut Buffer, area: Rect) {
    let panes = Panes {
        title: "Your sessions",
        list: &model.data.sessions,
        columns: COLUMNS,
        empty_text: "no sessions: the operator token belongs to none",
    };
    panes.render(model, |it| cells(model, it), |it| detail(model, it), buffer, area);
}

fn cells<'a>(model: &Model, session: &'a Session) -> Vec<Span<'a>> {
    vec![
        plain(session.id.as_str()),
        whose(model, session),
        plain(date_and_time(session.created_at, &model.zone)),
        plain(date_and_time(session.expires_at, &model.zone)),
    ]
}

fn whose(model: &Model, session: &Session) -> Span<'static> {
    let style = if session.is_current { model.theme.good() } else { model.theme.faint() };
    Span::styled(session.whose(), style)
}

fn detail<'a>(model: &'a Model, session: &'a Session) -> Detail<'a> {
    let mut detail = Detail::default();
    detail
        .row("id", plain(session.id.as_str()))
        .row("session", whose(model, session))
        .row("opened", plain(full_time(session.created_at, &model.zone)))
        .row("ends", plain(full_time(session.expires_at, &model.zone)));
    detail
}
