//! The ledger screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Span;

use crate::model::Model;
use crate::model::ledger::LedgerEntry;

use super::panes::Panes;
use super::widget::detail::{Detail, plain};
use super::widget::table::Column;
use super::widget::text::{UNKNOWN, date_and_time, dollars, full_time};

const COLUMNS: &[Column] = &[
    Column::text("time", 19, 0, 0),
    Column::text("account", 10, 1, 1),
    Column::text("kind", 10, 0, 0),
    Column::decimal("amount", 16, 0),
    Column::text("reason", 12, 2, 2),
    Column::text("request", 12, 1, 3),
];

/// Draws the newest entries of the ledger.
pub(super) fn render(model: &Model, buffer: &mut Buffer, area: Rect) {
    let panes = Panes {
        title: "Ledger",
        list: &model.data.ledger,
        columns: COLUMNS,
        empty_text: "no balance has changed yet",
    };
    panes.render(model, |it| cells(model, it), |it| detail(model, it), buffer, area);
}

fn cells<'a>(model: &Model, entry: &'a LedgerEntry) -> Vec<Span<'a>> {
    vec![
        plain(date_and_time(entry.at, &model.zone)),
        plain(entry.account.as_str()),
        plain(entry.kind.unwrap_or(UNKNOWN)),
        plain(dollars(entry.amount_usd.as_deref())),
        plain(entry.note.as_deref().unwrap_or_default()),
        plain(entry.request.as_deref().unwrap_or_default()),
    ]
}

fn detail<'a>(model: &'a Model, entry: &'a LedgerEntry) -> Detail<'a> {
    let mut detail = Detail::default();
    detail
        .row("number", plain(entry.id.as_str()))
        .row("time", plain(full_time(entry.at, &model.zone)))
        .row("account", plain(entry.account.as_str()))
        .row("kind", plain(entry.kind.unwrap_or(UNKNOWN)))
        .row("amount", Span::styled(dollars(entry.amount_usd.as_deref()), model.theme.strong()))
        .optional_row("reason", entry.note.as_deref().map(plain))
        .optional_row("request", entry.request.as_deref().map(plain));
    detail
}
