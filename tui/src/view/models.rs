//! The catalogue.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Span;

use crate::model::Model;
use crate::model::catalogue::Offer;
use crate::model::upstreams::Condition;

use super::keys::limits;
use super::panes::Panes;
use super::upstreams::condition;
use super::widget::detail::{Detail, plain};
use super::widget::table::Column;
use super::widget::text::{UNKNOWN, count, dollars, roughly};

const COLUMNS: &[Column] = &[
    Column::text("model", 18, 3, 0),
    HEALTH,
    Column::number("context", 7, 1),
    Column::number("output", 7, 4),
    Column::number("in $/M", 8, 0),
    Column::number("cached", 8, 5),
    Column::number("out $/M", 8, 0),
    Column::text("abilities", 16, 2, 2),
    Column::text("limits", 16, 1, 3),
];

/// How it does where it is served, which is for operators to know.
const HEALTH: Column = Column::text("health", 8, 0, 1);

/// Draws the list of models.
pub(super) fn render(model: &Model, buffer: &mut Buffer, area: Rect) {
    let operator = model.is_operator();
    let shown = |it: &&Column| operator || it.head != HEALTH.head;
    let columns: Vec<_> = COLUMNS.iter().filter(shown).copied().collect();
    let panes = Panes {
        title: "Models",
        list: &model.data.offers,
        columns: &columns,
        nothing: if operator {
            "no models yet: `n` adds one"
        } else {
            "no models for this plan yet"
        },
    };
    panes.render(model, |it| cells(model, it), |it| all_of(model, it), buffer, area);
}

fn cells<'a>(model: &Model, offer: &'a Offer) -> Vec<Span<'a>> {
    let tokens = |count: Option<u64>| plain(count.map_or_else(|| UNKNOWN.to_owned(), roughly));
    let price = |price: &Option<String>| plain(dollars(price.as_deref()));
    let mut cells = vec![plain(offer.id.as_str())];
    if model.is_operator() {
        cells.push(condition(model, offer.condition(&model.data.upstreams.entries)));
    }
    cells.extend([
        tokens(offer.context),
        tokens(offer.max_output),
        price(&offer.price.input_usd),
        price(&offer.price.cached_usd),
        price(&offer.price.output_usd),
        plain(abilities(offer)),
        plain(limits(offer.limits)),
    ]);
    cells
}

fn abilities(offer: &Offer) -> String {
    if offer.abilities.is_empty() {
        return UNKNOWN.to_owned();
    }
    offer.abilities.iter().map(|it| it.name()).collect::<Vec<_>>().join(", ")
}

fn all_of<'a>(model: &'a Model, offer: &'a Offer) -> Detail<'a> {
    let theme = model.theme;
    let mut detail = Detail::default();
    detail.row("model", Span::styled(offer.id.as_str(), theme.strong()));
    if !offer.display_name.is_empty() {
        detail.row("name", plain(offer.display_name.as_str()));
    }
    if !offer.aliases.is_empty() {
        detail.row("also called", plain(offer.aliases.join(", ")));
    }
    let price = &offer.price;
    let dollars = |price: &Option<String>| dollars(price.as_deref());
    let prices = format!(
        "{} input, {} cached, {} output",
        dollars(&price.input_usd),
        dollars(&price.cached_usd),
        dollars(&price.output_usd)
    );
    detail
        .row("abilities", plain(abilities(offer)))
        .row("context", plain(count(offer.context)))
        .row("max output", plain(count(offer.max_output)))
        .row("per million", plain(prices))
        .row("limits", plain(limits(offer.limits)));
    if !offer.inputs.is_empty() {
        let inputs: Vec<_> = offer.inputs.iter().map(|it| it.name()).collect();
        detail.row("inputs", plain(inputs.join(", ")));
    }
    if !offer.description.is_empty() {
        detail.gap().text(plain(offer.description.as_str()));
    }
    if !offer.deployments.is_empty() {
        detail.heading("Served by");
        for it in &offer.deployments {
            let health = it.condition(&model.data.upstreams.entries);
            let health = health.map_or(UNKNOWN, Condition::name);
            let text = format!(
                "{} as {} (weight {}, priority {}): {health}",
                it.upstream, it.model, it.weight, it.priority
            );
            detail.text(plain(text));
        }
    }
    detail.heading("Try it: `y` copies this");
    for line in offer.curl(model.base_url.as_str()) {
        detail.text(plain(line));
    }
    detail.heading("Coding agent: `a` copies this");
    for line in offer.agent_config(model.base_url.as_str()) {
        detail.text(plain(line));
    }
    detail
}
