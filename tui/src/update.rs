//! What a message does: the only code that changes the model.
//!
//! Pure: no await, no clock, no terminal. What must happen outside is returned as [`Effect`]s. A
//! screen's own actions are in the file of its name, what lies over screens is in `overlay`, what
//! the gateway said in `news`. A changed [`Subscription`](crate::model::subscription::Subscription) is told to
//! the connection by itself.

mod accounts;
mod form;
mod incoming;
mod keys;
mod list;
mod models;
mod overlay;
mod palette;
mod plans;
mod shell;
mod sign_in;
mod upstreams;
mod usage;

use crate::effect::Effect;
use crate::message::Message;
use crate::model::subscription::subscription;
use crate::model::{Action, Model, Screen};

/// Changes `model` as `message` demands and returns what to do outside.
pub fn update(model: &mut Model, message: Message) -> Vec<Effect> {
    let before = subscription(model);
    let mut effects = apply(model, message);
    let after = subscription(model);
    if after != before {
        effects.push(Effect::Subscribe(after));
    }
    effects
}

fn apply(model: &mut Model, message: Message) -> Vec<Effect> {
    match message {
        Message::Act(action) => act(model, action),
        Message::Pasted(text) => {
            overlay::paste(model, &text);
            Vec::new()
        }
        Message::Resized(columns, rows) => {
            model.size = (columns, rows);
            Vec::new()
        }
        Message::Tick(now) => {
            model.now = Some(now);
            Vec::new()
        }
        message => incoming::handle(model, message),
    }
}

/// Gives `action` to whoever has the focus.
fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    model.notice = None;
    match action {
        Action::Quit => vec![Effect::Quit],
        Action::Suspend => vec![Effect::Suspend],
        action if model.overlay.is_some() => overlay::act(model, action),
        action if model.screen == Screen::SignIn => sign_in::act(model, action),
        action => screen(model, action),
    }
}

/// What `action` does on a screen on which nothing lies.
fn screen(model: &mut Model, action: Action) -> Vec<Effect> {
    if let Some(effects) = shell::act(model, action) {
        return effects;
    }
    if list::act(model, action) {
        return Vec::new();
    }
    match model.screen {
        Screen::Keys => keys::act(model, action),
        Screen::Models => models::act(model, action),
        Screen::Usage => usage::act(model, action),
        Screen::Accounts => accounts::act(model, action),
        Screen::Upstreams => upstreams::act(model, action),
        Screen::Plans => plans::act(model, action),
        Screen::Audit => list::copy_id(model, action),
        Screen::SignIn | Screen::Overview | Screen::Live => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
