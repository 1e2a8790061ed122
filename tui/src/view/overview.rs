//! The account at a glance: who, what is left, what was used, and what happens right now.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use crate::model::Model;
use crate::model::record::{Account, Limits, Role, Totals};
use crate::theme::Theme;

use super::widget::bars::bars;
use super::widget::frame::{frame, rows};
use super::widget::log::log;
use super::widget::text::{UNKNOWN, count, dollars};

/// How many models have a bar.
const BARS: usize = 5;

/// Draws the overview; faint while it may be out of date.
pub(super) fn render(model: &Model, buffer: &mut Buffer, area: Rect) {
    let [top, bottom] = Layout::vertical([Constraint::Length(9), Constraint::Fill(1)]).areas(area);
    let [left, middle, right] =
        Layout::horizontal([Constraint::Fill(5), Constraint::Fill(5), Constraint::Fill(7)])
            .areas(top);
    account(model, buffer, left);
    totals(model, buffer, middle);
    models(model, buffer, right);
    requests(model, buffer, bottom);
    if model.is_stale() {
        buffer.set_style(area, model.theme.faint());
    }
}

fn account(model: &Model, buffer: &mut Buffer, area: Rect) {
    let theme = model.theme;
    let snapshot = model.overview.snapshot.as_ref();
    let inside = frame(theme, "Account", buffer, area);
    let account = snapshot.map(|snapshot| &snapshot.account);
    let limits = snapshot.and_then(|snapshot| snapshot.limits.as_ref());
    let text = |text: Option<&str>| text.unwrap_or(UNKNOWN).to_owned();
    let limit = |pick: fn(&Limits) -> Option<u64>| match limits.map(pick) {
        None => UNKNOWN.to_owned(),
        Some(None) => "no limit".to_owned(),
        limit => count(limit.flatten()),
    };
    let balance = account.and_then(|account| account.balance_usd.as_deref());
    let lines = [
        ("name", Span::styled(text(account.map(|account| &*account.name)), theme.strong())),
        ("role", account.map_or_else(|| Span::raw(UNKNOWN), |account| role(theme, account))),
        ("plan", Span::raw(text(account.and_then(|account| account.plan.as_deref())))),
        ("balance", Span::styled(dollars(balance), theme.strong())),
        ("requests/min", Span::raw(limit(|limits| limits.rpm))),
        ("tokens/min", Span::raw(limit(|limits| limits.tpm))),
        ("concurrency", Span::raw(limit(|limits| limits.concurrency))),
    ];
    rows(theme, lines, buffer, inside);
}

fn role(theme: Theme, account: &Account) -> Span<'static> {
    match account.role {
        _ if account.suspended => Span::styled("suspended", theme.bad()),
        None => Span::raw(UNKNOWN),
        Some(Role::Member) => Span::raw("member"),
        Some(Role::Operator) => Span::raw("operator"),
    }
}

fn totals(model: &Model, buffer: &mut Buffer, area: Rect) {
    let theme = model.theme;
    let inside = frame(theme, "Last 30 days", buffer, area);
    let totals = model.overview.snapshot.as_ref().map(|snapshot| &snapshot.usage.totals);
    let number = |pick: fn(&Totals) -> Option<u64>| count(totals.and_then(pick));
    let errors = match totals {
        Some(totals) if totals.errors > 0 => theme.warning(),
        _ => theme.good(),
    };
    let lines = [
        ("requests", Span::raw(number(|totals| Some(totals.requests)))),
        ("errors", Span::styled(number(|totals| Some(totals.errors)), errors)),
        ("input", Span::raw(number(|totals| totals.tokens.input))),
        ("  cached", Span::raw(number(|totals| totals.tokens.cached))),
        ("output", Span::raw(number(|totals| totals.tokens.output))),
        ("  reasoning", Span::raw(number(|totals| totals.tokens.reasoning))),
        ("cost", Span::styled(dollars(totals.and_then(|t| t.cost_usd.as_deref())), theme.strong())),
    ];
    rows(theme, lines, buffer, inside);
}

fn models(model: &Model, buffer: &mut Buffer, area: Rect) {
    let theme = model.theme;
    let inside = frame(theme, "Tokens by model", buffer, area);
    let Some(snapshot) = &model.overview.snapshot else {
        Line::styled(UNKNOWN, theme.faint()).render(inside, buffer);
        return;
    };
    let models = snapshot.usage.by_model.iter();
    let mut values: Vec<_> =
        models.map(|(name, totals)| (name.as_str(), totals.tokens.total())).collect();
    values.sort_by_key(|(_, tokens)| std::cmp::Reverse(*tokens));
    let more = values.len().saturating_sub(BARS);
    values.truncate(BARS);
    bars(theme, &values, buffer, inside);
    if values.is_empty() {
        Line::styled("nothing used yet", theme.faint()).render(inside, buffer);
    } else if more > 0
        && let Some(last) = inside.rows().nth(BARS + 1)
    {
        Line::styled(format!("and {more} more"), theme.faint()).render(last, buffer);
    }
}

fn requests(model: &Model, buffer: &mut Buffer, area: Rect) {
    let requests = &model.overview.log;
    let place = match requests.selected {
        0 => String::new(),
        row => format!(" · {} of {}", row + 1, requests.records.len()),
    };
    let skipped = match requests.skipped {
        0 => String::new(),
        skipped => format!(" · {skipped} skipped"),
    };
    let title = format!("Requests{place}{skipped}");
    let inside = frame(model.theme, &title, buffer, area);
    log(model.theme, &model.zone, requests, buffer, inside);
}
