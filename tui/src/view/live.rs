//! The live screen: rates, latencies and errors of the whole gateway.

use jiff::{SignedDuration, Timestamp};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use crate::model::Model;
use crate::model::fetched::FetchState;
use crate::model::money::{parse_nanos, short_dollars};
use crate::model::traffic::{ErrorCount, LedgerState, Minute, Percentiles};
use crate::model::usage::Period;

use super::widget::bars::{Bar, bars};
use super::widget::chart::chart;
use super::widget::frame::{frame, note};
use super::widget::status::{empty, stale};
use super::widget::text::{
    UNKNOWN, ago, approximate_count, clock_time, count, duration, rate, short_count,
};
use super::{in_flight, live_now};

/// The name of the chart of requests, which shows the errors, too.
pub(super) const REQUESTS: &str = "Requests/min";
/// The least width at which a figure has room for its name.
const MIN_WIDTH_OF_TILE: u16 = 13;
/// How long records wait for the database while all is well: they are written each second.
const MAX_RECORD_DELAY: SignedDuration = SignedDuration::from_secs(10);
/// The least height of a chart with times below it.
const MIN_HEIGHT_OF_AXIS: u16 = 5;
/// The least height at which there is room for who uses what.
const MIN_HEIGHT_OF_NOW: u16 = 20;
/// The number of figures, if all of them are visible.
const NUMBER_OF_FIGURES: usize = 10;

/// Draws the traffic of the gateway.
pub(super) fn render(model: &Model, buffer: &mut Buffer, area: Rect) {
    let theme = model.theme;
    let now = if area.height >= MIN_HEIGHT_OF_NOW { 2 } else { 0 };
    let [top, middle, bottom, lowest] = Layout::vertical([
        Constraint::Length(3),
        Constraint::Fill(3),
        Constraint::Fill(2),
        Constraint::Fill(now),
    ])
    .areas(area);
    if now > 0 {
        live_now::render(model, buffer, lowest);
    }
    let hidden = tiles(model, buffer, top);
    let [left, right] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(middle);
    minutes(model, REQUESTS, theme.bar(), |it| it.requests, buffer, left);
    minutes(model, "Tokens/min", theme.second_bar(), |it| it.tokens, buffer, right);
    let [left, right] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(bottom);
    in_flight::panel(model, buffer, left);
    errors(model, buffer, right);
    more(model, &hidden, now > 0, buffer, area);
}

/// Draws the figures of the moment, as many as there is room for, the most important first. Returns
/// the names of the others.
fn tiles(model: &Model, buffer: &mut Buffer, area: Rect) -> Vec<&'static str> {
    let theme = model.theme;
    let traffic = model.data.traffic.value.as_ref();
    let ttft = |pick: fn(&Percentiles) -> f64| {
        traffic.and_then(|it| it.ttft.as_ref()).map(|it| duration(Some(pick(it))))
    };
    let ledger = traffic.and_then(|it| it.ledger.as_ref());
    let money = |pick: fn(&LedgerState) -> &str| {
        let nanos = parse_nanos(pick(ledger?))?;
        Some(u64::try_from(nanos).map_or("debts".to_owned(), short_dollars))
    };
    let figures: [_; NUMBER_OF_FIGURES] = [
        ("req/s", traffic.map(|it| rate(it.requests_per_second))),
        ("tok/s", traffic.map(|it| rate(it.tokens_per_second))),
        ("in flight", traffic.map(|it| count(Some(it.in_flight)))),
        ("ttft p50", ttft(|it| it.p50_ms)),
        ("ttft p99", ttft(|it| it.p99_ms)),
        ("ledger", ledger.map(|it| ledger_text(it, model.now))),
        ("balances", money(|it| &it.balance_usd)),
        ("held", money(|it| &it.held_usd)),
        ("waiting", ledger.map(|it| count(Some(it.waiting_records)))),
        ("ttft p90", ttft(|it| it.p90_ms)),
    ];
    let room = usize::from(area.width / MIN_WIDTH_OF_TILE).clamp(1, figures.len());
    let hidden = figures.iter().skip(room).map(|(title, _)| *title).collect();
    let areas = Layout::horizontal(vec![Constraint::Fill(1); room]).split(area);
    for ((title, figure), tile) in figures.into_iter().zip(areas.iter()) {
        let inside = frame(theme, title, buffer, *tile);
        let is_late = title == "ledger" && ledger.is_some_and(|it| is_late(it, model.now));
        let style = if is_late { theme.bad() } else { theme.strong() };
        let figure = figure.unwrap_or_else(|| UNKNOWN.to_owned());
        Line::styled(figure, style).centered().render(inside, buffer);
    }
    hidden
}

