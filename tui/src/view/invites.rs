//! The invites screen, for operators.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Span;

use crate::model::Model;
use crate::model::invites::Invite;

use super::panes::Panes;
use super::widget::detail::{Detail, plain};
use super::widget::table::Column;
use super::widget::text::{UNKNOWN, date_and_time, dollars, full_time};

const COLUMNS: &[Column] = &[
    Column::text("id", 14, 1, 0),
    Column::text("state", 6, 0, 0),
    Column::text("plan", 10, 1, 1),
    Column::decimal("credit", 12, 2),
    Column::text("created by", 12, 1, 3),
    Column::text("created", 19, 0, 4),
    Column::text("ends", 19, 0, 0),
];

/// Draws the list of invites.
pub(super) fn render(model: &Model, buffer: &mut Buffer, area: Rect) {
    let panes = Panes {
        title: "Invites",
        list: &model.data.invites,
        columns: COLUMNS,
        empty_text: "no invites: `n` creates one",
    };
    panes.render(model, |it| cells(model, it), |it| detail(model, it), buffer, area);
}

fn cells<'a>(model: &Model, invite: &'a Invite) -> Vec<Span<'a>> {
    vec![
        plain(invite.id.as_str()),
        state(model, invite),
        plain(invite.plan.as_deref().unwrap_or("default")),
        plain(dollars(invite.credit_usd.as_deref())),
        plain(invite.created_by.as_deref().unwrap_or(UNKNOWN)),
        plain(date_and_time(invite.created_at, &model.zone)),
        plain(date_and_time(invite.expires_at, &model.zone)),
    ]
}

fn state(model: &Model, invite: &Invite) -> Span<'static> {
    let style = if invite.used_at.is_some() { model.theme.faint() } else { model.theme.good() };
    Span::styled(invite.state(), style)
}

fn detail<'a>(model: &'a Model, invite: &'a Invite) -> Detail<'a> {
    let time = |time| plain(full_time(time, &model.zone));
    let mut detail = Detail::default();
    detail
        .row("id", plain(invite.id.as_str()))
        .row("state", state(model, invite))
        .row("plan", plain(invite.plan.as_deref().unwrap_or("the default plan")))
        .row("credit", plain(dollars(invite.credit_usd.as_deref())))
        .row("created by", plain(invite.created_by.as_deref().unwrap_or(UNKNOWN)))
        .row("created", time(invite.created_at))
        .row("ends", time(invite.expires_at))
        .optional_row("used", invite.used_at.map(|at| time(Some(at))));
    detail
}
