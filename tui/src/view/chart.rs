//! The chart above the usage screen: areas or a heat map with axes, the values under the cursor, and
//! the period before.

use jiff::tz::TimeZone;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use crate::model::Model;
use crate::model::chart::{
    ChartView, LATENCY_BOUNDS_MS, LATENCY_ROWS, LatencyColumn, LayerKind, Measure, latency, layers,
};
use crate::model::fetched::FetchState;
use crate::model::money::short_dollars;
use crate::model::usage::{Period, Range, Usage};
use crate::theme::Theme;

use super::usage::change_text;
use super::widget::area::{Areas, covered};
use super::widget::frame::popup;
use super::widget::scale::Scale;
use super::widget::status::empty;
use super::widget::text::{
    UNKNOWN, approximate_count, count, duration, fit, log_time, several, short_count,
};

/// The width of the labels at the left.
const AXIS_WIDTH: u16 = 10;
/// The width of the legend.
const LEGEND_WIDTH: u16 = 30;
/// The signs for a growing number of requests in a cell of the heat map.
const HEAT: [&str; 5] = [" ", "░", "▒", "▓", "█"];

/// What is shown if there is nothing to draw.
const NOTHING: &str = "nothing in this range: ] shows a longer one, Tab another measure";

/// Draws the chart over `area`.
pub(super) fn render(model: &Model, view: ChartView, buffer: &mut Buffer, area: Rect) {
    let theme = model.theme;
    let screen = &model.data.usage;
    let inside = popup(theme, &title(model, view), buffer, area);
    let usage = match &screen.sums.value {
        Some(usage) if !usage.series.is_empty() => usage,
        _ => return empty(theme, &screen.sums.fetch, "nothing used", buffer, inside),
    };
    if is_empty(model, view.measure, usage) {
        let is_of_log = view.measure == Measure::Latency;
        let fetch = if is_of_log { &model.data.log.fetch } else { &FetchState::Ready };
        return empty(theme, fetch, NOTHING, buffer, inside);
    }
    let [above, below, reading] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(1), Constraint::Length(1)])
            .areas(inside);
    let legend = if inside.width >= 90 { LEGEND_WIDTH } else { LEGEND_WIDTH - 6 };
    let [axis, plot, legend] = Layout::horizontal([
        Constraint::Length(AXIS_WIDTH),
        Constraint::Fill(1),
        Constraint::Length(legend),
    ])
    .areas(above);
    let cursor = usage.series.len().saturating_sub(1).saturating_sub(view.back);
    if view.measure == Measure::Latency {
        heat_map(model, usage, cursor, [axis, plot, legend], buffer);
    } else {
        areas(model, view.measure, usage, cursor, [axis, plot, legend], buffer);
    }
    let times = Rect { x: plot.x, width: plot.width, ..below };
    time_axis(model, &usage.series, cursor, buffer, times);
    if let Some(period) = usage.series.get(cursor) {
        let text = fit(&reading_text(model, period, cursor), reading.width.into());
        Line::styled(text, theme.strong()).render(reading, buffer);
    }
}

/// Returns whether there is nothing to draw: in the range and in the one before, or of durations in the log.
fn is_empty(model: &Model, measure: Measure, usage: &Usage) -> bool {
    if measure == Measure::Latency {
        return model.data.log.newest().0.is_empty();
    }
    let before = model.data.usage.before.value.iter().flat_map(|it| measure.values(&it.series));
    measure.values(&usage.series).into_iter().chain(before).all(|value| value == 0)
}

