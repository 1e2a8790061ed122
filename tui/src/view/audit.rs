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

/// Splits details such as `rpm: 1 -> 2, models: a, b` at the commas before a field name.
fn fields(details: &str) -> Vec<&str> {
    let starts_field = |text: &str| {
        let is_name = |name: &str| name.bytes().all(|it| it.is_ascii_lowercase() || it == b'_');
        text.split_once(": ").is_some_and(|(name, _)| !name.is_empty() && is_name(name))
    };
    let mut fields = Vec::new();
    let mut start = 0;
    for (comma, _) in details.match_indices(", ") {
        if starts_field(&details[comma + 2..]) {
            fields.push(&details[start..comma]);
            start = comma + 2;
        }
    }
    fields.push(&details[start..]);
    fields
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
        detail.heading("Details");
        for field in fields(&entry.details) {
            detail.text(plain(field.replace(" -> ", " → ")));
        }
    }
    detail
}

#[cfg(test)]
mod tests {
    use super::fields;

    #[test]
    fn details_are_split_before_field_names() {
        for (details, expected) in [
            ("overdue, twice", vec!["overdue, twice"]),
            ("rpm: 1 -> 2, models: a, b -> c", vec!["rpm: 1 -> 2", "models: a, b -> c"]),
            ("plan `free`, trial credit 5", vec!["plan `free`, trial credit 5"]),
            ("", vec![""]),
        ] {
            assert_eq!(fields(details), expected, "{details}");
        }
    }
}
