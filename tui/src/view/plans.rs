//! The plans screen, for operators.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Span;

use crate::model::Model;
use crate::model::plans::Plan;

use super::keys::above;
use super::panes::Panes;
use super::widget::detail::{Detail, plain};
use super::widget::table::Column;
use super::widget::text::{dollars, limit};

const COLUMNS: &[Column] = &[
    Column::text("name", 12, 1, 0),
    Column::decimal("trial credit", 12, 0),
    Column::number("requests/min", 12, 0),
    Column::number("tokens/min", 12, 1),
    Column::number("concurrency", 11, 2),
    Column::number("tokens/month", 12, 4),
    Column::text("models", 10, 2, 3),
];

/// Draws the list of plans.
pub(super) fn render(model: &Model, buffer: &mut Buffer, area: Rect) {
    let panes = Panes {
        title: "Plans",
        list: &model.data.plans,
        columns: COLUMNS,
        empty_text: "no plans yet: `n` makes one",
    };
    panes.render(model, cells, |plan| detail(model, plan), buffer, area);
}

fn cells(plan: &Plan) -> Vec<Span<'_>> {
    vec![
        plain(plan.name.as_str()),
        plain(dollars(plan.trial_credit_usd.as_deref())),
        plain(limit(plan.limits.rpm)),
        plain(limit(plan.limits.tpm)),
        plain(limit(plan.limits.concurrency)),
        plain(limit(plan.limits.monthly_tokens)),
        plain(models(plan)),
    ]
}

fn models(plan: &Plan) -> String {
    if plan.models.is_empty() { "all".to_owned() } else { plan.models.join(", ") }
}

fn detail<'a>(model: &'a Model, plan: &'a Plan) -> Detail<'a> {
    let mut detail = Detail::default();
    detail
        .row("name", Span::styled(plan.name.as_str(), model.theme.strong()))
        .row("trial credit", plain(dollars(plan.trial_credit_usd.as_deref())))
        .row("requests/min", plain(limit(plan.limits.rpm)))
        .row("tokens/min", plain(limit(plan.limits.tpm)))
        .row("concurrency", plain(limit(plan.limits.concurrency)))
        .row("tokens/month", plain(limit(plan.limits.monthly_tokens)))
        .row("keys", plain(limit(plan.max_keys.map(Into::into))))
        .row("above them", plain(above(plan.limits)))
        .row("models", plain(models(plan)));
    detail
}
