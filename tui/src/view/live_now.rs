//! The lower part of the live screen: who uses what at the moment, and the upstreams.

use jiff::{SignedDuration, Timestamp};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use std::collections::BTreeMap;

use crate::model::Model;
use crate::model::record::Record;

use super::upstreams::health_status;
use super::widget::bars::{Bar, bars};
use super::widget::frame::frame;
use super::widget::status::empty;
use super::widget::text::{UNKNOWN, duration, fit, short_count};

/// The age of the requests that count.
const WINDOW: SignedDuration = SignedDuration::from_mins(5);

/// Draws the accounts and models with the most tokens of the last minutes, and the upstreams.
pub(super) fn render(model: &Model, buffer: &mut Buffer, area: Rect) {
    let [left, middle, right] = Layout::horizontal([Constraint::Fill(1); 3]).areas(area);
    top(model, "Accounts", |record| &record.account, buffer, left);
    top(model, "Models", |record| record.model.as_deref().unwrap_or(UNKNOWN), buffer, middle);
    upstreams(model, buffer, right);
}

/// Draws the tokens per name of the recorded requests of the last minutes.
fn top(model: &Model, name: &str, pick: fn(&Record) -> &str, buffer: &mut Buffer, area: Rect) {
    let title = format!("{name} · tokens in 5 min");
    let inside = frame(model.theme, &title, buffer, area);
    let since = model.now.and_then(|now| now.checked_sub(WINDOW).ok());
    let values = tokens_by(model.data.log.records.iter(), pick, since);
    if values.is_empty() {
        return empty(model.theme, &model.data.log.fetch, "none", buffer, inside);
    }
    bars(model.theme, &values, buffer, inside);
}

/// Sums the tokens since `since` by name, greatest first.
fn tokens_by<'a>(
    records: impl Iterator<Item = &'a Record>,
    pick: fn(&Record) -> &str,
    since: Option<Timestamp>,
) -> Vec<Bar> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for record in records.filter(|record| record.started_at >= since) {
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
        let latency = health.and_then(|it| it.latency).map(|it| it.p50_ms);
        let state = Line::from_iter([
            health_status(model, upstream.health_status()),
            Span::raw(format!(" {in_flight:>4} now {:>6}", duration(latency))),
        ]);
        let room = usize::from(row.width).saturating_sub(state.width() + 1);
        Line::raw(fit(&upstream.name, room)).render(row, buffer);
        state.right_aligned().render(row, buffer);
    }
}
