//! The overview screen: balance, limits, traffic, errors and latest requests.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use crate::model::Model;
use crate::model::catalogue::CatalogueModel;
use crate::model::money::{parse_nanos, short_dollars, tokens_for};
use crate::model::plans::Plan;
use crate::model::record::Tokens;
use crate::model::traffic::{LimitKind, LimitScope, LimitUse};

use super::live::{REQUESTS, errors, minutes};
use super::usage::log_table;
use super::widget::bars::{gauge, usage_style};
use super::widget::frame::{frame, rows};
use super::widget::status::{empty, stale};
use super::widget::text::{
    UNKNOWN, approximate_count, count, dollars, fit, limit, short_count, upcoming,
};

/// The width of the text of a limit, unless one is longer.
const LIMIT_TEXT_WIDTH: u16 = 15;
/// The width that the names of limits have before their bars.
const MIN_LIMIT_NAME_WIDTH: u16 = 16;
/// The width of a bar of a limit, unless names of [`MIN_LIMIT_NAME_WIDTH`] need it.
const MIN_BAR_WIDTH: u16 = 1;

/// Draws the overview.
pub(super) fn render(model: &Model, buffer: &mut Buffer, area: Rect) {
    let is_tall = area.height >= 30;
    let heights = if is_tall { [12, 9] } else { [8, 5] };
    let [top, middle, bottom] = Layout::vertical([
        Constraint::Length(heights[0]),
        Constraint::Length(heights[1]),
        Constraint::Fill(1),
    ])
    .areas(area);
    let halves = [Constraint::Fill(1), Constraint::Fill(1)];
    let [left, right] = Layout::horizontal(halves).areas(top);
    balance(model, buffer, left);
    limits(model, buffer, right);
    let [left, right] = Layout::horizontal(halves).areas(middle);
    let theme = model.theme;
    minutes(model, REQUESTS, theme.bar(), |it| it.requests, buffer, left);
    minutes(model, "Tokens/min", theme.second_bar(), |it| it.tokens, buffer, right);
    // Wide enough for the longest error code with its count and age.
    let codes = (area.width * 2 / 5).max(40);
    let [left, right] =
        Layout::horizontal([Constraint::Length(codes), Constraint::Fill(1)]).areas(bottom);
    errors(model, buffer, left);
    let inside = frame(theme, "Requests that ended last", buffer, right);
    log_table(model, None, buffer, inside);
}

fn balance(model: &Model, buffer: &mut Buffer, area: Rect) {
    let theme = model.theme;
    let account = model.data.account.value.as_ref();
    let inside = frame(theme, "Balance", buffer, area);
    let text = |text: Option<&str>| Span::raw(text.unwrap_or(UNKNOWN).to_owned());
    let balance = account.and_then(|it| it.balance_usd.as_deref());
    let spent = balance.and_then(parse_nanos).is_some_and(|left| left <= 0);
    let style = if spent { theme.bad() } else { theme.strong() };
    let mut lines = vec![("left", Span::styled(dollars(balance), style))];
    let is_tall = inside.height >= 10;
    let max_models = if is_tall { 2 } else { 1 };
    match spent {
        true if model.sees_all() => lines.push(("", Span::raw("6, then c: give it credit"))),
        true => lines.push(("", Span::raw("ask an operator for credit"))),
        false => lines.extend(affordable_models(model, balance).into_iter().take(max_models)),
    }
    // The usage totals of an operator cover all accounts.
    let used = if model.sees_all() { "all used in 30 days" } else { "used in 30 days" };
    let month = model.data.overview.month.value.as_ref().map(|it| &it.totals);
    let tokens = |pick: fn(&Tokens) -> Option<u64>| month.and_then(|it| pick(&it.tokens));
    lines.extend([
        ("plan", text(account.and_then(|it| it.plan.as_deref()))),
        ("base URL", Span::raw(model.base_url.as_str())),
        (used, Span::raw(dollars(month.and_then(|it| it.cost_usd.as_deref())))),
    ]);
    if is_tall {
        lines.extend([
            ("  requests", Span::raw(count(month.map(|it| it.requests)))),
            ("  input tokens", Span::raw(count(tokens(|it| it.input)))),
            ("  output tokens", Span::raw(count(tokens(|it| it.output)))),
        ]);
    } else {
        let [input, output] = [tokens(|it| it.input), tokens(|it| it.output)].map(short_count);
        lines.push(("  tokens", Span::raw(format!("{input} in, {output} out"))));
    }
    rows(theme, lines, buffer, inside);
}

/// Returns model ids with the number of output tokens that the balance buys, highest cost of the
/// last 30 days first.
fn affordable_models<'a>(model: &'a Model, balance: Option<&str>) -> Vec<(&'a str, Span<'a>)> {
    let Some(balance) = balance else { return Vec::new() };
    let used = model.data.overview.month.value.as_ref();
    let rank = |entry: &CatalogueModel| {
        let rank = used.and_then(|it| it.by_model.iter().position(|(id, _)| *id == entry.id));
        rank.unwrap_or(usize::MAX)
    };
    let mut models: Vec<_> = model.data.models.entries.iter().collect();
    models.sort_by_key(|entry| rank(entry));
    let affordable = models.into_iter().filter_map(|entry| {
        let tokens = tokens_for(balance, entry.price.output_usd.as_deref()?)?;
        let text = format!("≈ {} output tokens", approximate_count(tokens));
        Some((entry.id.as_str(), Span::raw(text)))
    });
    affordable.collect()
}