/// Returns the measure, the range, the sum and the change since the period before.
fn title(model: &Model, view: ChartView) -> String {
    let screen = &model.data.usage;
    let range = screen.range.name();
    let title = format!("{} · {range}", view.measure.title());
    let title = match screen.filter.as_str() {
        "" => title,
        filter => format!("{title} · /{filter}"),
    };
    if view.measure == Measure::Latency {
        let (records, _) = model.data.log.newest();
        let Some(oldest) = records.iter().filter_map(|record| record.started_at).min() else {
            return title;
        };
        let known = count(u64::try_from(records.len()).ok());
        let since = log_time(Some(oldest), model.now, &model.zone);
        let title = format!("{title} · of the newest {known} requests, since {since}");
        let is_fetching = model.data.log.is_fetching_older();
        return if is_fetching { format!("{title} · fetching older ones…") } else { title };
    }
    let Some(usage) = &screen.sums.value else { return title };
    let sum = view.measure.of(&usage.totals);
    let title = format!("{title} · {}", value(view.measure, sum));
    match &screen.before.value {
        Some(before) => match change_text(sum, view.measure.of(&before.totals)) {
            Some(change) => format!("{title}, {change} on the {range} before (line)"),
            None => format!("{title}, none in the {range} before"),
        },
        None => title,
    }
}

fn value(measure: Measure, value: u64) -> String {
    match measure {
        Measure::Cost => short_dollars(value),
        _ => approximate_count(value),
    }
}

/// Draws stacked areas with their axis and legend.
fn areas(
    model: &Model,
    measure: Measure,
    usage: &Usage,
    cursor: usize,
    [axis, plot, legend]: [Rect; 3],
    buffer: &mut Buffer,
) {
    let theme = model.theme;
    let layers = layers(measure, usage);
    let before = model.data.usage.before.value.as_ref().map(|it| measure.values(&it.series));
    let sums = measure.values(&usage.series);
    let highest = sums.iter().chain(before.iter().flatten()).max().copied().unwrap_or(0);
    let scale = Scale::up_to(highest);
    let mut model_number = 0;
    let mut styled = Vec::new();
    for layer in &layers {
        let (name, style) = match &layer.kind {
            LayerKind::Errors => ("errors", theme.bad()),
            LayerKind::Successes => ("successful", theme.bar()),
            LayerKind::All => ("all", theme.bar()),
            LayerKind::Others => ("other models", theme.faint()),
            LayerKind::Model(id) => {
                model_number += 1;
                let name = if id.is_empty() { UNKNOWN } else { id.as_str() };
                (name, theme.series(model_number - 1))
            }
        };
        styled.push((name, style, layer.values.as_slice()));
    }
    let line = before.as_deref().map(|values| (theme.faint(), values));
    let shown = styled.iter().map(|(_, style, values)| (*style, *values)).collect();
    Areas { layers: shown, line, max: scale.top }.render(buffer, plot);
    mark(model, usage.series.len(), cursor, buffer, plot);
    scale.render(theme, |number| value(measure, number), buffer, axis);

    // The legend is in the order of the areas, the topmost first.
    let mut rows = Vec::new();
    for (name, style, values) in styled.iter().rev() {
        let at_cursor = values.get(cursor).copied().unwrap_or(0);
        rows.push((*name, *style, value(measure, at_cursor)));
    }
    let total = sums.get(cursor).copied().unwrap_or(0);
    rows.push(("all", theme.strong(), value(measure, total)));
    if let Some(before) = &before {
        let then = before.get(cursor).copied().unwrap_or(0);
        rows.push(("the period before", theme.faint(), value(measure, then)));
    }
    legend_rows(&rows, buffer, legend);
}

fn legend_rows(rows: &[(&str, Style, String)], buffer: &mut Buffer, area: Rect) {
    for ((name, style, number), row) in rows.iter().zip(area.rows()) {
        let row = Rect { x: row.x.saturating_add(2), width: row.width.saturating_sub(2), ..row };
        let room = usize::from(row.width).saturating_sub(number.chars().count() + 3);
        let label = Line::from_iter([Span::styled("■ ", *style), Span::raw(fit(name, room))]);
        label.render(row, buffer);
        Line::raw(number.as_str()).right_aligned().render(row, buffer);
    }
}

