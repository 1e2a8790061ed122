//! The overlay for trying a model.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use crate::model::record::Record;
use crate::model::trial::{Trial, TrialState, next_model};
use crate::model::{Model, Notice};

use super::usage;
use super::widget::field;
use super::widget::frame::{margin, popup};
use super::widget::text::{UNKNOWN, count, dollars, duration, fit, wrap};

/// The maximum width.
const MAX_WIDTH: u16 = 110;

/// Draws the prompt, the answer, and the record of the request, over most of `area`.
pub(super) fn render(model: &Model, trial: &Trial, buffer: &mut Buffer, area: Rect) {
    let theme = model.theme;
    let height = area.height - margin(area);
    let place = area.centered(Constraint::Max(MAX_WIDTH), Constraint::Max(height));
    let title = format!("Try `{}` · {}", trial.model, trial.api.name());
    let inside = popup(theme, &title, buffer, place);
    let [prompt, gap, middle, bottom] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(inside);
    let [sign, text] =
        Layout::horizontal([Constraint::Length(2), Constraint::Fill(1)]).areas(prompt);
    Line::from(Span::styled(">", theme.accent())).render(sign, buffer);
    if trial.prompt.value().is_empty() {
        let hint = Span::styled("what to ask, then Enter", theme.faint());
        Line::from(hint).render(text, buffer);
    }
    if trial.state == TrialState::Running {
        field::line(theme, trial.prompt.value(), None, buffer, text);
    } else {
        field::typed(theme, &trial.prompt, buffer, text);
    }
    let rule = "─".repeat(gap.width.into());
    Line::from(Span::styled(rule, theme.border())).render(gap, buffer);
    match &trial.record {
        Some(record) if trial.is_record_open => {
            let mut detail = usage::detail(model, record);
            detail.scrolled_by("↓", "↑").render(theme, trial.scroll, buffer, middle);
        }
        _ => answer(model, trial, buffer, middle),
    }
    let (text, style) = match &model.notice {
        Some(Notice::Problem(problem)) => (problem.clone(), theme.bad()),
        _ => (state(trial), theme.faint()),
    };
    let line = Span::styled(fit(&text, bottom.width.into()), style);
    Line::from(line).render(bottom, buffer);
}

/// Draws the end of the answer, or the lines above it if the user scrolled up.
fn answer(model: &Model, trial: &Trial, buffer: &mut Buffer, area: Rect) {
    let theme = model.theme;
    let mut lines: Vec<_> =
        wrap(&trial.answer, area.width.into()).into_iter().map(Span::raw).collect();
    if trial.is_cut {
        lines.push(Span::styled("… the rest is too long to show", theme.faint()));
    }
    if let TrialState::Failed(problem) = &trial.state {
        let wrapped = wrap(problem, area.width.into()).into_iter();
        lines.extend(wrapped.map(|line| Span::styled(line, theme.bad())));
        for advice in advice(model, trial, problem) {
            let wrapped = wrap(&advice, area.width.into()).into_iter();
            lines.push(Span::raw(""));
            lines.extend(wrapped.map(|line| Span::styled(line, theme.warning())));
        }
    }
    let room = usize::from(area.height);
    let last_first = lines.len().saturating_sub(room);
    let first = last_first.saturating_sub(trial.scroll);
    for (line, row) in lines.into_iter().skip(first).zip(area.rows()) {
        Line::from(line).render(row, buffer);
    }
}

/// Returns what to do after a failed request.
fn advice(model: &Model, trial: &Trial, problem: &str) -> Vec<String> {
    let entry = model.data.models.entries.iter().find(|it| it.id == trial.model);
    let first = entry.and_then(|it| it.deployments.first());
    let upstream = first
        .and_then(|first| model.data.upstreams.entries.iter().find(|it| it.name == first.upstream));
    let mut advice = Vec::new();
    match upstream {
        _ if problem.contains("(insufficient_quota)") => {
            advice.push("The overview (Esc, then 1) shows what is used up.".to_owned());
        }
        _ if !problem.contains("(upstream_") => {}
        Some(upstream) if problem.contains("(upstream_unreachable)") => advice.push(format!(
            "Start the server at {}, or change the address of `{}` (Esc, then 7, then e). There, t \
             tests it.",
            upstream.url, upstream.name
        )),
        Some(upstream) => advice.push(format!(
            "The server of `{}` at {} is the cause: Esc, then 7, then t tests it.",
            upstream.name, upstream.url
        )),
        None => advice.push("Ask an operator whether the server of this model runs.".to_owned()),
    }
    // What concerns the account or the key would be the same with another model.
    let is_of_model = !["suspended", "insufficient_quota", "invalid_api_key"]
        .iter()
        .any(|word| problem.contains(word));
    if let Some(next) = next_model(model, trial).filter(|_| is_of_model) {
        advice.push(format!("Ctrl-N, then Enter, asks `{next}` instead."));
    }
    advice
}

/// Describes the request in one line.
fn state(trial: &Trial) -> String {
    match (&trial.state, &trial.record) {
        (_, Some(_)) if trial.is_record_open => "Ctrl-O goes back to the answer".to_owned(),
        (_, Some(record)) => figures(record),
        (TrialState::Asking, None) if trial.secret.is_some() => "with the new key".to_owned(),
        (TrialState::Asking, None) => {
            "a key `tui trial` is made for it, which ends with the session and may spend $1"
                .to_owned()
        }
        (TrialState::Running, None) => "answering…".to_owned(),
        (TrialState::Done, None) if trial.is_unrecorded => "the log has no record of it".to_owned(),
        (TrialState::Done, None) => "waiting for the record…".to_owned(),
        (TrialState::Failed(_), None) if trial.is_unrecorded => "it failed".to_owned(),
        (TrialState::Failed(_), None) => "it failed; waiting for the record…".to_owned(),
    }
}

/// Formats what the request used.
fn figures(record: &Record) -> String {
    let status = record.status.map_or(UNKNOWN, |status| status.name());
    format!(
        "{status} · {} in, {} out · {} · first token {} · took {}",
        count(record.tokens.input),
        count(record.tokens.output),
        dollars(record.cost_usd.as_deref()),
        duration(record.ttft_ms),
        duration(record.duration_ms),
    )
}
