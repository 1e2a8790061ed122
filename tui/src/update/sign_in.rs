//! What the user can do on the sign-in screen, and what comes of it.

use crate::effect::Effect;
use crate::model::form::FormKind;
use crate::model::overlay::Overlay;
use crate::model::sign_in::{NAME, SignIn};
use crate::model::{Action, ConnectionState, Data, Model, Screen};

use super::form;

/// Edits the form, sends it, or takes the other one.
pub(super) fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    let form = &mut model.sign_in.form;
    match action {
        Action::Help => model.overlay = Some(Overlay::Help { scroll: 0 }),
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

/// Opens the overview and forgets the form.
pub(super) fn accept(model: &mut Model) {
    model.sign_in = SignIn::default();
    model.screen = Screen::Overview;
}

/// Shows what went wrong; the name stays, the password has to be typed again.
pub(super) fn refuse(model: &mut Model, problem: String) {
    let form = &mut model.sign_in.form;
    form.is_submitting = false;
    let first = usize::from(!form.text(NAME).is_empty());
    form.current = first;
    form.problem = Some(problem);
}

/// Forgets everything about who was signed in, and asks who comes next.
pub(super) fn leave(model: &mut Model, reason: Option<String>) {
    model.data = Data::default();
    model.connection = ConnectionState::Idle;
    model.screen = Screen::SignIn;
    // the text of a key comes only once: it stays until its reader has closed it
    if !matches!(model.overlay, Some(Overlay::Secret(_))) {
        model.overlay = None;
    }
    model.is_detail_open = false;
    model.is_refreshing = false;
    model.sign_in = SignIn::default();
    if let Some(reason) = reason {
        refuse(model, reason);
    }
}