fn limits(model: &Model, buffer: &mut Buffer, area: Rect) {
    let theme = model.theme;
    let limits = &model.data.overview.limits;
    let inside = frame(theme, &format!("Limits{}", stale(&limits.fetch)), buffer, area);
    match &limits.value {
        Some(known) if !known.is_empty() => {
            let mut shown: Vec<_> = known.iter().collect();
            let room = usize::from(inside.height);
            let hidden = if shown.len() > room { shown.len() + 1 - room.max(1) } else { 0 };
            if hidden > 0 {
                // The limits that are used most stay visible.
                shown.sort_by_key(|it| std::cmp::Reverse(used_permille(it)));
                shown.truncate(room - 1);
                let text = format!("and {hidden} more that are used less");
                if let Some(last) = inside.rows().next_back() {
                    Line::from(Span::styled(text, theme.faint())).render(last, buffer);
                }
            }
            let texts: Vec<_> =
                shown.iter().map(|it| [limit_name(model, it), limit_text(model, it)]).collect();
            let widths = limit_widths(&texts, inside.width);
            for ((limit, texts), row) in shown.into_iter().zip(&texts).zip(inside.rows()) {
                limit_row(model, limit, texts, widths, buffer, row);
            }
        }
        Some(_) => empty(theme, &limits.fetch, "no limits", buffer, inside),
        // A gateway without usage data for limits still reports the plan.
        None => match plan(model) {
            Some(plan) => {
                let lines = [
                    ("requests/min", Span::raw(limit(plan.limits.rpm))),
                    ("tokens/min", Span::raw(limit(plan.limits.tpm))),
                    ("concurrency", Span::raw(limit(plan.limits.concurrency))),
                ];
                rows(theme, lines, buffer, inside);
            }
            None => empty(theme, &limits.fetch, "no limits", buffer, inside),
        },
    }
}

/// Returns the used part of a limit, in thousandths.
fn used_permille(limit: &LimitUse) -> u128 {
    u128::from(limit.used) * 1_000 / u128::from(limit.limit.max(1))
}

/// Returns the plan of the signed-in account.
fn plan(model: &Model) -> Option<&Plan> {
    let name = model.data.account.value.as_ref()?.plan.as_deref()?;
    model.data.plans.entries.iter().find(|plan| plan.name == name)
}

/// Returns the label of the key, or `id` if the keys are not loaded.
fn key_name<'a>(model: &'a Model, id: &'a str) -> &'a str {
    let key = model.data.keys.entries.iter().find(|key| key.id == id);
    key.map_or(id, |key| key.label.as_str())
}

/// Returns the widths of the names and of the texts of limits. The names have what they need before
/// the bars; only very long ones are cut.
fn limit_widths(texts: &[[String; 2]], width: u16) -> [u16; 2] {
    let widest = |column: usize| {
        let widest = texts.iter().map(|it| Span::raw(&it[column]).width()).max().unwrap_or(0);
        u16::try_from(widest).unwrap_or(u16::MAX)
    };
    let text = widest(1).max(LIMIT_TEXT_WIDTH);
    let room = width.saturating_sub(text.saturating_add(2));
    let most = room.saturating_sub(MIN_BAR_WIDTH).max(room.min(MIN_LIMIT_NAME_WIDTH));
    [widest(0).clamp(MIN_LIMIT_NAME_WIDTH.min(most), most), text]
}

fn limit_row(
    model: &Model,
    limit: &LimitUse,
    [name, text]: &[String; 2],
    [name_width, text_width]: [u16; 2],
    buffer: &mut Buffer,
    row: Rect,
) {
    let theme = model.theme;
    let [left, middle, right] = Layout::horizontal([
        Constraint::Length(name_width),
        Constraint::Fill(1),
        Constraint::Length(text_width),
    ])
    .spacing(1)
    .areas(row);
    Line::styled(fit(name, left.width.into()), theme.faint()).render(left, buffer);
    gauge(theme, limit.used, limit.limit, buffer, middle);
    let style = match usage_style(theme, limit.used, limit.limit) {
        style if limit.used >= limit.limit => style,
        _ => Style::new(),
    };
    Line::styled(text.as_str(), style).right_aligned().render(right, buffer);
}

/// Returns the name of a limit, with its owner unless that is the plan.
pub(super) fn limit_name(model: &Model, limit: &LimitUse) -> String {
    let kind = match limit.kind {
        Some(LimitKind::Requests) => "requests/min",
        Some(LimitKind::Tokens) => "tokens/min",
        Some(LimitKind::Concurrency) => "concurrency",
        Some(LimitKind::MonthlyTokens) => "tokens/month",
        Some(LimitKind::Spending) => "spending",
        None => UNKNOWN,
    };
    match limit.scope {
        Some(LimitScope::Plan) | None => kind.to_owned(),
        Some(LimitScope::Model) => format!("{kind} {}", limit.subject),
        Some(LimitScope::Key) => format!("{kind} {}", key_name(model, &limit.subject)),
    }
}

/// Returns how much of a limit is used, or until when it is exhausted.
pub(super) fn limit_text(model: &Model, limit: &LimitUse) -> String {
    let number = |number: u64| match limit.kind {
        Some(LimitKind::Spending) => short_dollars(number),
        _ => approximate_count(number),
    };
    // For an exhausted limit, the reset time matters more than the amount.
    match limit.resets_at {
        _ if limit.observed && limit.used >= limit.limit => "only noted".to_owned(),
        Some(at) if limit.used >= limit.limit => {
            format!("until {}", upcoming(at, model.now, &model.zone))
        }
        _ => format!("{} of {}", number(limit.used), number(limit.limit)),
    }
}
