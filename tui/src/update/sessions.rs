//! Actions on the sessions screen.

use crate::effect::Effect;
use crate::model::change::Change;
use crate::model::overlay::{Confirm, Overlay};
use crate::model::{Action, Model};

use super::list;

/// Ends the selected session, or all others.
pub(super) fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    let confirm = match (action, model.data.sessions.current().cloned()) {
        (Action::Remove, Some(session)) => Confirm {
            question: format!("End session `{}`?", session.id),
            consequence: if session.is_current {
                "It is the one of this dashboard, which asks for the password then.".into()
            } else {
                "Its token is refused from now on.".into()
            },
            change: Change::RevokeSession { id: session.id },
        },
        (Action::RemoveOthers, _) => Confirm {
            question: "End all other sessions?".to_owned(),
            consequence: "Only this dashboard stays signed in.".into(),
            change: Change::RevokeOtherSessions,
        },
        (action, _) => return list::copy_id(model, action),
    };
    model.overlay = Some(Overlay::Confirm(confirm));
    Vec::new()
}
