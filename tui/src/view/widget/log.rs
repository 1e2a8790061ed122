//! The request log as a table, newest first.

use jiff::tz::TimeZone;
use ratatui::buffer::Buffer;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::text::{UNKNOWN, dollars, fit, milliseconds, short_count};
use crate::model::overview::Log;
use crate::model::record::{Record, Status};
use crate::theme::Theme;

/// The heads of the columns.
const HEADS: [&str; 7] = ["time", "model", "status", "in", "out", "ms", "cost"];
const WIDTHS: [Constraint; 7] = [
    Constraint::Length(8),
    Constraint::Fill(1),
    Constraint::Length(11),
    Constraint::Length(7),
    Constraint::Length(7),
    Constraint::Length(7),
    Constraint::Length(12),
];
/// From this column on, cells are numbers and stand at the right.
const NUMBERS: usize = 3;

/// Draws the rows around the cursor; its row is always among them.
pub fn log(theme: Theme, zone: &TimeZone, log: &Log, buffer: &mut Buffer, area: Rect) {
    let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    line(HEADS.map(|head| Span::styled(head, theme.faint())), buffer, head);
    if log.records.is_empty() {
        let text = if log.live { "no requests yet" } else { UNKNOWN };
        Line::styled(text, theme.faint()).render(body, buffer);
    }
    let first = (log.selected + 1).saturating_sub(usize::from(body.height));
    for ((index, record), row) in log.records.iter().enumerate().skip(first).zip(body.rows()) {
        line(cells(theme, zone, record), buffer, row);
        if index == log.selected {
            buffer.set_style(row, theme.cursor());
        }
    }
}

fn cells(theme: Theme, zone: &TimeZone, record: &Record) -> [Span<'static>; 7] {
    let time = record.started_at.map(|time| time.to_zoned(zone.clone()).strftime("%T").to_string());
    let plain = |text: String| Span::styled(text, Style::new());
    [
        plain(time.unwrap_or_else(|| UNKNOWN.to_owned())),
        plain(record.model.clone().unwrap_or_else(|| UNKNOWN.to_owned())),
        Span::styled(status(record.status), theme.status(record.status)),
        plain(short_count(record.tokens.input)),
        plain(short_count(record.tokens.output)),
        plain(milliseconds(record.duration_ms)),
        plain(dollars(record.cost_usd.as_deref())),
    ]
}

fn status(status: Option<Status>) -> &'static str {
    match status {
        None => UNKNOWN,
        Some(Status::Completed) => "completed",
        Some(Status::Incomplete) => "incomplete",
        Some(Status::Failed) => "failed",
        Some(Status::Cancelled) => "cancelled",
        Some(Status::Interrupted) => "interrupted",
        Some(Status::Rejected) => "rejected",
    }
}

fn line(cells: [Span<'static>; 7], buffer: &mut Buffer, row: Rect) {
    let places: [Rect; 7] = Layout::horizontal(WIDTHS).spacing(1).areas(row);
    for (column, (cell, place)) in cells.into_iter().zip(places).enumerate() {
        let cell = Span::styled(fit(&cell.content, place.width.into()), cell.style);
        let alignment = if column < NUMBERS { Alignment::Left } else { Alignment::Right };
        Line::from(cell).alignment(alignment).render(place, buffer);
    }
}