/// Draws the number of requests by period and duration, and the axis of durations.
fn heat_map(
    model: &Model,
    usage: &Usage,
    cursor: usize,
    [axis, plot, legend]: [Rect; 3],
    buffer: &mut Buffer,
) {
    let theme = model.theme;
    let starts: Vec<_> = usage.series.iter().map(|period| period.start).collect();
    let (records, _) = model.data.log.newest();
    let columns = latency(records.into_iter(), &starts);
    let most = columns.iter().flat_map(|it| it.rows).max().unwrap_or(0);
    if most == 0 {
        empty(theme, &model.data.log.fetch, "no requests of this range in the log", buffer, plot);
    }
    let height = usize::from(plot.height);
    let width = usize::from(plot.width).max(1);
    for (line, row) in plot.rows().rev().enumerate() {
        let buckets = covered(line, height, LATENCY_ROWS);
        let bucket = buckets.start;
        for (index, place) in row.columns().enumerate() {
            let columns = &columns[covered(index, width, columns.len())];
            let numbers = columns.iter().flat_map(|it| &it.rows[buckets.clone()]);
            let number = numbers.max().copied().unwrap_or(0);
            let style = match bucket {
                0..6 => theme.good(),
                6..9 => theme.warning(),
                _ => theme.bad(),
            };
            if let Some(cell) = buffer.cell_mut((place.x, place.y)) {
                cell.set_symbol(HEAT[shade(number, most)]).set_style(style);
            }
        }
        let is_first = line == 0 || (line - 1) * LATENCY_ROWS / height != bucket;
        if is_first {
            let bound = bucket.checked_sub(1).map(|it| LATENCY_BOUNDS_MS[it]);
            let label = bound.map_or_else(|| "0".to_owned(), |bound| duration(Some(bound)));
            let place = Rect { y: row.y, height: 1, width: axis.width.saturating_sub(1), ..axis };
            Line::from(Span::styled(label, theme.faint())).right_aligned().render(place, buffer);
        }
    }
    mark(model, columns.len(), cursor, buffer, plot);
    let Some(LatencyColumn { rows, p50_ms, p99_ms }) = columns.get(cursor) else { return };
    let requests = rows.iter().map(|it| u64::from(*it)).sum();
    let rows = [
        ("requests", theme.strong(), count(Some(requests))),
        ("p50", theme.bar(), duration(*p50_ms)),
        ("p99", theme.second_bar(), duration(*p99_ms)),
    ];
    legend_rows(&rows, buffer, legend);
    let scale = Rect { y: legend.y.saturating_add(4), height: 1, ..legend };
    heat_scale(theme, most, buffer, scale.intersection(legend));
}

/// Draws the shades of the heat map with the numbers of requests that they stand for.
fn heat_scale(theme: Theme, most: u32, buffer: &mut Buffer, area: Rect) {
    let area = Rect { x: area.x.saturating_add(2), width: area.width.saturating_sub(2), ..area };
    let shades = HEAT[1..].concat();
    let label = Line::from_iter([Span::styled(shades, theme.good()), Span::raw(" requests")]);
    label.render(area, buffer);
    let numbers =
        if most > 1 { format!("1 to {}", short_count(Some(most.into()))) } else { "1".to_owned() };
    Line::raw(numbers).right_aligned().render(area, buffer);
}

/// Returns the index in [`HEAT`]. A number that is not zero is visible.
fn shade(number: u32, most: u32) -> usize {
    match u64::from(number) * 4 / u64::from(most.max(1)) {
        0 => usize::from(number > 0),
        share => usize::try_from(share).unwrap_or(4).min(4),
    }
}

/// Marks the column of the cursor.
fn mark(model: &Model, count: usize, cursor: usize, buffer: &mut Buffer, plot: Rect) {
    if let Some(x) = column_of(cursor, count, plot) {
        let column = Rect { x, width: 1, ..plot };
        buffer.set_style(column.intersection(plot), model.theme.cursor());
    }
}

