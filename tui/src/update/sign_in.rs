//! What the user can do on the sign-in screen, and what comes of it.

use crate::effect::Effect;
use crate::keymap::Action;
use crate::model::sign_in::{Field, SignIn};
use crate::model::{Model, Screen};

/// Edits the form or sends it. While an answer is waited for, nothing changes.
pub(super) fn act(form: &mut SignIn, action: Action) -> Vec<Effect> {
    if form.busy {
        return Vec::new();
    }
    match action {
        Action::NextField => {
            form.field = match form.field {
                Field::Name => Field::Password,
                Field::Password => Field::Name,
            };
        }
        Action::Edit(request) => {
            form.input_mut().handle(request);
        }
        Action::Submit => return submit(form),
        _ => {}
    }
    Vec::new()
}

fn submit(form: &mut SignIn) -> Vec<Effect> {
    let name = form.name.value().trim();
    if name.is_empty() {
        form.field = Field::Name;
        form.problem = Some("type the name of your account".to_owned());
    } else if form.password.value().is_empty() {
        // Enter in the name field just goes on; in the empty password field it is a mistake.
        form.problem = (form.field == Field::Password).then(|| "type your password".to_owned());
        form.field = Field::Password;
    } else {
        let name = name.to_owned();
        form.busy = true;
        form.problem = None;
        return vec![Effect::SignIn { name, password: form.take_password() }];
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
    let form = &mut model.sign_in;
    form.busy = false;
    form.problem = Some(problem);
    form.field = if form.name.value().is_empty() { Field::Name } else { Field::Password };
}
