//! The requests in flight: a screen, and a panel of the live screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use crate::model::Model;
use crate::model::in_flight::{InFlight, MIN_RECENT_REQUESTS};

use super::panes::Panes;
use super::widget::detail::{Detail, plain};
use super::widget::frame::frame;
use super::widget::status::empty;
use super::widget::table::Column;
use super::widget::text::{UNKNOWN, approximate_count, count, duration, fit, full_time};

const COLUMNS: &[Column] = &[
    Column::number("age", 8, 0),
    Column::text("account", 10, 1, 1),
    Column::text("model", 12, 2, 0),
    Column::text("endpoint", 16, 0, 4),
    Column::number("≈ out", 7, 0),
    Column::text("served by", 14, 2, 3),
    Column::text("key", 14, 0, 5),
    Column::text("id", 36, 0, 6),
];

/// Draws the list of requests in flight, the oldest first.
pub(super) fn render(model: &Model, buffer: &mut Buffer, area: Rect) {
    let panes = Panes {
        title: "In flight",
        list: &model.data.in_flight,
        columns: COLUMNS,
        empty_text: "no requests in flight",
    };
    panes.render(model, |it| cells(model, it), |it| detail(model, it), buffer, area);
}

/// Draws the oldest requests in flight as a panel.
pub(super) fn panel(model: &Model, buffer: &mut Buffer, area: Rect) {
    let list = &model.data.in_flight;
    let title = match list.entries.len() {
        0 => "In flight".to_owned(),
        known => format!("In flight · oldest of {known}, i lists all"),
    };
    let inside = frame(model.theme, &title, buffer, area);
    if list.entries.is_empty() {
        return empty(model.theme, &list.fetch, "none", buffer, inside);
    }
    for (request, row) in list.entries.iter().zip(inside.rows()) {
        let age = age(model, request);
        let age = Span::styled(format!("{:>8}  ", age.content), age.style);
        let tokens = format!(" ≈{} out", approximate_count(request.output_tokens()));
        let room = usize::from(row.width).saturating_sub(age.width() + Span::raw(&*tokens).width());
        let name = fit(&format!("{} {}", request.model, request.account), room);
        Line::from_iter([age, Span::raw(name)]).render(row, buffer);
        Line::styled(tokens, Style::new()).right_aligned().render(row, buffer);
    }
}

/// Returns the age, with a mark if the request is late.
fn age(model: &Model, request: &InFlight) -> Span<'static> {
    let age = duration(Some(request.age_ms));
    if !request.is_late() {
        return plain(age);
    }
    Span::styled(format!("! {age}"), model.theme.warning())
}

/// Says how long requests for the model usually take, if the request takes longer.
fn lateness(request: &InFlight) -> String {
    let usual = duration(Some(request.late_after_ms()));
    match &request.recent {
        Some(recent) if recent.requests >= MIN_RECENT_REQUESTS => format!(
            "99 % of the last {} answers of `{}` took {usual} at most",
            count(Some(recent.requests)),
            request.model
        ),
        _ => format!("longer than {usual}; too few recent answers to say what is usual"),
    }
}

fn cells<'a>(model: &Model, request: &'a InFlight) -> Vec<Span<'a>> {
    let or_unknown = |text: &'a str| plain(if text.is_empty() { UNKNOWN } else { text });
    vec![
        age(model, request),
        plain(request.account.as_str()),
        plain(request.model.as_str()),
        plain(request.endpoint.as_str()),
        plain(approximate_count(request.output_tokens())),
        or_unknown(&request.deployment),
        plain(request.key.as_str()),
        plain(request.id.as_str()),
    ]
}

fn detail<'a>(model: &'a Model, request: &'a InFlight) -> Detail<'a> {
    let bytes = |bytes: u64| plain(format!("{} bytes of text", count(Some(bytes))));
    let stream = if request.stream { ", as a stream" } else { "" };
    let mut detail = Detail::default();
    detail
        .row("age", age(model, request))
        .optional_row("late", request.is_late().then(|| plain(lateness(request))))
        .row("started", plain(full_time(request.started_at, &model.zone)))
        .row("account", plain(request.account.as_str()))
        .row("key", plain(request.key.as_str()))
        .row("model", plain(request.model.as_str()))
        .row("endpoint", plain(format!("{}{stream}", request.endpoint)))
        .row("served by", plain(request.deployment.as_str()))
        .row("sent", bytes(request.input_bytes))
        .row("received", bytes(request.output_bytes))
        .row("request", plain(request.id.as_str()));
    detail.gap().text(Span::styled("x cancels it.", model.theme.faint()));
    detail
}
