//! What the user can do with what lies over a screen.

use secrecy::{ExposeSecret, SecretString};
use tui_input::InputRequest;

use crate::effect::Effect;
use crate::model::overlay::{Confirm, Overlay, Secret};
use crate::model::{Action, Model, Screen};

use super::{form, list, palette};

/// Gives `action` to the overlay.
pub(super) fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    // taken out, so that what it does can change the model; put back unless it is done
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
                    // the log's filter is the gateway's: it gets it when it is whole
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

/// Types a pasted text into whatever takes one; what is no letter is left out.
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

/// Copies a key's text; closing drops it, which wipes it.
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
