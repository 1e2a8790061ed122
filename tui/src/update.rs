//! Applies messages to the model. No other code changes it.
//!
//! Invariant: pure functions without await, clock or terminal; side effects are returned as
//! [`Effect`]s. The actions of a screen are in the file of its name, those of overlays in
//! `overlay`, and the handling of gateway messages in `incoming`. A changed
//! [`Subscription`](crate::model::subscription::Subscription) is sent to the connection
//! automatically.

mod accounts;
mod chart;
mod choices;
mod filter;
mod form;
mod help;
mod in_flight;
mod incoming;
mod invites;
mod jump;
mod keys;
mod list;
mod models;
mod nodes;
mod operations;
mod overlay;
mod palette;
mod parse;
mod people;
mod picker;
mod plans;
mod route;
mod sessions;
mod shell;
mod sign_in;
mod trail;
mod trial;
mod upstreams;
mod usage;

use crate::effect::Effect;
use crate::message::Message;
use crate::model::subscription::subscription;
use crate::model::{Action, Model, Screen, first_steps};

/// Applies `message` to `model` and returns the side effects to run.
pub fn update(model: &mut Model, message: Message) -> Vec<Effect> {
    let before = subscription(model);
    let mut effects = apply(model, message);
    if model.is_read_only {
        effects.retain(|effect| !effect.is_change());
    }
    filter::refresh(model);
    chart::refresh(model);
    form::refresh(model);
    model.first_steps = first_steps::next(model);
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
            incoming::date_keys(model);
            Vec::new()
        }
        message => incoming::handle(model, message),
    }
}

/// Dispatches `action` to the overlay or the open screen.
fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    model.notice = None;
    if model.is_read_only && action.is_change() {
        model.set_problem("nothing can be changed: the dashboard was started with --read-only");
        return Vec::new();
    }
    match action {
        Action::Quit => vec![Effect::Quit],
        Action::Suspend => vec![Effect::Suspend],
        action if model.overlay.is_some() => overlay::act(model, action),
        action if model.screen == Screen::SignIn => sign_in::act(model, action),
        action => screen(model, action),
    }
}

/// Handles `action` on the open screen while no overlay is open.
fn screen(model: &mut Model, action: Action) -> Vec<Effect> {
    if let Some(missing) = list::missing_row(model, action) {
        model.set_problem(missing);
        return Vec::new();
    }
    if let Some(effects) = shell::act(model, action) {
        return effects;
    }
    if list::act(model, action) {
        return Vec::new();
    }
    if let Action::CopyRows(format) = action {
        return list::copy_rows(model, format).unwrap_or_default();
    }
    match model.screen {
        // These say more precisely who may do it.
        Screen::Models => models::act(model, action),
        Screen::People => people::act(model, action),
        Screen::Operations => operations::act(model, action),
        _ if !model.allows(action) => {
            let who = if action == Action::Grant { "owners" } else { "operators" };
            model.set_problem(format!("only {who} can do that"));
            Vec::new()
        }
        Screen::Keys => keys::act(model, action),
        Screen::Usage => usage::act(model, action),
        Screen::Accounts => accounts::act(model, action),
        Screen::Upstreams => upstreams::act(model, action),
        Screen::Plans => plans::act(model, action),
        Screen::Audit | Screen::Ledger => list::copy_id(model, action),
        Screen::Nodes => nodes::act(model, action),
        Screen::Invites => invites::act(model, action),
        Screen::Sessions => sessions::act(model, action),
        Screen::InFlight => in_flight::act(model, action),
        Screen::SignIn | Screen::Overview | Screen::Live => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
