//! Actions on the keys screen.

use crate::effect::Effect;
use crate::model::change::Change;
use crate::model::form::{Field, Form, FormKind};
use crate::model::overlay::{Confirm, Overlay};
use crate::model::{Action, Model};

use super::list;

/// Creates a key; rotates, revokes or copies the selected one.
pub(super) fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    let current = model.data.keys.current().cloned();
    match (action, current) {
        (Action::New, _) => {
            let fields = vec![
                Field::text("label", "what to call it, such as `laptop`", ""),
                Field::text("models", "ids with commas between; empty for all", ""),
                Field::text("requests/min", "empty for no limit of its own", ""),
                Field::text("tokens/min", "such as 200k; empty for none", ""),
                Field::text("concurrency", "requests at once; empty for none", ""),
                Field::text("tokens/month", "empty for no limit of its own", ""),
                Field::text("spending cap", "US dollars in all; empty for none", ""),
                Field::text("ends after", "such as 12h or 30d; empty for never", ""),
            ];
            open(model, Form::new("New key", FormKind::CreateKey, fields));
        }
        (Action::Rotate | Action::Remove, Some(key)) if key.revoked_at.is_some() => {
            model.set_problem(format!(
                "key `{}` is revoked already: `n` makes a new one",
                key.label
            ));
        }
        (Action::Rotate, Some(key)) => {
            let fields = vec![
                Field::fixed("key", format!("{} ({})", key.label, key.id)),
                Field::text("overlap", "how long the old key works, such as 24h; 0 ends it", "24h"),
            ];
            open(model, Form::new("Rotate key", FormKind::RotateKey(key.id), fields));
        }
        (Action::Remove, Some(key)) => {
            let confirm = Confirm {
                question: format!("Revoke key `{}`?", key.label),
                consequence: "The next request with it is refused. This cannot be undone.".into(),
                change: Change::RevokeKey { id: key.id, label: key.label },
            };
            model.overlay = Some(Overlay::Confirm(confirm));
        }
        (action, _) => return list::copy_id(model, action),
    }
    Vec::new()
}

fn open(model: &mut Model, form: Form) {
    model.overlay = Some(Overlay::Form(Box::new(form)));
}
