//! The accounts screen, for operators.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Span;

use crate::model::Model;
use crate::model::accounts::{Account, AccountStatus, Role};

use super::keys::used_up;
use super::overview::limit_name;
use super::panes::Panes;
use super::widget::chart::trend;
use super::widget::detail::{Detail, plain};
use super::widget::table::Column;
use super::widget::text::{UNKNOWN, ago, dollars, duration, full_time};

const COLUMNS: &[Column] = &[
    Column::text("name", 16, 2, 0),
    Column::text("role", 8, 0, 2),
    Column::text("state", 9, 0, 0),
    Column::text("plan", 10, 1, 1),
    Column::decimal("balance", 16, 0),
    Column::text("registered", 10, 0, 3),
    Column::text("recent", 8, 0, 4),
    Column::number("p50", 6, 4),
    Column::number("p99", 6, 4),
];

/// Draws the list of accounts.
pub(super) fn render(model: &Model, buffer: &mut Buffer, area: Rect) {
    let panes = Panes {
        title: "Accounts",
        list: &model.data.accounts,
        columns: COLUMNS,
        empty_text: "no accounts yet: `ctl register` makes one",
    };
    panes.render(model, |it| cells(model, it), |it| detail(model, it), buffer, area);
}

fn cells<'a>(model: &Model, account: &'a Account) -> Vec<Span<'a>> {
    vec![
        plain(account.name.as_str()),
        plain(role(account)),
        state(model, account),
        plain(account.plan.as_deref().unwrap_or(UNKNOWN)),
        plain(dollars(account.balance_usd.as_deref())),
        plain(ago(account.created_at, model.now)),
        trend(account.recent.as_ref()),
        plain(duration(account.recent.as_ref().and_then(|it| it.p50_ms))),
        plain(duration(account.recent.as_ref().and_then(|it| it.p99_ms))),
    ]
}

fn role(account: &Account) -> &'static str {
    account.role.map_or(UNKNOWN, Role::as_str)
}

fn state(model: &Model, account: &Account) -> Span<'static> {
    let style = match account.status {
        AccountStatus::Active => model.theme.good(),
        AccountStatus::Suspended => model.theme.bad(),
        AccountStatus::Closed | AccountStatus::Deleted => model.theme.faint(),
    };
    Span::styled(account.status.as_str(), style)
}

/// Returns why the account is suspended, or where to look for that.
fn reason<'a>(model: &'a Model, account: &Account) -> &'a str {
    match &model.data.suspension {
        Some((name, Some(reason))) if *name == account.name => reason,
        _ => "in its audit log: →",
    }
}

fn detail<'a>(model: &'a Model, account: &'a Account) -> Detail<'a> {
    let mut detail = Detail::default();
    let is_suspended = account.status == AccountStatus::Suspended;
    detail
        .row("name", Span::styled(account.name.as_str(), model.theme.strong()))
        .row("id", plain(account.id.as_str()))
        .row("role", plain(role(account)))
        .row("state", state(model, account))
        .optional_row("reason", is_suspended.then(|| plain(reason(model, account))))
        .row("plan", plain(account.plan.as_deref().unwrap_or(UNKNOWN)))
        .row("balance", plain(dollars(account.balance_usd.as_deref())))
        .row("registered", plain(full_time(account.created_at, &model.zone)));
    let limits = model.limits_of(&account.name);
    if !limits.is_empty() {
        detail.heading("Used of its limits");
    }
    for limit in limits {
        let used = used_up(model, limit);
        let text = format!("{}: {}", limit_name(model, limit), used.content);
        detail.text(Span::styled(text, used.style));
    }
    detail
}