/// Says in the last row of `area` which figures and panels a larger terminal shows.
fn more(model: &Model, figures: &[&str], has_panels: bool, buffer: &mut Buffer, area: Rect) {
    let columns = usize::from(MIN_WIDTH_OF_TILE) * NUMBER_OF_FIGURES;
    let rows = MIN_HEIGHT_OF_NOW + model.size.1.saturating_sub(area.height);
    let figures =
        (!figures.is_empty()).then(|| format!("{} from {columns} columns on", figures.join(", ")));
    let panels = (!has_panels).then(|| format!("accounts, models, upstreams from {rows} rows on"));
    let both: Vec<_> = figures.into_iter().chain(panels).collect();
    let short = format!("more in {columns}×{rows}");
    let last = Rect { y: area.bottom().saturating_sub(1), height: 1, ..area }.intersection(area);
    if !both.is_empty() {
        note(model.theme, "", &[both.join(" · "), short], buffer, last);
    }
}

/// Returns whether requests are recorded, or for how long the database has been behind.
fn ledger_text(ledger: &LedgerState, now: Option<Timestamp>) -> String {
    if ledger.is_stopped {
        "stopped".to_owned()
    } else if is_late(ledger, now) {
        ago(ledger.oldest_waiting, now)
    } else {
        "ok".to_owned()
    }
}

/// Whether requests cannot be recorded, or the database lacks a record for longer than a batch may take.
fn is_late(ledger: &LedgerState, now: Option<Timestamp>) -> bool {
    let age = ledger.oldest_waiting.zip(now).map(|(ended, now)| now.duration_since(ended));
    ledger.is_stopped || age.is_some_and(|age| age > MAX_RECORD_DELAY)
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
    let values: Vec<_> = last_hour(model).iter().map(pick).collect();
    let max = values.iter().max().copied().unwrap_or(0);
    // The current minute may be incomplete, so "now" is the larger of the last two.
    let title = match values.iter().rev().take(2).max() {
        Some(now) if max > 0 => {
            let title = |text: fn(u64) -> String| {
                format!("{name} · {} now · max {}", text(*now), text(max))
            };
            // The frame and the spaces around the title.
            let room = usize::from(area.width).saturating_sub(4);
            let exact = title(|number| short_count(Some(number)));
            if exact.chars().count() <= room { exact } else { title(approximate_count) }
        }
        _ => name.to_owned(),
    };
    let inside = frame(model.theme, &format!("{title}{}", stale(&traffic.fetch)), buffer, area);
    if max == 0 {
        return empty(model.theme, &traffic.fetch, "none in the last hour", buffer, inside);
    }
    let errors: Vec<_> = last_hour(model).iter().map(|it| it.errors).collect();
    // The errors are at the foot of the requests.
    let part = (name == REQUESTS).then_some((errors.as_slice(), model.theme.bad()));
    let times = u16::from(inside.height >= MIN_HEIGHT_OF_AXIS);
    let [above, below] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(times)]).areas(inside);
    let plot = chart(model.theme, &values, style, part, buffer, above);
    let below = Rect { x: plot.x, width: plot.width, ..below };
    let minutes = i64::try_from(values.len()).unwrap_or(i64::MAX);
    let first = model.now.and_then(|now| now.checked_sub(SignedDuration::from_mins(minutes)).ok());
    let label = |time| Line::from(Span::styled(clock_time(time, &model.zone), model.theme.faint()));
    label(first).render(below, buffer);
    label(model.now).right_aligned().render(below, buffer);
}

