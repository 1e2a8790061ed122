//! Actions on the invites screen.

use crate::effect::Effect;
use crate::model::change::Change;
use crate::model::form::{Field, Form, FormKind};
use crate::model::overlay::{Confirm, Overlay};
use crate::model::picker::Known;
use crate::model::{Action, Model};

use super::list;

/// Creates an invite; revokes the selected one.
pub(super) fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    let current = model.data.invites.current().cloned();
    match (action, current) {
        (Action::New, _) => {
            let fields = vec![
                Field::text("valid for", "such as 48h or 7d", "7d").required(),
                Field::text("plan", "of the new account; empty for the default plan", "")
                    .offering(Known::Plan),
                Field::text("credit", "US dollars besides the trial credit; empty for none", ""),
            ];
            let form = Form::new("New invite", FormKind::CreateInvite, fields);
            model.overlay = Some(Overlay::Form(Box::new(form)));
        }
        (Action::Remove, Some(invite)) if invite.used_at.is_some() => {
            model.set_problem(format!("invite `{}` was used already", invite.id));
        }
        (Action::Remove, Some(invite)) => {
            model.overlay = Some(Overlay::Confirm(Confirm {
                question: format!("Revoke invite `{}`?", invite.id),
                consequence: "Its code registers no account any more.".into(),
                change: Change::RevokeInvite { id: invite.id },
            }));
        }
        (action, _) => return list::copy_id(model, action),
    }
    Vec::new()
}
