//! The usage screen: the totals of a time range, which are in [`sums`], above the request log.

mod sums;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Span;

use crate::model::error_code::meaning;
use crate::model::fetched::FetchState;
use crate::model::log::MAX_LOADED_RECORDS;
use crate::model::record::Record;
use crate::model::{Model, Screen};

pub(super) use self::sums::change_text;
use super::panes;
use super::widget::detail::{Detail, plain};
use super::widget::frame::{frame, note};
use super::widget::status::empty;
use super::widget::table::{Column, Table, hidden_columns};
use super::widget::text::{UNKNOWN, count, dollars, duration, full_time, log_time, short_count};

const COLUMNS: &[Column] = &[
    Column::text("started", 11, 0, 0),
    Column::text("account", 10, 1, 5),
    Column::text("model", 12, 3, 0),
    Column::text("endpoint", 16, 0, 7),
    Column::text("status", 11, 0, 0),
    Column::text("error", 20, 3, 4).steady(),
    Column::number("in", 7, 2),
    Column::number("out", 7, 2),
    Column::number("ttft", 6, 6),
    Column::number("took", 6, 3),
    Column::decimal("cost", 12, 1),
];

/// The relative widths of log and detail. At 160 columns, an error code fits in the log and a
/// request id in the detail pane.
const SHARES: [u16; 2] = [53, 27];

/// Draws the totals above the request log.
pub(super) fn render(model: &Model, buffer: &mut Buffer, area: Rect) {
    let (log_area, detail_area) = log_and_detail_areas(model, area);
    if log_area.width > 0 {
        sums::render(model, buffer, split(area).0);
        let title = title(model);
        let inside = frame(model.theme, &title, buffer, log_area);
        let hidden = log_table(model, Some(model.data.log.selected), buffer, inside);
        note(model.theme, &title, &hidden, buffer, log_area);
    }
    if detail_area.width > 0 {
        let inside = frame(model.theme, "Request · Esc closes", buffer, detail_area);
        match model.data.log.current() {
            Some(record) => {
                detail(model, record).render(model.theme, model.detail_scroll, buffer, inside);
            }
            None => empty(model.theme, &FetchState::Ready, "nothing selected", buffer, inside),
        }
    }
}

/// Returns the area of the log, the index of the selected row, and the number of rows.
pub(super) fn list_area(model: &Model, area: Rect) -> (Rect, usize, usize) {
    let log = &model.data.log;
    (log_and_detail_areas(model, area).0, log.selected, log.records.len())
}

/// Returns the areas of log and detail. In a narrow terminal, the detail covers the whole screen.
fn log_and_detail_areas(model: &Model, area: Rect) -> (Rect, Rect) {
    match panes::split(model, area, SHARES) {
        (log, detail) if log.width == 0 => (log, detail),
        _ => panes::split(model, split(area).1, SHARES),
    }
}

fn split(area: Rect) -> (Rect, Rect) {
    let height = if area.height >= 36 { 12 } else { 9 };
    let [top, bottom] =
        Layout::vertical([Constraint::Length(height), Constraint::Fill(1)]).areas(area);
    (top, bottom)
}

fn title(model: &Model) -> String {
    let log = &model.data.log;
    let drilled = model.trail.last().map_or("", |visit| &visit.filter);
    let filter = model.data.usage.filter.as_str();
    // The way to the screen says where the rest comes from.
    let filter = match filter.strip_prefix(drilled).unwrap_or(filter).trim_start() {
        "" => String::new(),
        added => format!(" · /{added}"),
    };
    let filter = match log.filter.omitted_names {
        0 => filter,
        more => format!("{filter} · without {more} more names"),
    };
    let row = count(u64::try_from(log.selected + 1).ok());
    let loaded = u64::try_from(log.records.len()).ok();
    let of = match log.matching.max(loaded) {
        _ if !log.filter.words.is_empty() => {
            let searched = count(u64::try_from(log.searched()).ok());
            format!("of {} in {searched} searched", count(loaded))
        }
        known if log.matching.is_some() => format!("of {}", count(known)),
        known => format!("of {} fetched", count(known)),
    };
    let position = match (log.paused, log.following) {
        (true, _) => format!("{row} {of} · paused, {} new", count(Some(log.arrived_while_paused))),
        // Only some of the requests are searched for words.
        (false, true) if !log.filter.words.is_empty() => {
            let searched = count(u64::try_from(log.searched()).ok());
            format!("following · {} in {searched} searched", count(loaded))
        }
        // The log may contain more than was counted last, and requests from before the 30 days.
        (false, true) => match log.matching {
            Some(matching) if Some(matching) >= loaded => {
                format!("following · {} in 30 days", count(Some(matching)))
            }
            _ => "following".to_owned(),
        },
        (false, false) => match log.arrived_above {
            0 => format!("{row} {of}, g follows"),
            above => format!("{row} {of} · {} new above, g follows", count(Some(above))),
        },
    };
    let position = match log.is_fetching_older() {
        true => format!("{position} · fetching older ones…"),
        false if log.records.len() >= MAX_LOADED_RECORDS && !log.following => {
            format!("{position} · for older ones, t goes to a time")
        }
        false => position,
    };
    let skipped = match log.skipped {
        0 => String::new(),
        skipped => format!(" · {} skipped", count(Some(skipped))),
    };
    let title = panes::with_trail(model, "Requests");
    // The column with the times has those of the start.
    let order = if log.table.sort.is_none() { " by end" } else { "" };
    format!("{title}{order}{filter} · {position}{skipped}")
}

