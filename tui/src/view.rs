//! Draws the model into terminal cells. Pure: equal models give equal cells.
//!
//! [`render`] draws the header, the footer, a notice and the open screen, whose code is in the file of its
//! name; `overlay` draws overlays. [`hit_test`] maps a mouse position back to an action. Control
//! characters in external texts never reach the terminal: ratatui drops them.

mod accounts;
mod audit;
mod chart;
mod choices;
mod filter;
mod help;
mod in_flight;
mod invites;
mod keys;
mod ledger;
mod live;
mod live_now;
mod models;
mod nodes;
mod operations;
mod overlay;
mod overview;
mod panes;
mod people;
mod picker;
mod plans;
mod route;
mod sessions;
mod shell;
mod sign_in;
mod trial;
mod upstreams;
mod usage;
pub mod widget;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Position, Rect};
use ratatui::text::Line;
use ratatui::widgets::Widget;

use crate::model::{Action, Model, Screen};

/// The minimum terminal size as columns and rows. Smaller terminals show only a message.
pub const MIN_SIZE: (u16, u16) = (60, 16);

/// Draws `model` into `area`.
pub fn render(model: &Model, buffer: &mut Buffer, area: Rect) {
    let (width, height) = MIN_SIZE;
    if area.width < width || area.height < height {
        let text = format!("the terminal is too small: {width}×{height} needed");
        Line::raw(text).render(area, buffer);
        return;
    }
    buffer.set_style(area, model.theme.base());
    let [top, body, bottom] = split(model, area);
    shell::header(model, buffer, top);
    match model.screen {
        Screen::SignIn => sign_in::render(model, buffer, body),
        Screen::Overview => overview::render(model, buffer, body),
        Screen::Keys => keys::render(model, buffer, body),
        Screen::Models => models::render(model, buffer, body),
        Screen::Usage => usage::render(model, buffer, body),
        Screen::Live => live::render(model, buffer, body),
        Screen::Accounts => accounts::render(model, buffer, body),
        Screen::Upstreams => upstreams::render(model, buffer, body),
        Screen::Plans => plans::render(model, buffer, body),
        Screen::Audit => audit::render(model, buffer, body),
        Screen::Nodes => nodes::render(model, buffer, body),
        Screen::Ledger => ledger::render(model, buffer, body),
        Screen::Invites => invites::render(model, buffer, body),
        Screen::People => people::render(model, buffer, body),
        Screen::Sessions => sessions::render(model, buffer, body),
        Screen::InFlight => in_flight::render(model, buffer, body),
        Screen::Operations => operations::render(model, buffer, body),
    }
    if model.is_stale() {
        buffer.set_style(body, model.theme.faint());
    }
    shell::footer(model, buffer, bottom);
    if model.overlay.is_none() {
        shell::notice(model, buffer, body);
    }
    overlay::render(model, buffer, body, bottom);
}

/// Returns the action of a click at `position`, if any.
pub fn hit_test(model: &Model, area: Rect, position: Position) -> Option<Action> {
    let [top, body, _] = split(model, area);
    if model.overlay.is_some() {
        return None;
    }
    if top.contains(position) {
        return shell::tab_at(model, top, position).map(Action::Open);
    }
    let (list, selected, count) = match model.screen {
        Screen::Keys => panes::list_area(model, &model.data.keys, body),
        Screen::Models => panes::list_area(model, &model.data.models, body),
        Screen::Usage => usage::list_area(model, body),
        Screen::Accounts => panes::list_area(model, &model.data.accounts, body),
        Screen::Upstreams => panes::list_area(model, &model.data.upstreams, body),
        Screen::Plans => panes::list_area(model, &model.data.plans, body),
        Screen::Audit => panes::list_area(model, &model.data.audit, body),
        Screen::Nodes => panes::list_area(model, &model.data.nodes, body),
        Screen::Ledger => panes::list_area(model, &model.data.ledger, body),
        Screen::Invites => panes::list_area(model, &model.data.invites, body),
        Screen::People => panes::list_area(model, &model.data.people, body),
        Screen::Sessions => panes::list_area(model, &model.data.sessions, body),
        Screen::InFlight => panes::list_area(model, &model.data.in_flight, body),
        Screen::SignIn | Screen::Overview | Screen::Live | Screen::Operations => return None,
    };
    let rows = widget::table::body_area(widget::frame::inner_area(list))?;
    let line = usize::from(position.y.checked_sub(rows.y)?);
    let row = widget::table::first_visible_row(selected, count, rows.height) + line;
    (rows.contains(position) && row < count).then_some(Action::Select(row))
}

/// Returns the areas of the header, the screen and the footer.
fn split(model: &Model, area: Rect) -> [Rect; 3] {
    let header = Constraint::Length(shell::height(model));
    Layout::vertical([header, Constraint::Fill(1), Constraint::Length(1)]).areas(area)
}
