//! The totals of a time range, and charts of its tokens by time, model and key.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use crate::model::Model;
use crate::model::chart::Measure;
use crate::model::record::Totals;
use crate::model::usage::Range;

use super::super::widget::bars::{Bar, bars};
use super::super::widget::chart::chart;
use super::super::widget::frame::{frame, rows};
use super::super::widget::status::{empty, stale};
use super::super::widget::text::{UNKNOWN, clock_time, count, dollars, short_count};

/// Draws the totals and the charts.
pub(super) fn render(model: &Model, buffer: &mut Buffer, area: Rect) {
    let theme = model.theme;
    let sums = &model.data.usage.sums;
    let by_key = if area.width >= 140 { 5 } else { 0 };
    let [first, second, third, fourth] = Layout::horizontal([
        Constraint::Fill(4),
        Constraint::Fill(5),
        Constraint::Fill(5),
        Constraint::Fill(by_key),
    ])
    .areas(area);
    let inside = frame(theme, &ranges(model), buffer, first);
    totals(model, sums.value.as_ref().map(|it| &it.totals), buffer, inside);
    over_time(model, buffer, second);
    let mut shares = |title: &str, values: Option<&Vec<(String, Totals)>>, panel| {
        let inside = frame(theme, title, buffer, panel);
        match values {
            Some(values) if !values.is_empty() => token_shares(model, values, buffer, inside),
            _ => empty(theme, &sums.fetch, "nothing used", buffer, inside),
        }
    };
    let name = if is_without_tokens(model) { "Requests" } else { "Tokens" };
    shares(&format!("{name} by model"), sums.value.as_ref().map(|it| &it.by_model), third);
    if by_key > 0 {
        shares(&format!("{name} by key"), sums.value.as_ref().map(|it| &it.by_key), fourth);
    }
}

/// Returns whether none of the requests has used a token, as if all were refused. Then the charts show
/// the requests.
fn is_without_tokens(model: &Model) -> bool {
    let totals = model.data.usage.sums.value.as_ref().map(|it| &it.totals);
    totals.is_some_and(|it| it.requests > 0 && it.tokens.total().unwrap_or(0) == 0)
}

/// Returns what the charts show of these requests: their tokens, or their number.
fn shown(model: &Model, totals: &Totals) -> Option<u64> {
    if is_without_tokens(model) { Some(totals.requests) } else { totals.tokens.total() }
}

/// Formats the ranges with the selected one in brackets.
fn ranges(model: &Model) -> String {
    let chosen = model.data.usage.range;
    let name = |range: Range| match range {
        range if range == chosen => format!("[{}]", range.name()),
        range => range.name().to_owned(),
    };
    let names: Vec<_> = Range::ALL.into_iter().map(name).collect();
    format!("{}{}", names.join(" "), stale(&model.data.usage.sums.fetch))
}

fn totals(model: &Model, totals: Option<&Totals>, buffer: &mut Buffer, area: Rect) {
    let theme = model.theme;
    let number = |pick: fn(&Totals) -> Option<u64>| count(totals.and_then(pick));
    let errors = match totals {
        Some(totals) if totals.errors > 0 => theme.warning(),
        _ => theme.good(),
    };
    let before = model.data.usage.before.value.as_ref().map(|it| &it.totals);
    let mut requests = number(|it| Some(it.requests));
    // How the value differs from that of the period before, if there is room.
    if let (Some(now), Some(then)) = (totals, before) {
        let change = change_text(Measure::Requests.of(now), Measure::Requests.of(then));
        let change = change.unwrap_or_else(|| "none before".to_owned());
        let needed = "requests".len() + 1 + change.chars().count() + 2 + requests.chars().count();
        if area.width >= 24 && usize::from(area.width) >= needed {
            requests = format!("{change}  {requests}");
        }
    }
    let cost = dollars(totals.and_then(|it| it.cost_usd.as_deref()));
    let lines = [
        ("requests", Span::raw(requests)),
        ("errors", Span::styled(number(|it| Some(it.errors)), errors)),
        ("input", Span::raw(number(|it| it.tokens.input))),
        ("  cached", Span::raw(number(|it| it.tokens.cached))),
        ("output", Span::raw(number(|it| it.tokens.output))),
        ("  reasoning", Span::raw(number(|it| it.tokens.reasoning))),
        ("cost", Span::styled(cost, theme.strong())),
    ];
    rows(theme, lines, buffer, area);
}

