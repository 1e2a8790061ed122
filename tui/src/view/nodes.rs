//! The nodes screen, for operators.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Span;

use crate::model::Model;
use crate::model::fetched::FetchState;
use crate::model::nodes::{Node, NodeState};

use super::panes::Panes;
use super::widget::detail::{Detail, plain};
use super::widget::frame::frame;
use super::widget::status::empty;
use super::widget::table::Column;
use super::widget::text::{UNKNOWN, ago, count, duration, full_time, short_count};

const TITLE: &str = "Nodes";
/// The note of a gateway that has no nodes.
const ALONE: &str = "this gateway has a database of its own: several gateways share one in PostgreSQL, \
    see the setting `store`";

const COLUMNS: &[Column] = &[
    Column::text("name", 12, 2, 0),
    Column::text("state", 9, 0, 0),
    Column::number("silent", 6, 0),
    Column::number("in flight", 9, 1),
    Column::number("per s", 7, 1),
    Column::number("waiting", 7, 1),
    Column::text("since", 9, 0, 2),
    Column::text("version", 9, 0, 4),
    Column::text("address", 15, 2, 3),
];

/// Draws the list of nodes.
pub(super) fn render(model: &Model, buffer: &mut Buffer, area: Rect) {
    let list = &model.data.nodes;
    if list.fetch == FetchState::Unsupported {
        let inside = frame(model.theme, TITLE, buffer, area);
        return empty(model.theme, &FetchState::Ready, ALONE, buffer, inside);
    }
    let panes = Panes { title: TITLE, list, columns: COLUMNS, empty_text: "no nodes" };
    panes.render(model, |it| cells(model, it), |it| detail(model, it), buffer, area);
}

fn cells<'a>(model: &Model, node: &'a Node) -> Vec<Span<'a>> {
    vec![
        plain(node.name.as_str()),
        state(model, node),
        plain(silence(node)),
        plain(short_count(Some(node.in_flight))),
        plain(short_count(Some(node.requests_per_second))),
        plain(short_count(Some(node.waiting_records))),
        plain(ago(node.started_at, model.now)),
        plain(node.version.as_str()),
        plain(node.address.as_str()),
    ]
}

fn state(model: &Model, node: &Node) -> Span<'static> {
    let theme = model.theme;
    let style = match node.state {
        Some(NodeState::Serving) => theme.good(),
        Some(NodeState::Draining) => theme.warning(),
        Some(NodeState::Silent) => theme.bad(),
        Some(NodeState::Stopped) | None => theme.faint(),
    };
    Span::styled(node.state.map_or(UNKNOWN, NodeState::name), style)
}

fn detail<'a>(model: &'a Model, node: &'a Node) -> Detail<'a> {
    let mut detail = Detail::default();
    detail
        .row("name", Span::styled(node.name.as_str(), model.theme.strong()))
        .row("state", state(model, node))
        .row("last heard of", plain(format!("{} ago", silence(node))))
        .row("address", plain(node.address.as_str()))
        .row("version", plain(node.version.as_str()))
        .row("since", plain(full_time(node.started_at, &model.zone)))
        .row("starts", plain(count(Some(node.epoch))));
    detail
        .heading("At its last heartbeat")
        .row("in flight", plain(count(Some(node.in_flight))))
        .row("requests/s", plain(count(Some(node.requests_per_second))))
        .row("waiting", plain(format!("{} records", count(Some(node.waiting_records)))));
    detail
}

/// Formats the time since the last heartbeat.
#[expect(clippy::cast_precision_loss, reason = "it is rounded to a tenth of a second")]
fn silence(node: &Node) -> String {
    duration(Some(node.silent_ms as f64))
}