/// Returns the middle column of a period.
fn column_of(index: usize, count: usize, plot: Rect) -> Option<u16> {
    let middle = (2 * index + 1) * usize::from(plot.width) / (2 * count.max(1));
    plot.x.checked_add(u16::try_from(middle).ok()?)
}

/// Draws times below the plot: that of the cursor, the dates at which days begin, and as many others
/// as have room. The first one has its date, too.
fn time_axis(model: &Model, series: &[Period], cursor: usize, buffer: &mut Buffer, row: Rect) {
    let zone = axis_zone(model);
    let date = |index: usize| Some(series.get(index)?.start.to_zoned(zone.clone()).date());
    let has_times = matches!(model.data.usage.range, Range::Hour | Range::Day);
    let is_midnight = |index: &usize| has_times && *index > 0 && date(*index) != date(index - 1);
    let steps = usize::from(row.width / 14).clamp(1, 8);
    let last = series.len().saturating_sub(1);
    let marked = std::iter::once(cursor).chain((0..series.len()).filter(is_midnight));
    let mut taken: Vec<Rect> = Vec::new();
    for index in marked.chain((0..=steps).map(|step| step * last / steps)) {
        let Some(period) = series.get(index) else { continue };
        let format = match (has_times, index) {
            (true, 0) if index != cursor => "%m-%d %H:%M",
            (true, _) if index == cursor || !is_midnight(&index) => "%H:%M",
            _ => "%m-%d",
        };
        let style = match index {
            _ if index == cursor => model.theme.accent(),
            _ if is_midnight(&index) => model.theme.strong(),
            _ => model.theme.faint(),
        };
        let text = period.start.to_zoned(zone.clone()).strftime(format).to_string();
        let width = u16::try_from(text.chars().count()).unwrap_or(u16::MAX);
        let Some(middle) = column_of(index, series.len(), row) else { continue };
        let end = row.right().saturating_sub(width);
        let x = middle.saturating_sub(width / 2).clamp(row.x.min(end), end.max(row.x));
        let place = Rect { x, width, ..row }.intersection(row);
        // A space remains on both sides.
        let wide = Rect { x: x.saturating_sub(1), width: width.saturating_add(2), ..place };
        if taken.iter().all(|other| !other.intersects(wide)) {
            Line::styled(text, style).render(place, buffer);
            taken.push(place);
        }
    }
}

/// Returns the zone of the times on the axis. Days are those of UTC.
fn axis_zone(model: &Model) -> TimeZone {
    match model.data.usage.range {
        Range::Hour | Range::Day => model.zone.clone(),
        Range::Week | Range::Month => TimeZone::UTC,
    }
}

/// Returns everything about the period of the cursor.
fn reading_text(model: &Model, period: &Period, cursor: usize) -> String {
    let totals = &period.totals;
    let range = model.data.usage.range;
    let before = model.data.usage.before.value.as_ref().and_then(|it| it.series.get(cursor));
    let day = period.start.to_zoned(axis_zone(model));
    let time = match range {
        Range::Hour | Range::Day => day.strftime("%F %H:%M").to_string(),
        Range::Week | Range::Month => day.strftime("%F, UTC").to_string(),
    };
    let then = before.map(|it| format!(" ({} before)", count(Some(it.totals.requests))));
    format!(
        "{time}  {}{}, errors: {}  {}  {} in, {} out",
        several(totals.requests, "request"),
        then.unwrap_or_default(),
        count(Some(totals.errors)),
        short_dollars(Measure::Cost.of(totals)),
        count(totals.tokens.input),
        count(totals.tokens.output),
    )
}

#[cfg(test)]
mod tests {
    use super::shade;

    #[test]
    fn a_single_request_is_visible_and_the_most_are_solid() {
        assert_eq!([shade(0, 0), shade(0, 9), shade(1, 1_000)], [0, 0, 1]);
        assert_eq!([shade(500, 1_000), shade(1_000, 1_000), shade(u32::MAX, u32::MAX)], [2, 4, 4]);
    }
}
