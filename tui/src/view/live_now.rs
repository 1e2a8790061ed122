//! The lower part of the live screen: who uses what at the moment, and the upstreams.

use jiff::{SignedDuration, Timestamp};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use std::collections::BTreeMap;

use crate::model::Model;
use crate::model::log::RequestLog;
use crate::model::record::Record;

use super::upstreams::health_status;
use super::widget::bars::{Bar, bars};
use super::widget::frame::frame;
use super::widget::status::empty;
use super::widget::text::{UNKNOWN, duration, fit, short_count};

/// The age of the requests that count.
const WINDOW: SignedDuration = SignedDuration::from_mins(5);
/// The least width of a panel whose title has room for whole words.
const MIN_WIDTH_OF_TITLE: u16 = 30;
/// The least width of the upstreams at which there is room for the number of their requests in flight.
const MIN_WIDTH_OF_IN_FLIGHT: u16 = 34;

/// Draws the accounts and models with the most tokens of the last minutes, and the upstreams.
pub(super) fn render(model: &Model, buffer: &mut Buffer, area: Rect) {
    let [left, middle, right] = Layout::horizontal([Constraint::Fill(1); 3]).areas(area);
    top(model, "Accounts", |record| &record.account, buffer, left);
    top(model, "Models", |record| record.model.as_deref().unwrap_or(UNKNOWN), buffer, middle);
    upstreams(model, buffer, right);
}

/// Draws the tokens per name of the requests that ended in the last minutes.
fn top(model: &Model, name: &str, pick: fn(&Record) -> &str, buffer: &mut Buffer, area: Rect) {
    let (records, span) = recent(&model.data.log, model.now);
    let span = match span.as_secs() {
        seconds if span < WINDOW => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    };
    let title = if area.width < MIN_WIDTH_OF_TITLE {
        format!("{name} · tok/{span}")
    } else {
        format!("{name} · tokens in {span}")
    };
    let inside = frame(model.theme, &title, buffer, area);
    let values = tokens_by(records.into_iter(), pick);
    if values.is_empty() {
        return empty(model.theme, &model.data.log.fetch, "none", buffer, inside);
    }
    bars(model.theme, &values, buffer, inside);
}

/// Returns the records of requests that ended in the last [`WINDOW`], and the part of it that they
/// cover: a busy gateway has more of them than the log keeps.
fn recent(log: &RequestLog, now: Option<Timestamp>) -> (Vec<&Record>, SignedDuration) {
    let (mut records, is_complete) = log.newest();
    let Some(now) = now else { return (records, WINDOW) };
    let age = |record: &Record| record.ended_at().map(|end| now.duration_since(end));
    let oldest = records.iter().filter_map(|record| age(record)).max();
    let covered = if is_complete { WINDOW } else { oldest.map_or(WINDOW, |age| age.min(WINDOW)) };
    records.retain(|record| age(record).is_some_and(|age| age <= WINDOW));
    (records, covered.max(SignedDuration::from_secs(1)))
}

/// Sums the tokens by name, greatest first.
fn tokens_by<'a>(records: impl Iterator<Item = &'a Record>, pick: fn(&Record) -> &str) -> Vec<Bar> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for record in records {
        let sum = sums.entry(pick(record)).or_default();
        *sum = sum.saturating_add(record.tokens.total().unwrap_or(0));
    }
    let bar = |(label, value): (&str, u64)| Bar {
        label: label.to_owned(),
        value: Some(value),
        number: short_count(Some(value)),
    };
    let mut values: Vec<_> = sums.into_iter().map(bar).collect();
    values.sort_by_key(|bar| std::cmp::Reverse(bar.value));
    values
}

/// Draws each upstream with its health, its requests in flight and its median latency.
fn upstreams(model: &Model, buffer: &mut Buffer, area: Rect) {
    let list = &model.data.upstreams;
    let inside = frame(model.theme, "Upstreams", buffer, area);
    if list.entries.is_empty() {
        return empty(model.theme, &list.fetch, "none", buffer, inside);
    }
    for (upstream, row) in list.entries.iter().zip(inside.rows()) {
        let health = upstream.health.as_ref();
        let in_flight = short_count(health.map(|it| it.in_flight));
        let in_flight = format!(" {in_flight:>4} now");
        let latency = health.and_then(|it| it.latency).map(|it| it.p50_ms);
        let state = Line::from_iter([
            health_status(model, upstream.health_status()),
            Span::raw(if row.width < MIN_WIDTH_OF_IN_FLIGHT { "" } else { &in_flight }),
            Span::raw(format!(" {:>6}", duration(latency))),
        ]);
        let room = usize::from(row.width).saturating_sub(state.width() + 1);
        Line::raw(fit(&upstream.name, room)).render(row, buffer);
        state.right_aligned().render(row, buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::log::MAX_LOG_RECORDS;
    use crate::model::record::LogBatch;

    /// 2026-11-18 13:53:20 UTC.
    const NOW: i64 = 1_795_010_000;

    /// Returns the number of recent records and the covered seconds.
    fn covered(log: &RequestLog) -> (usize, i64) {
        let (records, span) = recent(log, Timestamp::from_second(NOW).ok());
        (records.len(), span.as_secs())
    }

    /// Adds records of requests that took a second and ended `ages` seconds ago.
    fn add(log: &mut RequestLog, ages: impl Iterator<Item = i64>) {
        let record = |age: i64| Record {
            started_at: Timestamp::from_second(NOW - age - 1).ok(),
            duration_ms: Some(1_000.0),
            ..Record::default()
        };
        let records = ages.map(record).collect();
        log.append(LogBatch { restarted: false, records, dropped: 0, live: true });
    }

    #[test]
    fn a_log_with_all_requests_covers_the_window() {
        let mut log = RequestLog::default();
        add(&mut log, [301, 300, 10].into_iter());
        assert_eq!(covered(&log), (2, 300));
    }

    #[test]
    fn a_full_log_covers_the_time_since_its_oldest_record() {
        let mut log = RequestLog::default();
        add(
            &mut log,
            (0..2 * MAX_LOG_RECORDS).map(|index| 99 - i64::try_from(index / 20).unwrap()),
        );
        assert_eq!(covered(&log), (MAX_LOG_RECORDS, 49));
    }

    #[test]
    fn records_that_arrive_while_the_log_is_paused_count() {
        let mut log = RequestLog::default();
        add(&mut log, [200].into_iter());
        log.set_paused(true);
        add(&mut log, [100].into_iter());
        assert_eq!(covered(&log), (2, 300));
        // The first of these are dropped, and with them the connection to those before.
        add(&mut log, std::iter::repeat_n(40, MAX_LOG_RECORDS));
        assert_eq!(covered(&log), (MAX_LOG_RECORDS, 40));
    }
}
