//! Goes from a row to what belongs to it, and back.

use crate::effect::Effect;
use crate::model::overlay::{Choice, Overlay};
use crate::model::trail::{Related, Visit};
use crate::model::{Action, Model, Screen};

use super::list;

/// Opens what belongs to the selected row, or a choice if there are several things.
pub(super) fn enter(model: &mut Model) {
    let name = match model.screen {
        // These have no rows.
        Screen::Overview | Screen::Live => Some("errors".to_owned()),
        _ => list::selected_id(model).map(|id| row_name(model, id)),
    };
    let Some(name) = name else { return };
    match Related::of(model.screen) {
        [] => {}
        [only] => open(model, name, *only),
        options => {
            model.overlay = Some(Overlay::Choose(Choice { name, options, selected: 0 }));
        }
    }
}

/// Handles an action in the choice.
pub(super) fn choose(model: &mut Model, mut choice: Choice, action: Action) -> Vec<Effect> {
    match action {
        Action::Submit => {
            if let Some(related) = choice.options.get(choice.selected) {
                open(model, choice.name, *related);
            }
            return Vec::new();
        }
        Action::Back => return Vec::new(),
        Action::Move(steps) => {
            let last = choice.options.len().saturating_sub(1);
            choice.selected = choice.selected.saturating_add_signed(steps).min(last);
        }
        _ => {}
    }
    model.overlay = Some(Overlay::Choose(choice));
    Vec::new()
}

/// Goes back by one step if nothing but that step restricts the open screen. Returns whether there
/// was a step.
pub(super) fn back(model: &mut Model) -> bool {
    let Some(visit) = model.trail.last().cloned() else { return false };
    if list::filter(model) == visit.filter {
        undo(model);
        model.screen = visit.from;
        model.data.log.end_sorting();
    } else {
        list::set_filter(model, &visit.filter);
    }
    true
}

/// Undoes all steps, because another screen is opened.
pub(super) fn leave(model: &mut Model) {
    while !model.trail.is_empty() {
        undo(model);
    }
}

/// Undoes the last step, except for the open screen.
fn undo(model: &mut Model) {
    let Some(visit) = model.trail.pop() else { return };
    let screen = std::mem::replace(&mut model.screen, visit.to);
    list::set_filter(model, &visit.filter_before);
    model.screen = screen;
    restrict(model, &visit);
}

/// Drops entries of another subject: those of this one are fetched. Filter and order stay.
fn restrict(model: &mut Model, visit: &Visit) {
    if visit.subject.is_some() {
        model.data.ledger.clear();
        model.data.audit.clear();
        model.data.people.clear();
    }
}

fn open(model: &mut Model, name: String, related: Related) {
    let Some(filter) = filter(model, &name, related) else {
        model.set_problem(match related {
            Related::Charged => "this entry is not the charge of a request".to_owned(),
            _ => format!("no model is served by `{name}`"),
        });
        return;
    };
    let (from, to) = (model.screen, related.screen());
    let has_subject = matches!(related, Related::Ledger | Related::Audit | Related::People);
    let subject = has_subject.then(|| name.clone());
    model.screen = to;
    model.is_detail_open = false;
    model.detail_scroll = 0;
    let filter_before = list::filter(model).to_owned();
    list::set_filter(model, &filter);
    let visit = Visit { from, name, to, filter, filter_before, subject };
    restrict(model, &visit);
    model.trail.push(visit);
}

/// Opens the usage screen with the requests that match these terms and its filter so far.
pub(super) fn open_requests(model: &mut Model, name: String, terms: &str) {
    let (from, to) = (model.screen, Screen::Usage);
    model.screen = to;
    model.is_detail_open = false;
    model.detail_scroll = 0;
    let filter_before = list::filter(model).to_owned();
    // The time range of the filter so far contains that of the terms.
    let is_time = |it: &&str| it.starts_with("since:") || it.starts_with("until:");
    let kept = filter_before.split_whitespace().filter(|it| !is_time(it));
    let filter: Vec<_> = kept.chain([terms]).collect();
    let filter = filter.join(" ");
    list::set_filter(model, &filter);
    model.trail.push(Visit { from, name, to, filter, filter_before, subject: None });
}

/// Returns the filter of the screen that shows what belongs to the row; `None` if nothing does.
fn filter(model: &Model, name: &str, related: Related) -> Option<String> {
    let term = |key: &str, value: &str| Some(format!("{key}:{value}"));
    match (related, model.screen) {
        (Related::Requests, Screen::Accounts) | (Related::Keys, _) => term("account", name),
        (Related::Requests, Screen::Keys) => term("key", list::selected_id(model).unwrap_or(name)),
        (Related::Requests, _) => term("model", name),
        (Related::Charged, _) => model.data.ledger.current()?.request_filter(),
        (Related::Failures, _) => {
            let models = model.data.models.entries.iter();
            let served = models.filter(|it| it.deployments.iter().any(|it| it.upstream == name));
            let ids: Vec<_> = served.map(|it| it.id.as_str()).collect();
            (!ids.is_empty()).then(|| format!("status:failed model:{}", ids.join(",")))
        }
        (Related::Errors, _) => term("status", "failed,rejected,interrupted since:1h"),
        (Related::Accounts, _) => term("plan", name),
        (Related::Ledger | Related::Audit | Related::People, _) => Some(String::new()),
    }
}

/// Returns the name of the row with this id. Keys have labels, accounts names.
fn row_name(model: &Model, id: &str) -> String {
    let data = &model.data;
    let name = match model.screen {
        Screen::Keys => data.keys.current().map(|key| key.label.as_str()),
        Screen::Accounts => data.accounts.current().map(|account| account.name.as_str()),
        Screen::Ledger => Some("charge"),
        _ => None,
    };
    name.unwrap_or(id).to_owned()
}
