//! What a message does: the only code that changes the model.
//!
//! Pure: no await, no clock, no terminal. What must happen outside is returned as [`Effect`]s. A
//! screen's own actions are in the file of its name.

mod overview;
mod sign_in;

use crate::effect::Effect;
use crate::keymap::Action;
use crate::message::Message;
use crate::model::overview::Overview;
use crate::model::{Link, Model, Screen};

/// Changes `model` as `message` demands and returns what to do outside.
pub fn update(model: &mut Model, message: Message) -> Vec<Effect> {
    match message {
        Message::Act(Action::Quit) => vec![Effect::Quit],
        Message::Act(Action::ToggleHelp) => {
            model.help = !model.help;
            Vec::new()
        }
        Message::Act(_) if model.help => Vec::new(),
        Message::Act(action) => match model.screen {
            Screen::SignIn => sign_in::act(&mut model.sign_in, action),
            Screen::Overview => overview::act(&mut model.overview, action),
        },
        Message::Resized => Vec::new(),
        Message::TokenFound(token) | Message::SignedIn(token) => {
            sign_in::accept(model);
            vec![Effect::Follow { token }]
        }
        Message::SignInFailed(problem) => {
            sign_in::refuse(model, problem);
            Vec::new()
        }
        Message::SignedOut(reason) => {
            model.overview = Overview::default();
            model.link = Link::Idle;
            model.screen = Screen::SignIn;
            sign_in::refuse(model, reason);
            Vec::new()
        }
        Message::LinkChanged(link) => {
            model.link = link;
            Vec::new()
        }
        Message::Loaded(snapshot) => {
            model.overview.snapshot = Some(*snapshot);
            model.overview.refreshing = false;
            Vec::new()
        }
        Message::Tailed(tailed) => {
            model.overview.log.extend(tailed);
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests;