/// Returns the last 60 minutes. The running gateway knows only those since its start: those before
/// its first request come from the store.
fn last_hour(model: &Model) -> Vec<Minute> {
    let Some(traffic) = &model.data.traffic.value else { return Vec::new() };
    let mut minutes = traffic.minutes.clone();
    let Some(now) = model.now else { return minutes };
    let is_used = |minute: &Minute| minute.requests > 0;
    let served = minutes.iter().position(is_used).unwrap_or(minutes.len());
    let count = minutes.len();
    for (index, minute) in minutes.iter_mut().take(served).enumerate() {
        let age = i64::try_from(count - 1 - index).unwrap_or(i64::MAX);
        let number = now.as_second().div_euclid(60) - age;
        let stored = model.data.overview.minutes.iter();
        let stored = stored.clone().find(|it| it.start.as_second().div_euclid(60) == number);
        if let Some(Period { totals, .. }) = stored {
            let (requests, errors) = (totals.requests, totals.errors);
            *minute = Minute { requests, errors, tokens: totals.tokens.total().unwrap_or(0) };
        }
    }
    minutes
}

/// Returns the errors of the last hour, most frequent first: of each code the greater number of
/// those that the running gateway counted and those in the store.
fn errors_of_last_hour(model: &Model) -> Vec<ErrorCount> {
    let mut errors = model.data.overview.errors.clone();
    for counted in model.data.traffic.value.iter().flat_map(|it| &it.errors) {
        match errors.iter_mut().find(|it| it.code == counted.code) {
            Some(stored) => {
                stored.count = stored.count.max(counted.count);
                stored.last_at = stored.last_at.max(counted.last_at);
            }
            None => errors.push(counted.clone()),
        }
    }
    errors.sort_by_key(|it| std::cmp::Reverse(it.count));
    errors
}

/// Draws the errors of the last hour by code.
pub(super) fn errors(model: &Model, buffer: &mut Buffer, area: Rect) {
    let traffic = &model.data.traffic;
    let inside = frame(model.theme, "Errors in the last hour", buffer, area);
    let errors = errors_of_last_hour(model);
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

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::model::record::Totals;
    use crate::model::traffic::Traffic;
    use crate::theme::{Palette, Theme};

    /// 2026-11-18 13:53:20 UTC.
    const NOW: i64 = 1_795_010_000;

    #[test]
    fn the_ledger_is_late_if_a_record_waits_or_nothing_can_be_recorded() {
        let now = Timestamp::from_second(NOW).ok();
        for (is_stopped, seconds, text, late) in [
            (false, None, "ok", false),
            (false, Some(2), "ok", false),
            (false, Some(90), "1m ago", true),
            (true, None, "stopped", true),
        ] {
            let oldest_waiting = seconds.and_then(|age| Timestamp::from_second(NOW - age).ok());
            let ledger = LedgerState { is_stopped, oldest_waiting, ..LedgerState::default() };
            assert_eq!((ledger_text(&ledger, now).as_str(), is_late(&ledger, now)), (text, late));
        }
    }

    fn model(traffic: Traffic) -> Model {
        let theme = Theme::new(Palette::Plain);
        let mut model = Model::new("http://127.0.0.1:1".to_owned(), None, TimeZone::UTC, theme);
        model.now = Timestamp::from_second(NOW).ok();
        model.data.traffic.set(traffic);
        model
    }

    #[test]
    fn minutes_before_the_first_request_of_the_gateway_come_from_the_store() {
        let mut minutes = vec![Minute::default(); 60];
        minutes[50] = Minute { requests: 5, ..Minute::default() };
        let mut model = model(Traffic { minutes, ..Traffic::default() });
        let stored = |age: i64, requests| Period {
            start: Timestamp::from_second((NOW / 60 - age) * 60).unwrap(),
            totals: Totals { requests, ..Totals::default() },
        };
        model.data.overview.minutes = vec![stored(30, 7), stored(9, 8), stored(4, 9)];
        let requests: Vec<_> = last_hour(&model).iter().map(|it| it.requests).collect();
        let used: Vec<_> = requests.iter().enumerate().filter(|(_, it)| **it > 0).collect();
        assert_eq!(used, [(29, &7), (50, &5)], "of the minutes from the 50th on, it knows better");
    }

    #[test]
    fn errors_are_those_that_were_counted_or_stored() {
        let error = |code: &str, count| ErrorCount { code: code.to_owned(), count, last_at: None };
        let errors = vec![error("both", 5), error("counted", 1)];
        let mut model = model(Traffic { errors, ..Traffic::default() });
        model.data.overview.errors = vec![error("both", 3), error("stored", 2)];
        let expected = [error("both", 5), error("stored", 2), error("counted", 1)];
        assert_eq!(errors_of_last_hour(&model), expected);
    }
}
