//! The audit log screen, for operators.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Span;

use crate::model::Model;
use crate::model::audit::AuditEntry;

use super::panes::Panes;
use super::widget::detail::{Detail, plain};
use super::widget::table::Column;
use super::widget::text::{date_and_time, full_time};

const COLUMNS: &[Column] = &[
    Column::text("time", 19, 0, 0),
    Column::text("actor", 10, 1, 0),
    Column::text("action", 16, 0, 0),
    Column::text("object", 14, 1, 1),
    Column::text("account", 10, 1, 3),
    Column::text("details", 12, 2, 2),
    Column::text("address", 15, 0, 4),
];

/// Draws the audit log, newest first.
pub(super) fn render(model: &Model, buffer: &mut Buffer, area: Rect) {
    let panes = Panes {
        title: "Audit",
        list: &model.data.audit,
        columns: COLUMNS,
        empty_text: "nothing was changed yet",
    };
    panes.render(model, |it| cells(model, it), |it| detail(model, it), buffer, area);
}

fn cells<'a>(model: &Model, entry: &'a AuditEntry) -> Vec<Span<'a>> {
    vec![
        plain(date_and_time(entry.at, &model.zone)),
        plain(actor(entry)),
        plain(entry.action.as_str()),
        plain(entry.object.as_str()),
        plain(entry.account.as_deref().unwrap_or_default()),
        plain(entry.details.as_str()),
        plain(entry.address.as_deref().unwrap_or_default()),
    ]
}

fn actor(entry: &AuditEntry) -> &str {
    entry.actor.as_deref().unwrap_or("the gateway")
}

fn detail<'a>(model: &'a Model, entry: &'a AuditEntry) -> Detail<'a> {
    let mut detail = Detail::default();
    detail
        .row("number", plain(entry.id.as_str()))
        .row("time", plain(full_time(entry.at, &model.zone)))
        .row("actor", plain(actor(entry)))
        .optional_row("address", entry.address.as_deref().map(plain))
        .row("action", Span::styled(entry.action.as_str(), model.theme.strong()))
        .row("object", plain(entry.object.as_str()))
        .optional_row("account", entry.account.as_deref().map(plain));
    if !entry.details.is_empty() {
        detail.heading("Details").text(plain(entry.details.as_str()));
    }
    detail
}
