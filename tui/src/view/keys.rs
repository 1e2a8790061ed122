//! The keys screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Span;

use crate::model::Model;
use crate::model::keys::{Key, KeyState};
use crate::model::plans::Limits;
use crate::model::traffic::{LimitKind, LimitScope, LimitUse};

use super::overview::limit_text;
use super::panes::Panes;
use super::widget::chart::trend;
use super::widget::detail::{Detail, plain};
use super::widget::table::Column;
use super::widget::text::{ago, approximate_count, dollars, duration, full_time, limit};

const COLUMNS: &[Column] = &[
    Column::text("label", 12, 2, 0),
    ACCOUNT,
    Column::text("id", 14, 0, 3),
    Column::text("state", 8, 0, 0),
    Column::text("last used", 9, 0, 1),
    Column::text("created", 9, 0, 4),
    Column::text("limits", 16, 1, 2),
    Column::text("models", 8, 1, 5),
    Column::text("recent", 8, 0, 6),
    Column::number("p50", 6, 6),
    Column::number("p99", 6, 6),
];

/// The owner; only operators see the keys of others.
const ACCOUNT: Column = Column::text("account", 10, 1, 0);

/// Draws the list of keys.
pub(super) fn render(model: &Model, buffer: &mut Buffer, area: Rect) {
    let shown = |it: &&Column| model.sees_all() || it.title != ACCOUNT.title;
    let columns: Vec<_> = COLUMNS.iter().filter(shown).copied().collect();
    let panes = Panes {
        title: "Keys",
        list: &model.data.keys,
        columns: &columns,
        empty_text: "no keys yet: `n` makes one",
    };
    panes.render(model, |key| cells(model, key), |key| detail(model, key), buffer, area);
}

fn cells<'a>(model: &Model, key: &'a Key) -> Vec<Span<'a>> {
    let mut cells = vec![plain(key.label.as_str())];
    if model.sees_all() {
        cells.push(plain(key.account.as_str()));
    }
    cells.extend([
        plain(key.id.as_str()),
        state(model, key),
        plain(used(model, key)),
        plain(ago(key.created_at, model.now)),
        plain(limits_of(key)),
        plain(models(key)),
        trend(key.recent.as_ref()),
        plain(duration(key.recent.as_ref().and_then(|it| it.p50_ms))),
        plain(duration(key.recent.as_ref().and_then(|it| it.p99_ms))),
    ]);
    cells
}

fn state(model: &Model, key: &Key) -> Span<'static> {
    let state = key.state(model.now);
    let style = match state {
        KeyState::Active => model.theme.good(),
        KeyState::Replaced => model.theme.warning(),
        KeyState::Expired | KeyState::Revoked => model.theme.faint(),
    };
    Span::styled(state.name(), style)
}

fn used(model: &Model, key: &Key) -> String {
    match key.last_used_at {
        None => "never".to_owned(),
        used => ago(used, model.now),
    }
}

fn models(key: &Key) -> String {
    if key.models.is_empty() { "all".to_owned() } else { key.models.join(", ") }
}

/// Formats limits compactly, such as `60 rpm, 200k tpm`.
pub(super) fn limits(limits: Limits) -> String {
    let named = [
        (limits.rpm, "rpm"),
        (limits.tpm, "tpm"),
        (limits.concurrency, "at once"),
        (limits.monthly_tokens, "a month"),
    ];
    let known = named.into_iter().filter_map(|(limit, name)| {
        limit.map(|limit| format!("{} {name}", approximate_count(limit)))
    });
    let text = known.collect::<Vec<_>>().join(", ");
    if text.is_empty() { "none".to_owned() } else { text }
}

/// Formats the limits of a key, the spending cap first.
fn limits_of(key: &Key) -> String {
    let cap = key.spend_cap_usd.as_deref().map(|cap| format!("{} in all", dollars(Some(cap))));
    match cap {
        None => limits(key.limits),
        Some(cap) if key.limits == Limits::default() => cap,
        Some(cap) => format!("{cap}, {}", limits(key.limits)),
    }
}

/// Returns the treatment of requests above the limits.
pub(super) fn above(limits: Limits) -> &'static str {
    if limits.observe { "served and noted" } else { "refused" }
}

/// Returns how much of a limit of the key is used, as far as that is known.
fn limit_use(model: &Model, key: &Key, kind: LimitKind) -> Option<Span<'static>> {
    let limits = model.limits_of(&key.account).iter();
    let mut own = limits.filter(|it| it.scope == Some(LimitScope::Key) && it.subject == key.id);
    let limit = own.find(|it| it.kind == Some(kind))?;
    Some(used_up(model, limit))
}

/// Returns how much of a limit is used, in colour if nothing is left.
pub(super) fn used_up(model: &Model, limit: &LimitUse) -> Span<'static> {
    let text = limit_text(model, limit);
    if limit.used < limit.limit {
        return plain(format!("{text} used"));
    }
    Span::styled(format!("{text}: used up"), model.theme.bad())
}

fn detail<'a>(model: &'a Model, key: &'a Key) -> Detail<'a> {
    let time = |time| plain(full_time(time, &model.zone));
    let cap = key.spend_cap_usd.as_deref();
    let cap = cap.map_or_else(|| "none".to_owned(), |cap| dollars(Some(cap)));
    let use_of = |kind, text| limit_use(model, key, kind).unwrap_or_else(|| plain(text));
    let mut detail = Detail::default();
    detail
        .row("label", Span::styled(key.label.as_str(), model.theme.strong()))
        .row("id", plain(key.id.as_str()))
        .row("account", plain(key.account.as_str()))
        .row("state", state(model, key))
        .optional_row("successor", key.successor.as_deref().map(plain));
    detail
        .heading("Limits of its own")
        .row("requests/min", use_of(LimitKind::Requests, limit(key.limits.rpm)))
        .row("tokens/min", use_of(LimitKind::Tokens, limit(key.limits.tpm)))
        .row("concurrency", use_of(LimitKind::Concurrency, limit(key.limits.concurrency)))
        .row("tokens/month", use_of(LimitKind::MonthlyTokens, limit(key.limits.monthly_tokens)))
        .row("above them", plain(above(key.limits)))
        .row("spending cap", use_of(LimitKind::Spending, cap))
        .row("models", plain(models(key)));
    detail
        .heading("Times")
        .row("created", time(key.created_at))
        .row("last used", plain(used(model, key)))
        .optional_row("ends", key.expires_at.map(|end| time(Some(end))))
        .optional_row("revoked", key.revoked_at.map(|end| time(Some(end))));
    detail.heading("Use").text(plain(format!("base URL  {}", model.base_url.as_str())));
    detail.text(Span::styled(
        "The secret of a key is shown only when it is created.",
        model.theme.faint(),
    ));
    detail
}
