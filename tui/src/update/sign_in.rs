//! Actions on the sign-in screen, and the results of signing in and out.

use crate::effect::Effect;
use crate::model::first_steps::FirstSteps;
use crate::model::form::FormKind;
use crate::model::overlay::{Help, Overlay};
use crate::model::sign_in::{NAME, PASSWORD, SignIn, SignInRefusal};
use crate::model::{Action, ConnectionState, Data, Model, Screen, Start, kept};

use super::{form, list};

/// Edits or submits the form, or switches between sign-in and registration.
pub(super) fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    let form = &mut model.sign_in.form;
    match action {
        Action::Help => model.overlay = Some(Overlay::Help(Help::default())),
        Action::Submit => return form::send(form).into_iter().collect(),
        Action::ToggleRegistration if !form.is_submitting => {
            let name = form.text(NAME).to_owned();
            *form = match form.kind {
                FormKind::Register => SignIn::sign_in(&name),
                _ => SignIn::register(&name),
            };
        }
        action => form::edit(form, action),
    }
    Vec::new()
}

/// Opens the overview and clears the form.
pub(super) fn accept(model: &mut Model) {
    model.sign_in = SignIn::default();
    model.screen = Screen::Overview;
    if let Some(Start { screen, filter, .. }) = model.start.clone() {
        // Whether the account may open it is known with its role.
        model.screen = screen;
        list::set_filter(model, &filter);
    }
}

/// Shows why the sign-in failed, with the focus on the field that has to change. Keeps what was
/// entered, except for a wrong password.
pub(super) fn refuse(model: &mut Model, refusal: SignInRefusal) {
    let form = &mut model.sign_in.form;
    form.is_submitting = false;
    if form.kind == FormKind::SignIn && refusal.field == Some(PASSWORD) {
        form.clear(PASSWORD);
    }
    let index = form.fields.iter().position(|field| Some(field.label) == refusal.field);
    form.current = index.unwrap_or(form.current);
    form.problem = Some(refusal.text);
}

/// Discards all data of the session and opens the sign-in screen.
pub(super) fn leave(model: &mut Model, reason: Option<String>) {
    let kept = kept::of(model);
    model.data = Data::default();
    kept::apply_to_data(&mut model.data, &kept);
    model.connection = ConnectionState::Idle;
    model.screen = Screen::SignIn;
    model.trail.clear();
    // Whether the next account has made a request is not known yet.
    if model.first_steps == FirstSteps::Shown {
        model.first_steps = FirstSteps::Pending;
    }
    // The secret of a new key cannot be fetched again: keep it until the user closes it.
    model.overlay = match model.overlay.take() {
        Some(Overlay::Secret(secret)) => Some(Overlay::Secret(secret)),
        Some(Overlay::Trial(trial)) => trial.secret.map(Overlay::Secret),
        _ => None,
    };
    model.is_detail_open = false;
    model.is_refreshing = false;
    model.sign_in = SignIn::default();
    if let Some(reason) = reason {
        refuse(model, SignInRefusal::general(reason));
    }
}
