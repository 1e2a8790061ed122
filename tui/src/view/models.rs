//! The models screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Span;

use crate::model::Model;
use crate::model::catalogue::CatalogueModel;
use crate::model::upstreams::HealthStatus;

use super::keys::limits;
use super::panes::Panes;
use super::upstreams::health_status;
use super::widget::chart::trend;
use super::widget::detail::{Detail, plain};
use super::widget::table::Column;
use super::widget::text::{UNKNOWN, approximate_count, count, dollars, duration};

const COLUMNS: &[Column] = &[
    Column::text("model", 18, 3, 0),
    HEALTH,
    Column::number("context", 7, 1),
    Column::number("output", 7, 4),
    Column::decimal("in $/M", 8, 0),
    Column::decimal("cached", 8, 5),
    Column::decimal("out $/M", 8, 0),
    Column::text("recent", 8, 0, 4),
    Column::number("p50", 6, 5),
    Column::number("p99", 6, 5),
    Column::text("abilities", 16, 2, 2),
    Column::text("limits", 16, 1, 3),
];

/// The health of the deployments; only operators see it.
const HEALTH: Column = Column::text("health", 8, 0, 1);

/// Draws the list of models.
pub(super) fn render(model: &Model, buffer: &mut Buffer, area: Rect) {
    let operator = model.sees_all();
    let shown = |it: &&Column| operator || it.title != HEALTH.title;
    let columns: Vec<_> = COLUMNS.iter().filter(shown).copied().collect();
    let panes = Panes {
        title: "Models",
        list: &model.data.models,
        columns: &columns,
        empty_text: if operator {
            "no models yet: `n` adds one"
        } else {
            "no models for this plan yet"
        },
    };
    panes.render(model, |it| cells(model, it), |it| detail(model, it), buffer, area);
}

fn cells<'a>(model: &Model, entry: &'a CatalogueModel) -> Vec<Span<'a>> {
    let tokens =
        |count: Option<u64>| plain(count.map_or_else(|| UNKNOWN.to_owned(), approximate_count));
    let price = |price: &Option<String>| plain(dollars(price.as_deref()));
    let mut cells = vec![plain(entry.id.as_str())];
    if model.sees_all() {
        cells.push(health_status(model, entry.health_status(&model.data.upstreams.entries)));
    }
    cells.extend([
        tokens(entry.context),
        tokens(entry.max_output),
        price(&entry.price.input_usd),
        price(&entry.price.cached_usd),
        price(&entry.price.output_usd),
        trend(entry.recent.as_ref()),
        plain(duration(entry.recent.as_ref().and_then(|it| it.p50_ms))),
        plain(duration(entry.recent.as_ref().and_then(|it| it.p99_ms))),
        plain(abilities(entry)),
        plain(limits(entry.limits)),
    ]);
    cells
}

fn abilities(entry: &CatalogueModel) -> String {
    if entry.abilities.is_empty() {
        return UNKNOWN.to_owned();
    }
    entry.abilities.iter().map(|it| it.name()).collect::<Vec<_>>().join(", ")
}

fn detail<'a>(model: &'a Model, entry: &'a CatalogueModel) -> Detail<'a> {
    let theme = model.theme;
    let mut detail = Detail::default();
    detail.row("model", Span::styled(entry.id.as_str(), theme.strong()));
    if !entry.display_name.is_empty() {
        detail.row("name", plain(entry.display_name.as_str()));
    }
    if !entry.aliases.is_empty() {
        detail.row("also called", plain(entry.aliases.join(", ")));
    }
    let price = &entry.price;
    let dollars = |price: &Option<String>| dollars(price.as_deref());
    let prices = format!(
        "{} input, {} cached, {} output",
        dollars(&price.input_usd),
        dollars(&price.cached_usd),
        dollars(&price.output_usd)
    );
    detail
        .row("abilities", plain(abilities(entry)))
        .row("context", plain(count(entry.context)))
        .row("max output", plain(count(entry.max_output)))
        .row("per million", plain(prices))
        .row("limits", plain(limits(entry.limits)));
    if !entry.inputs.is_empty() {
        let inputs: Vec<_> = entry.inputs.iter().map(|it| it.name()).collect();
        detail.row("inputs", plain(inputs.join(", ")));
    }
    if !entry.description.is_empty() {
        detail.gap().text(plain(entry.description.as_str()));
    }
    if !entry.deployments.is_empty() {
        detail.heading("Served by");
        for it in &entry.deployments {
            let health = it.health_status(&model.data.upstreams.entries);
            let health = health.map_or(UNKNOWN, HealthStatus::name);
            let text = format!(
                "{} as {} (weight {}, priority {}): {health}",
                it.upstream, it.model, it.weight, it.priority
            );
            detail.text(plain(text));
        }
    }
    detail.heading("Try it: `y` copies this");
    for line in entry.curl(model.base_url.as_str()) {
        detail.text(plain(line));
    }
    detail.heading("Coding agent: `a` copies this");
    for line in entry.agent_config(model.base_url.as_str()) {
        detail.text(plain(line));
    }
    detail
}