/// Draws tokens, or else requests, per minute, hour or day, depending on the range.
fn over_time(model: &Model, buffer: &mut Buffer, area: Rect) {
    let theme = model.theme;
    let usage = &model.data.usage;
    let period = match usage.range {
        Range::Hour => "min",
        Range::Day => "h",
        Range::Week | Range::Month => "day, UTC",
    };
    let (what, style) = if is_without_tokens(model) {
        ("Requests", theme.second_bar())
    } else {
        ("Tokens", theme.bar())
    };
    let name = format!("{what}/{period}");
    let (values, fetch) = (series(model), &usage.sums.fetch);
    let max = values.iter().map(|(_, value)| *value).max().unwrap_or(0);
    let title = match max {
        0 => name,
        max => format!("{name} · max {}", short_count(Some(max))),
    };
    let inside = frame(theme, &title, buffer, area);
    if max == 0 {
        return empty(theme, fetch, "nothing used", buffer, inside);
    }
    let [above, below] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(inside);
    let numbers: Vec<_> = values.iter().map(|(_, value)| *value).collect();
    let plot = chart(theme, &numbers, style, None, buffer, above);
    let below = Rect { x: plot.x, width: plot.width, ..below };
    let label = |it: Option<&(String, u64)>| it.map_or_else(String::new, |(at, _)| at.clone());
    if values.len() > 1 {
        Line::styled(label(values.first()), theme.faint()).render(below, buffer);
    }
    Line::styled(label(values.last()), theme.faint()).right_aligned().render(below, buffer);
}

/// Returns the periods of the range, as time of day or date, with what the chart shows of them.
fn series(model: &Model) -> Vec<(String, u64)> {
    let usage = &model.data.usage;
    let first = usage.sums.value.iter().find_map(|sums| Some(sums.series.first()?.start));
    let label = |start: Timestamp| match usage.range {
        // The first and the last period of a day have the same time of day, so the first one shows its date.
        Range::Day if Some(start) == first => {
            start.to_zoned(model.zone.clone()).strftime("%m-%d %H:%M").to_string()
        }
        Range::Hour | Range::Day => clock_time(Some(start), &model.zone),
        Range::Week | Range::Month => start.to_zoned(TimeZone::UTC).strftime("%m-%d").to_string(),
    };
    let series = usage.sums.value.iter().flat_map(|sums| &sums.series);
    series.map(|it| (label(it.start), shown(model, &it.totals).unwrap_or(0))).collect()
}

/// Describes how much a value differs from an earlier one: `▲ 12%`, `▼ 3%` or `± 0%`. Returns
/// `None` if only the earlier one is zero.
pub(in super::super) fn change_text(value: u64, before: u64) -> Option<String> {
    if before == 0 {
        return (value == 0).then(|| "± 0%".to_owned());
    }
    let percent = value.abs_diff(before).saturating_mul(100) / before;
    Some(match value.cmp(&before) {
        _ if percent == 0 => "± 0%".to_owned(),
        std::cmp::Ordering::Less => format!("▼ {percent}%"),
        _ if percent > 999 => format!("▲ ×{}", value / before),
        _ => format!("▲ {percent}%"),
    })
}

/// Draws the tokens, or else the requests, per label as bars.
fn token_shares(model: &Model, sums: &[(String, Totals)], buffer: &mut Buffer, area: Rect) {
    let mut values: Vec<_> = sums
        .iter()
        .map(|(label, totals)| {
            let value = shown(model, totals);
            // The model of an unparsable request is unknown.
            let label = if label.is_empty() { UNKNOWN } else { label };
            Bar { label: label.to_owned(), value, number: short_count(value) }
        })
        .collect();
    values.sort_by_key(|bar| std::cmp::Reverse(bar.value));
    let room = usize::from(area.height);
    if values.len() > room
        && let Some(last) = area.rows().next_back()
    {
        let more = values.len() - (room - 1);
        values.truncate(room - 1);
        Line::styled(format!("and {more} more"), model.theme.faint()).render(last, buffer);
    }
    bars(model.theme, &values, buffer, area);
}
