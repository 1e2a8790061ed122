//! The screen with the people of an account.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Span;

use crate::model::people::{Person, PersonRole};
use crate::model::{Action, Model};

use super::panes::Panes;
use super::widget::detail::{Detail, plain};
use super::widget::table::Column;
use super::widget::text::{UNKNOWN, date_and_time, full_time};

const COLUMNS: &[Column] = &[
    Column::text("name", 20, 2, 0),
    Column::text("role", 8, 0, 0),
    Column::text("state", 8, 0, 0),
    Column::text("added", 19, 1, 1),
];

/// Draws the list of people.
pub(super) fn render(model: &Model, buffer: &mut Buffer, area: Rect) {
    let empty_text = if !model.can_have_people() {
        "only accounts with the role `member` can have people besides their owner"
    } else if model.allows(Action::New) {
        "nobody but the owner: `n` adds a person, who signs in to the account"
    } else {
        "nobody but the owner"
    };
    let panes = Panes { title: "People", list: &model.data.people, columns: COLUMNS, empty_text };
    panes.render(model, |it| cells(model, it), |it| detail(model, it), buffer, area);
}

fn cells<'a>(model: &Model, person: &'a Person) -> Vec<Span<'a>> {
    vec![
        plain(person.name.as_str()),
        plain(person.role.map_or(UNKNOWN, PersonRole::as_str)),
        state(model, person),
        plain(date_and_time(person.created_at, &model.zone)),
    ]
}

fn state(model: &Model, person: &Person) -> Span<'static> {
    let style = if person.is_removed { model.theme.faint() } else { model.theme.good() };
    Span::styled(person.state(), style)
}

fn detail<'a>(model: &'a Model, person: &'a Person) -> Detail<'a> {
    let may = match person.role {
        Some(PersonRole::Member) => "read everything, create keys, and change those",
        Some(PersonRole::Admin) => "change all keys, and manage the people",
        None => UNKNOWN,
    };
    let mut detail = Detail::default();
    detail
        .row("name", Span::styled(person.name.as_str(), model.theme.strong()))
        .row("role", plain(person.role.map_or(UNKNOWN, PersonRole::as_str)))
        .row("may", plain(may))
        .row("state", state(model, person))
        .row("added", plain(full_time(person.created_at, &model.zone)))
        .row("id", plain(person.id.as_str()));
    detail
}
