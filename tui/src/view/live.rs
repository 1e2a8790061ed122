//! The live screen: rates, latencies and errors of the whole gateway.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use crate::model::Model;
use crate::model::fetched::FetchState;
use crate::model::traffic::Minute;

use super::widget::bars::{Bar, bars};
use super::widget::chart::chart;
use super::widget::frame::frame;
use super::widget::status::{empty, stale};
use super::widget::text::{UNKNOWN, ago, count, duration, rate, short_count};

/// Draws the traffic of the gateway.
pub(super) fn render(model: &Model, buffer: &mut Buffer, area: Rect) {
    let theme = model.theme;
    let [top, middle, bottom] =
        Layout::vertical([Constraint::Length(3), Constraint::Fill(3), Constraint::Fill(2)])
            .areas(area);
    let tiles: [Rect; 6] = Layout::horizontal([Constraint::Fill(1); 6]).areas(top);
    let traffic = model.data.traffic.value.as_ref();
    let ttft = traffic.and_then(|it| it.ttft);
    let figures = [
        ("req/s", traffic.map(|it| rate(it.requests_per_second))),
        ("tok/s", traffic.map(|it| rate(it.tokens_per_second))),
        ("in flight", traffic.map(|it| count(Some(it.in_flight)))),
        ("ttft p50", ttft.map(|it| duration(Some(it.p50_ms)))),
        ("ttft p90", ttft.map(|it| duration(Some(it.p90_ms)))),
        ("ttft p99", ttft.map(|it| duration(Some(it.p99_ms)))),
    ];
    for ((title, figure), tile) in figures.into_iter().zip(tiles) {
        let inside = frame(theme, title, buffer, tile);
        let figure = figure.unwrap_or_else(|| UNKNOWN.to_owned());
        Line::styled(figure, theme.strong()).centered().render(inside, buffer);
    }
    let [left, right] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(middle);
    minutes(model, "Requests/min", theme.bar(), |it| it.requests, buffer, left);
    minutes(model, "Tokens/min", theme.second_bar(), |it| it.tokens, buffer, right);
    let [left, right] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(bottom);
    minutes(model, "Errors/min", theme.bad(), |it| it.errors, buffer, left);
    errors(model, buffer, right);
}

/// Draws a chart of one value per minute over the last 60 minutes.
pub(super) fn minutes(
    model: &Model,
    name: &str,
    style: Style,
    pick: fn(&Minute) -> u64,
    buffer: &mut Buffer,
    area: Rect,
) {
    let traffic = &model.data.traffic;
    let values: Vec<_> = traffic.value.iter().flat_map(|it| &it.minutes).map(pick).collect();
    let max = values.iter().max().copied().unwrap_or(0);
    // The current minute may be incomplete, so "now" is the larger of the last two.
    let title = match values.iter().rev().take(2).max() {
        Some(now) if max > 0 => {
            let (now, max) = (short_count(Some(*now)), short_count(Some(max)));
            format!("{name} · {now} now · max {max}")
        }
        _ => name.to_owned(),
    };
    let inside = frame(model.theme, &format!("{title}{}", stale(&traffic.fetch)), buffer, area);
    if max == 0 {
        empty(model.theme, &traffic.fetch, "none in the last hour", buffer, inside);
    }
    chart(&values, style, buffer, inside);
}

/// Draws the errors of the last hour by code.
pub(super) fn errors(model: &Model, buffer: &mut Buffer, area: Rect) {
    let traffic = &model.data.traffic;
    let inside = frame(model.theme, "Errors in the last hour", buffer, area);
    let errors = traffic.value.as_ref().map_or(&[][..], |it| &it.errors);
    if errors.is_empty() {
        let fetch = if traffic.value.is_some() { &FetchState::Ready } else { &traffic.fetch };
        empty(model.theme, fetch, "none", buffer, inside);
        return;
    }
    let [left, right] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(9)]).areas(inside);
    let values: Vec<_> = errors
        .iter()
        .map(|error| Bar {
            label: error.code.clone(),
            value: Some(error.count),
            number: short_count(Some(error.count)),
        })
        .collect();
    bars(model.theme, &values, buffer, left);
    for (error, row) in errors.iter().zip(right.rows()) {
        let text = Span::styled(ago(error.last_at, model.now), model.theme.faint());
        Line::from(text).right_aligned().render(row, buffer);
    }
}
