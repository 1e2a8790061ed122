//! Actions on the screen with the people of an account.

use crate::effect::Effect;
use crate::model::change::Change;
use crate::model::form::{Field, Form, FormKind};
use crate::model::overlay::{Confirm, Overlay};
use crate::model::people::PersonRole;
use crate::model::{Action, Model};

use super::list;

/// Adds a person; gives the selected one another role or a code for a new password, or removes it.
pub(super) fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    if !model.allows(action) {
        model.set_problem(if model.can_have_people() {
            "the owner, the admins of the account and operators manage its people"
        } else {
            "only accounts with the role `member` can have people besides their owner"
        });
        return Vec::new();
    }
    let current = model.data.people.current().cloned();
    match (action, current) {
        (Action::New, _) => {
            let form = addition(model);
            model.overlay = Some(Overlay::Form(Box::new(form)));
        }
        (Action::Grant | Action::ResetPassword | Action::Remove, Some(it)) if it.is_removed => {
            model.set_problem(format!("`{}` was removed: `n` adds a person", it.name));
        }
        (Action::Grant, Some(person)) => {
            let role = person.role.map_or("member", PersonRole::as_str);
            let fields = vec![
                Field::fixed("person", person.name.as_str()),
                Field::choice("role", PersonRole::NAMES, role),
            ];
            let form = Form::new("Role", FormKind::SetPersonRole(person.name), fields);
            model.overlay = Some(Overlay::Form(Box::new(form)));
        }
        (Action::ResetPassword, Some(person)) => {
            model.overlay = Some(Overlay::Confirm(Confirm {
                question: format!("Create a code for a new password of `{}`?", person.name),
                consequence:
                    "It replaces an earlier code. A password stays valid until the code is used."
                        .into(),
                change: Change::ResetPassword { account: person.name },
            }));
        }
        (Action::Remove, Some(person)) => {
            model.overlay = Some(Overlay::Confirm(Confirm {
                question: format!("Remove `{}` from the account?", person.name),
                consequence: "Its sessions end and its name is free. Its keys stay.".into(),
                change: Change::RemovePerson { name: person.name },
            }));
        }
        (action, _) => return list::copy_id(model, action),
    }
    Vec::new()
}

/// Returns the form for a new person of the account whose people are shown.
fn addition(model: &Model) -> Form {
    let own = model.data.account.value.as_ref().map(|it| it.name.clone()).unwrap_or_default();
    let subject = model.subject().map(str::to_owned);
    let fields = vec![
        Field::fixed("account", subject.clone().unwrap_or(own)),
        Field::text("name", "or an e-mail address, for signing in", "").required(),
        Field::choice("role", PersonRole::NAMES, "member"),
    ];
    Form::new("New person", FormKind::AddPerson(subject.unwrap_or_default()), fields)
}
