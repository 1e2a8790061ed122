//! Actions in overlays.

use secrecy::{ExposeSecret, SecretString};
use tui_input::InputRequest;

use crate::effect::Effect;
use crate::model::overlay::{Confirm, Overlay, Secret};
use crate::model::{Action, Model, Screen};

use super::{form, list, palette};

/// Dispatches `action` to the open overlay.
pub(super) fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    // Take the overlay out, so that its actions can change the model. Each branch puts it back
    // unless it closes it.
    let Some(overlay) = model.overlay.take() else { return Vec::new() };
    match overlay {
        Overlay::Help { scroll } => {
            let scroll = match action {
                Action::Move(rows) => scroll.saturating_add_signed(rows).min(100),
                _ => scroll,
            };
            if action != Action::Back {
                model.overlay = Some(Overlay::Help { scroll });
            }
            Vec::new()
        }
        Overlay::Palette(typed) => palette::act(model, typed, action),
        Overlay::Filter { mut input, before } => {
            match action {
                Action::Submit => {
                    list::set_filter(model, input.value().trim());
                    return Vec::new();
                }
                Action::Back => {
                    list::set_filter(model, &before);
                    return Vec::new();
                }
                Action::Type(request) => {
                    input.handle(request);
                    // The gateway evaluates the log's filter, so send it only when it is complete.
                    if model.screen != Screen::Usage {
                        list::set_filter(model, input.value());
                    }
                }
                _ => {}
            }
            model.overlay = Some(Overlay::Filter { input, before });
            Vec::new()
        }
        Overlay::Form(open) => form::act(model, open, action),
        Overlay::Confirm(question) => confirm(model, question, action),
        Overlay::Secret(secret) => show(model, secret, action),
    }
}

/// Enters pasted text as if typed, without control characters.
pub(super) fn paste(model: &mut Model, text: &SecretString) {
    for letter in text.expose_secret().chars().filter(|it| !it.is_control()) {
        super::act(model, Action::Type(InputRequest::InsertChar(letter)));
    }
}

fn confirm(model: &mut Model, question: Confirm, action: Action) -> Vec<Effect> {
    match action {
        Action::Confirm => vec![Effect::Change(question.change)],
        Action::Back => Vec::new(),
        _ => {
            model.overlay = Some(Overlay::Confirm(question));
            Vec::new()
        }
    }
}

/// Copies or closes the secret of a new key. Dropping it wipes it from memory.
fn show(model: &mut Model, mut secret: Secret, action: Action) -> Vec<Effect> {
    let mut effects = Vec::new();
    if action == Action::Copy {
        secret.copied = true;
        effects.push(Effect::Copy(secret.text.clone()));
    }
    if action == Action::Back {
        let label = secret.label.clone();
        drop(secret);
        model.set_success(format!(
            "the text of key `{label}` is gone from here; only its digest is kept"
        ));
        effects.push(Effect::ClearScreen);
    } else {
        model.overlay = Some(Overlay::Secret(secret));
    }
    effects
}
