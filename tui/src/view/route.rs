//! The overlay that explains how requests for a model are routed.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::Span;

use crate::model::Model;
use crate::model::command_line::line;
use crate::model::route::{Route, RouteStep, RouteView};

use super::widget::detail::{Detail, plain};
use super::widget::frame::{inner_area, popup};
use super::widget::text::duration;

/// The maximum width.
const MAX_WIDTH: u16 = 100;
/// The least height, so that the box seldom grows when the answer arrives.
const MIN_HEIGHT: u16 = 9;

/// Draws the deployments in the order in which they are tried.
pub(super) fn render(model: &Model, view: &RouteView, buffer: &mut Buffer, area: Rect) {
    let mut detail = Detail::default();
    match &view.route {
        None => _ = detail.text(Span::styled("asking the gateway…", model.theme.faint())),
        Some(Err(problem)) => _ = detail.text(Span::styled(problem.as_str(), model.theme.bad())),
        Some(Ok(route)) if route.steps.is_empty() => {
            detail.text(Span::styled("it has no deployment", model.theme.warning()));
        }
        Some(Ok(route)) => steps(model, route, &mut detail),
    }
    let command = format!("= {}", line(&view.arguments()));
    detail.gap().text(Span::styled(command, model.theme.faint()));
    let width = MAX_WIDTH.min(area.width);
    let height = detail
        .height(model.theme, inner_area(Rect { width, ..area }).width)
        .saturating_add(2)
        .max(MIN_HEIGHT);
    let place = area.centered(Constraint::Length(width), Constraint::Max(height));
    let inside = popup(model.theme, &title(view), buffer, place);
    detail.scrolled_by("↓", "↑").render(model.theme, view.scroll, buffer, inside);
}

fn title(view: &RouteView) -> String {
    let title = format!("Route of `{}`", view.model);
    let Some(Ok(route)) = &view.route else { return title };
    let hedging = route.hedge_after_ms.map(|millis| format!(" · also the next after {millis} ms"));
    format!("{title} · {}{}", route.routing, hedging.unwrap_or_default())
}

fn steps(model: &Model, route: &Route, detail: &mut Detail<'_>) {
    for (number, step) in (1..).zip(&route.steps) {
        if number > 1 {
            detail.gap();
        }
        let name = format!("{number}  {} › {}", step.upstream, step.model);
        detail
            .text(Span::styled(plain(name).content.into_owned(), model.theme.accent()))
            .text(plain(figures(step)))
            .text(Span::styled(
                plain(step.reason.as_str()).content.into_owned(),
                model.theme.strong(),
            ));
    }
}

fn figures(step: &RouteStep) -> String {
    let first = match step.first_percent {
        Some(percent) => format!("{percent:.1} % first"),
        None => "first depending on the load".to_owned(),
    };
    let latency = match step.latency_ms {
        Some(ms) => format!("answers in {}", duration(Some(ms))),
        None => "no answer yet".to_owned(),
    };
    format!(
        "{first} · {} in flight · {latency} · priority {} · weight {}",
        step.in_flight, step.priority, step.weight
    )
}