/// Draws the log, newest first. Returns notes on the columns that are not visible.
pub(super) fn log_table(
    model: &Model,
    selected: Option<usize>,
    buffer: &mut Buffer,
    area: Rect,
) -> Vec<String> {
    let log = &model.data.log;
    if log.records.is_empty() {
        let is_filtered = !model.data.usage.filter.is_empty() && model.screen == Screen::Usage;
        let text = if is_filtered {
            "no request passes the filter: Esc clears it, / changes it"
        } else {
            "no requests yet: try a model (3, then t), or make a key (2)"
        };
        empty(model.theme, &log.fetch, text, buffer, area);
        return Vec::new();
    }
    let operator = model.sees_all();
    let columns = columns(model);
    let cells = |record: &'_ Record| {
        let mut cells = cells(model, record);
        if !operator {
            cells.remove(1);
        }
        cells
    };
    let (theme, count, state) = (model.theme, log.records.len(), &log.table);
    let table = Table { theme, columns: &columns, count, selected, state };
    let hidden = table.render(log.records.iter(), cells, buffer, area);
    hidden_columns(hidden, columns.len())
}

/// Returns the columns of the log. Members see only their own account, so that column would be
/// constant. Beside the detail of a request, which has its tokens and times, the errors and accounts of
/// the others are kept instead of those.
fn columns(model: &Model) -> Vec<Column> {
    let operator = model.sees_all();
    let shown = COLUMNS.iter().filter(|it| operator || it.title != "account").copied();
    let is_beside_detail = model.is_detail_open && model.screen == Screen::Usage;
    let reordered = |column: Column| match column.title {
        "account" | "error" if is_beside_detail => Column { drop_priority: 1, ..column },
        "in" | "out" | "ttft" | "took" if is_beside_detail => Column { drop_priority: 6, ..column },
        _ => column,
    };
    shown.map(reordered).collect()
}

fn cells(model: &Model, record: &Record) -> Vec<Span<'static>> {
    let status = record.status.map_or(UNKNOWN, |status| status.name());
    vec![
        plain(log_time(record.started_at, model.now, &model.zone)),
        plain(record.account.clone()),
        plain(record.model.clone().unwrap_or_else(|| UNKNOWN.to_owned())),
        plain(record.endpoint.clone()),
        Span::styled(status, model.theme.status(record.status)),
        Span::styled(error_and_count(record), model.theme.bad()),
        plain(short_count(record.tokens.input)),
        plain(short_count(record.tokens.output)),
        plain(duration(record.ttft_ms)),
        plain(duration(record.duration_ms)),
        plain(dollars(record.cost_usd.as_deref())),
    ]
}

/// Formats the error code, with the number of requests if the record represents several.
fn error_and_count(record: &Record) -> String {
    let code = record.error_code.as_deref().unwrap_or_default();
    match record.count {
        0 | 1 => code.to_owned(),
        several => format!("×{} {code}", short_count(Some(several.into()))),
    }
}

/// Returns the id of the key, after its label if that is known.
fn key_text(model: &Model, record: &Record) -> String {
    let keys = &model.data.keys.entries;
    match keys.iter().find(|key| key.id == record.key) {
        Some(key) if !key.label.is_empty() => format!("{} ({})", key.label, key.id),
        _ => record.key.clone(),
    }
}

fn ended(model: &Model, record: &Record) -> Span<'static> {
    plain(full_time(record.ended_at(), &model.zone))
}

/// Returns everything about a request.
pub(super) fn detail<'a>(model: &'a Model, record: &'a Record) -> Detail<'a> {
    let theme = model.theme;
    let mut detail = Detail::default();
    let status = record.status.map_or(UNKNOWN, |status| status.name());
    let status = match record.http_status {
        Some(http) => format!("{status} ({http})"),
        None => status.to_owned(),
    };
    let mut took = duration(record.duration_ms);
    if record.ttft_ms.is_some() {
        took = format!("{took}, first piece after {}", duration(record.ttft_ms));
    }
    let stream = if record.stream { ", as a stream" } else { "" };
    detail
        .row("status", Span::styled(status, theme.status(record.status)))
        .optional_row(
            "requests",
            (record.count > 1).then(|| plain(count(Some(record.count.into())))),
        )
        .optional_row(
            "error",
            record.error_code.as_deref().map(|it| Span::styled(it, theme.bad())),
        );
    if let Some(meaning) = record.error_code.as_deref().and_then(meaning) {
        detail.text(plain(meaning));
    }
    detail
        .row("started", plain(full_time(record.started_at, &model.zone)))
        .optional_row("ended", record.duration_ms.map(|_| ended(model, record)))
        .row("took", plain(took))
        .row("endpoint", plain(format!("{}{stream}", record.endpoint)))
        .row("model", plain(record.model.as_deref().unwrap_or(UNKNOWN)))
        .optional_row("served by", record.deployment.as_deref().map(plain))
        .row("account", plain(record.account.as_str()))
        .row("key", plain(key_text(model, record)))
        .row("request", plain(record.id.as_str()));
    let tokens = &record.tokens;
    detail
        .heading("Tokens")
        .row("input", plain(count(tokens.input)))
        .row("  cached", plain(count(tokens.cached)))
        .row("output", plain(count(tokens.output)))
        .row("  reasoning", plain(count(tokens.reasoning)))
        .row("counted by", plain(record.basis.map_or(UNKNOWN, |basis| basis.name())))
        .row("cost", Span::styled(dollars(record.cost_usd.as_deref()), theme.strong()))
        .optional_row("price version", record.price_version.map(|it| plain(it.to_string())));
    if !record.notes.is_empty() {
        detail.heading("Dropped or adapted in translation");
        for note in &record.notes {
            detail.text(plain(format!("· {note}")));
        }
    }
    detail
}
