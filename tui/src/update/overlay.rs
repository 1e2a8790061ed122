//! Actions in overlays.

use secrecy::{ExposeSecret, SecretString};
use tui_input::InputRequest;

use crate::effect::Effect;
use crate::model::change::SecretKind;
use crate::model::command_line::command_line;
use crate::model::overlay::{Confirm, Help, Overlay, Secret, SecretState};
use crate::model::{Action, Model};

use super::{chart, choices, filter, form, help, palette, route, trail, trial};

/// Dispatches `action` to the open overlay.
pub(super) fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    // Take the overlay out, so that its actions can change the model. Each branch puts it back
    // unless it closes it.
    let Some(overlay) = model.overlay.take() else { return Vec::new() };
    match overlay {
        Overlay::Help(open) => help::act(model, open, action),
        Overlay::Palette(typed) => palette::act(model, typed, action),
        Overlay::Filter(input) => filter::act(model, input, action),
        Overlay::Chart(view) => chart::act(model, view, action),
        Overlay::Columns(choice) => choices::columns(model, choice, action),
        Overlay::Values(choice) => choices::values(model, choice, action),
        Overlay::Themes(choice) => choices::themes(model, choice, action),
        Overlay::Choose(choice) => trail::choose(model, choice, action),
        Overlay::Form(form) if action == Action::Help && !form.is_submitting => {
            model.overlay = Some(Overlay::Help(Help { form: Some(form), ..Help::default() }));
            Vec::new()
        }
        Overlay::Form(open) => form::act(model, open, action),
        Overlay::Confirm(question) => confirm(model, question, action),
        Overlay::Secret(secret) if action == Action::Try && secret.kind == SecretKind::Key => {
            trial::open_with_key(model, secret);
            Vec::new()
        }
        Overlay::Secret(secret) => show(model, secret, action),
        Overlay::Route(view) => route::act(model, view, action),
        Overlay::Trial(trial) => trial::act(model, trial, action),
    }
}

/// Enters pasted text as if typed. Line breaks and tabs between words become spaces, so that words
/// stay apart; those at the ends and other control characters are dropped.
pub(super) fn paste(model: &mut Model, text: &SecretString) {
    let is_break = |it: char| matches!(it, '\n' | '\r' | '\t');
    let text = text.expose_secret().trim_matches(is_break);
    let mut after_break = false;
    for letter in text.chars() {
        let letter = if is_break(letter) { ' ' } else { letter };
        // `\r\n` is one line break.
        let repeats = letter == ' ' && std::mem::replace(&mut after_break, letter == ' ');
        after_break = letter == ' ';
        if !letter.is_control() && !repeats {
            super::act(model, Action::Type(InputRequest::InsertChar(letter)));
        }
    }
}

fn confirm(model: &mut Model, question: Confirm, action: Action) -> Vec<Effect> {
    match action {
        Action::Confirm => vec![Effect::Change(question.change)],
        Action::CopyCommand => {
            let command = command_line(&question.change);
            model.overlay = Some(Overlay::Confirm(question));
            let Some(command) = command else {
                model.set_problem("ctl has no command for this");
                return Vec::new();
            };
            model.set_success("the command was sent to the terminal's clipboard");
            vec![Effect::Copy(command.into())]
        }
        Action::Back => Vec::new(),
        _ => {
            model.overlay = Some(Overlay::Confirm(question));
            Vec::new()
        }
    }
}

/// Copies or closes the secret of a new key. A secret that was not copied is closed by the second
/// [`Action::Back`], because it does not come back. Dropping it wipes it from memory.
fn show(model: &mut Model, mut secret: Secret, action: Action) -> Vec<Effect> {
    let mut effects = Vec::new();
    match (action, secret.state) {
        (Action::Copy, _) => {
            secret.state = SecretState::Copied;
            effects.push(Effect::Copy(secret.text.clone()));
        }
        (Action::Back, SecretState::Shown) => secret.state = SecretState::Closing,
        (Action::Back, SecretState::Closing | SecretState::Copied) => {
            let name = secret.kind.name(&secret.label);
            drop(secret);
            model.set_success(format!(
                "the text of {name} is gone from here; only its digest is kept"
            ));
            return vec![Effect::ClearScreen];
        }
        _ => {}
    }
    model.overlay = Some(Overlay::Secret(secret));
    effects
}
