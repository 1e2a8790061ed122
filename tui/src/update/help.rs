//! Actions in the help: searching, and running what a row describes.

use crate::effect::Effect;
use crate::keymap::help::help;
use crate::model::choices::moved;
use crate::model::overlay::{Help, Overlay};
use crate::model::{Action, Model};

/// Searches and moves in the help, runs the selected row, or closes the help.
pub(super) fn act(model: &mut Model, mut open: Help, action: Action) -> Vec<Effect> {
    let is_above_form = open.form.is_some();
    let rows = help(model, &open);
    match action {
        Action::Back if open.is_typing || !open.input.value().is_empty() => {
            open = Help { form: open.form, ..Help::default() };
        }
        Action::Back => {
            model.overlay = open.form.map(Overlay::Form);
            return Vec::new();
        }
        Action::Submit => {
            let row = rows.get(open.selected);
            match row.map(|row| (row.is_here, row.screen)) {
                Some((true, _)) => {
                    model.overlay = open.form.map(Overlay::Form);
                    return super::act(model, rows[open.selected].binding.action);
                }
                Some((false, Some(_))) if is_above_form => {
                    model.set_problem("that leaves the form: close the help and the form first");
                }
                Some((false, Some(screen))) => return super::act(model, Action::Open(screen)),
                Some((false, None)) => {
                    let place = &rows[open.selected].place;
                    model.set_problem(format!("this key works only in: {place}"));
                }
                None => {}
            }
        }
        Action::Filter => open.is_typing = true,
        Action::Move(steps) => open.selected = moved(open.selected, steps, rows.len()),
        Action::Page(pages) => {
            let steps = pages.saturating_mul(model.page());
            open.selected = moved(open.selected, steps, rows.len());
        }
        Action::First => open.selected = 0,
        Action::Last => open.selected = rows.len().saturating_sub(1),
        Action::Type(request) => {
            open.is_typing = true;
            open.input.handle(request);
            open.selected = 0;
        }
        _ => {}
    }
    model.overlay = Some(Overlay::Help(open));
    Vec::new()
}
