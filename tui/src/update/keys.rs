//! Actions on the keys screen.

use crate::effect::Effect;
use crate::model::change::Change;
use crate::model::form::{Field, Form, FormKind};
use crate::model::keys::Key;
use crate::model::overlay::{Confirm, Overlay};
use crate::model::picker::Known;
use crate::model::{Action, Model};

use super::list;

/// The maximum number of keys that a question names.
const MAX_NAMED_KEYS: usize = 4;

/// Creates a key; rotates, revokes or copies the selected one.
pub(super) fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    let current = model.data.keys.current().cloned();
    match (action, current) {
        (Action::New, _) => {
            let fields = vec![
                Field::text("label", "what to call it, such as `laptop`", "").required(),
                Field::text("models", "ids with commas between; empty for all", "")
                    .offering(Known::Models),
                Field::text("requests/min", "empty for no limit of its own", ""),
                Field::text("tokens/min", "such as 200k; empty for none", ""),
                Field::text("concurrency", "requests at once; empty for none", ""),
                Field::text("tokens/month", "empty for no limit of its own", ""),
                Field::text("spending cap", "US dollars in all; empty for none", ""),
                Field::text("ends after", "such as 12h or 30d; empty for never", ""),
            ];
            open(model, Form::new("New key", FormKind::CreateKey, fields));
        }
        (Action::Remove, Some(_)) if !model.data.keys.marked().is_empty() => {
            revoke_marked(model);
        }
        (Action::Modify | Action::Rotate | Action::Remove, Some(key))
            if key.revoked_at.is_some() =>
        {
            model.set_problem(format!(
                "key `{}` is revoked already: `n` makes a new one",
                key.label
            ));
        }
        (Action::Modify, Some(key)) => {
            let number = |limit: Option<u64>| limit.map(|it| it.to_string()).unwrap_or_default();
            let (limits, cap) = (key.limits, key.spend_cap_usd.clone().unwrap_or_default());
            let fields = vec![
                Field::fixed("key", format!("{} of {}", key.id, key.account)),
                Field::text("label", "what to call it", key.label.as_str()).required(),
                Field::text(
                    "models",
                    "ids with commas between; empty for all",
                    key.models.join(", "),
                )
                .offering(Known::Models),
                Field::text("requests/min", "empty for no limit of its own", number(limits.rpm)),
                Field::text("tokens/min", "such as 200k; empty for none", number(limits.tpm)),
                Field::text("concurrency", "empty for none", number(limits.concurrency)),
                Field::text("tokens/month", "empty for none", number(limits.monthly_tokens)),
                Field::text("spending cap", "US dollars in all; empty for none", cap),
                Field::text("ends after", "such as 30d, or `never`; empty: as it is now", ""),
            ];
            open(model, Form::new("Edit key", FormKind::EditKey(Box::new(key)), fields));
        }
        (Action::Rotate, Some(key)) if is_foreign(model, &key) => {
            model.set_problem(format!(
                "only `{}` can rotate this key, because its secret is new: `x` revokes it",
                key.account
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
                question: format!("Revoke key `{}`{}?", key.label, owner(model, &key)),
                consequence: "The next request with it is refused. This cannot be undone.".into(),
                change: Change::RevokeKey { id: key.id, label: key.label },
            };
            model.overlay = Some(Overlay::Confirm(confirm));
        }
        (action, _) => return list::copy_id(model, action),
    }
    Vec::new()
}

/// Asks to revoke the marked keys that are not revoked yet.
fn revoke_marked(model: &mut Model) {
    let keys = model.data.keys.marked().into_iter().filter(|key| key.revoked_at.is_none());
    let keys: Vec<_> = keys.cloned().collect();
    if keys.is_empty() {
        model.set_problem("the marked keys are revoked already: Esc takes the marks away");
        return;
    }
    let names = keys.iter().take(MAX_NAMED_KEYS);
    let names: Vec<_> = names.map(|key| format!("`{}`{}", key.label, owner(model, key))).collect();
    let more = match keys.len().saturating_sub(MAX_NAMED_KEYS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let consequence = format!("This cannot be undone: {}{more}.", names.join(", "));
    let question = match keys.len() {
        1 => "Revoke the marked key?".to_owned(),
        count => format!("Revoke {count} keys?"),
    };
    let change = |key: Key| Change::RevokeKey { id: key.id, label: key.label };
    let change = Change::Batch(keys.into_iter().map(change).collect());
    model.overlay = Some(Overlay::Confirm(Confirm { question, consequence, change }));
}

/// Returns the owner for a question, unless it is the signed-in account.
fn owner(model: &Model, key: &Key) -> String {
    if is_foreign(model, key) { format!(" of `{}`", key.account) } else { String::new() }
}

/// Returns whether the key belongs to another account than the signed-in one.
fn is_foreign(model: &Model, key: &Key) -> bool {
    model.data.account.value.as_ref().is_some_and(|account| account.name != key.account)
}

fn open(model: &mut Model, form: Form) {
    model.overlay = Some(Overlay::Form(Box::new(form)));
}
