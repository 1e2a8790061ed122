//! The upstreams screen, for operators.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Span;

use crate::model::Model;
use crate::model::upstreams::{CredentialHealth, Deadlines, Health, HealthStatus, Upstream};

use super::panes::Panes;
use super::widget::chart::trend;
use super::widget::detail::{Detail, plain};
use super::widget::table::Column;
use super::widget::text::{
    UNKNOWN, ago, count, duration, full_time, several, short_count, time_of_day,
};

const COLUMNS: &[Column] = &[
    Column::text("name", 12, 1, 0),
    Column::text("health", 9, 0, 0),
    Column::number("in flight", 9, 2),
    Column::number("5 min", 7, 3),
    Column::number("failed", 7, 1),
    Column::text("recent", 8, 0, 3),
    Column::number("p50", 6, 4),
    Column::number("p99", 6, 4),
    Column::text("URL", 14, 2, 5),
];

/// Draws the list of upstreams.
pub(super) fn render(model: &Model, buffer: &mut Buffer, area: Rect) {
    let panes = Panes {
        title: "Upstreams",
        list: &model.data.upstreams,
        columns: COLUMNS,
        empty_text: "no upstreams yet: `n` adds one",
    };
    panes.render(model, |it| cells(model, it), |it| detail(model, it), buffer, area);
}

fn cells<'a>(model: &Model, upstream: &'a Upstream) -> Vec<Span<'a>> {
    let health = upstream.health.as_ref();
    let number = |pick: fn(&Health) -> u64| plain(short_count(health.map(pick)));
    let latency = health.and_then(|it| it.latency);
    vec![
        plain(upstream.name.as_str()),
        health_status(model, upstream.health_status()),
        number(|it| it.in_flight),
        number(|it| it.requests),
        number(|it| it.failures),
        trend(upstream.recent.as_ref()),
        plain(duration(latency.map(|it| it.p50_ms))),
        plain(duration(latency.map(|it| it.p99_ms))),
        plain(upstream.url.as_str()),
    ]
}

/// Returns the health as styled text.
pub(super) fn health_status(model: &Model, health_status: Option<HealthStatus>) -> Span<'static> {
    let theme = model.theme;
    let style = match health_status {
        Some(HealthStatus::Healthy) => theme.good(),
        Some(HealthStatus::Waiting | HealthStatus::Shaky | HealthStatus::Probing) => {
            theme.warning()
        }
        Some(HealthStatus::Down | HealthStatus::NoKey) => theme.bad(),
        Some(HealthStatus::Idle) | None => theme.faint(),
    };
    Span::styled(health_status.map_or(UNKNOWN, HealthStatus::name), style)
}

fn detail<'a>(model: &'a Model, upstream: &'a Upstream) -> Detail<'a> {
    let theme = model.theme;
    let mut detail = Detail::default();
    detail
        .row("name", Span::styled(upstream.name.as_str(), theme.strong()))
        .row("URL", plain(upstream.url.as_str()))
        .row("profile", plain(upstream.profile.name()))
        .row("key", plain(keys(upstream)))
        .optional_row(
            "problem",
            upstream.problem.as_deref().map(|it| Span::styled(it, theme.bad())),
        )
        .optional_row("proxy", proxy(upstream))
        .optional_row("connections", upstream.max_connections.map(bound))
        .optional_row("timeouts", timeouts(upstream.deadlines))
        .optional_row("check", upstream.health_check.as_ref().map(|it| check(it, upstream)))
        .row("added", plain(full_time(upstream.created_at, &model.zone)));
    detail.heading("Health");
    let Some(health) = &upstream.health else {
        detail.text(Span::styled("not available", theme.faint()));
        return detail;
    };
    detail
        .row("state", health_status(model, upstream.health_status()))
        .row("breaker", plain(health.breaker.map_or(UNKNOWN, |breaker| breaker.name())))
        .optional_row(
            "next try",
            health.retry_at.map(|at| plain(format!("at {}", time_of_day(Some(at), &model.zone)))),
        )
        .row("in flight", plain(count(Some(health.in_flight))))
        .row("5 minutes", plain(recent_requests(health)))
        .row("latency", plain(latency(health)))
        .optional_row("last error", last_error(model, health));
    if upstream.credentials.len() > 1 {
        detail.heading("Keys");
        for (number, (source, state)) in
            (1..).zip(upstream.credentials.iter().zip(&health.credentials))
        {
            let text = format!("{number} {}: {}", source.describe(), key_state(model, state));
            let is_paused = state.paused_until.is_some() || state.problem.is_some();
            detail.text(if is_paused { Span::styled(text, theme.warning()) } else { plain(text) });
        }
    }
    detail
}

/// Describes the credentials in one line.
fn keys(upstream: &Upstream) -> String {
    match upstream.credentials.as_slice() {
        [] => "none".to_owned(),
        [only] => only.describe(),
        several => format!("{} in turn", several.len()),
    }
}

fn key_state(model: &Model, state: &CredentialHealth) -> String {
    if state.problem.is_some() {
        return "not available".to_owned();
    }
    let (requests, refusals) = (count(Some(state.requests)), count(Some(state.refusals)));
    let pause = state
        .paused_until
        .map(|until| format!(", paused until {}", time_of_day(Some(until), &model.zone)));
    format!("{requests} sent, {refusals} refused{}", pause.unwrap_or_default())
}

fn bound((connections, waiting): (u32, u32)) -> Span<'static> {
    plain(format!("{connections}, {waiting} may wait"))
}

/// Describes the timeouts that are not the default in one line.
fn timeouts(deadlines: Deadlines) -> Option<Span<'static>> {
    let named = [
        ("connect", deadlines.connect_ms),
        ("first byte", deadlines.first_byte_ms),
        ("idle", deadlines.idle_ms),
        ("total", deadlines.total_ms),
    ];
    let set = named.into_iter().filter_map(|(name, milliseconds)| {
        let milliseconds = u32::try_from(milliseconds?).unwrap_or(u32::MAX);
        Some(format!("{name} {}", duration(Some(milliseconds.into()))))
    });
    let set: Vec<_> = set.collect();
    (!set.is_empty()).then(|| plain(set.join(", ")))
}

/// Describes the proxy in one line.
fn proxy(upstream: &Upstream) -> Option<Span<'_>> {
    let proxy = upstream.proxy.as_deref()?;
    Some(match &upstream.proxy_user {
        Some(user) => plain(format!("{proxy} as {user}")),
        None => plain(proxy),
    })
}

fn check<'a>((path, interval_ms): &'a (String, u32), upstream: &Upstream) -> Span<'a> {
    let state = upstream.health.as_ref().and_then(|health| health.check);
    let state = state.map(|state| format!(", {}", state.name())).unwrap_or_default();
    plain(format!("{path} every {}{state}", duration(Some(f64::from(*interval_ms)))))
}

fn recent_requests(health: &Health) -> String {
    let failures = count(Some(health.failures));
    format!("{}, {failures} failed", several(health.requests, "request"))
}

fn last_error(model: &Model, health: &Health) -> Option<Span<'static>> {
    let error = health.last_error.as_deref()?;
    let text = format!("{error}, {}", ago(health.last_error_at, model.now));
    Some(Span::styled(text, model.theme.bad()))
}

fn latency(health: &Health) -> String {
    let Some(latency) = &health.latency else { return UNKNOWN.to_owned() };
    let [p50, p90, p99] =
        [latency.p50_ms, latency.p90_ms, latency.p99_ms].map(|ms| duration(Some(ms)));
    format!("p50 {p50}, p90 {p90}, p99 {p99}")
}
