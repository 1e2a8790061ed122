//! Changes of the settings of existing keys, which take effect with the next request.

use std::sync::Arc;

use jiff::Timestamp;

use super::access::Permission;
use super::keys::{KeyView, check_client_gone, check_expiry, check_label, check_spend_cap};
use super::plans::check_limits;
use super::{Caller, Control, ControlError};
use domain::audit::AuditAction;
use domain::audit_diff;
use domain::id::{KeyId, ModelId};
use domain::key::{ClientGone, Key, Translation};
use domain::limit::Limits;
use domain::money::Nanos;

/// The changes of a key. An absent field does not change.
#[derive(Clone, Debug, Default)]
pub struct KeyChange {
    /// The label: 1 to 64 characters.
    pub label: Option<String>,
    /// The new limits; zero removes a limit. `observe` is ignored in favour of `observe_limits`.
    pub limits: Limits,
    /// Whether requests over the limits are served and noted instead of refused.
    pub observe_limits: Option<bool>,
    /// The maximum total spend, which may be less than what was spent.
    pub spend_cap: FieldChange<Nanos>,
    /// The allowed models, by id or alias; empty means all models of the plan.
    pub models: Option<Vec<String>>,
    /// How `/v1/responses` handles parameters that it cannot translate.
    pub translation: Option<Translation>,
    /// How a request continues after its client disconnects.
    pub client_gone: Option<ClientGone>,
    /// Whether the spans of its requests have the text of prompts and answers.
    pub trace_content: Option<bool>,
    /// When the key expires.
    pub expires_at: FieldChange<Timestamp>,
}

/// The change of a field that can be absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldChange<T> {
    /// The field does not change.
    #[default]
    Keep,
    /// The field becomes absent.
    Remove,
    /// The field gets this value.
    Set(T),
}

impl Control {
    /// Changes the settings of a key. Limits and spending are counted for all keys of an origin
    /// together, so the other keys of the origin get the same limits and the same cap.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if it does not exist or the caller may not see it,
    /// [`ControlError::Forbidden`] without the permission and for a key of an account with a greater
    /// role than the caller's, [`ControlError::InUse`] if it has ended or was rotated,
    /// [`ControlError::Invalid`] if a field is invalid.
    pub async fn update_key(
        self: &Arc<Self>,
        caller: &Caller,
        id: &str,
        change: KeyChange,
    ) -> Result<KeyView, ControlError> {
        let id = KeyId::new(id);
        let (key, _) = self.visible_key(caller, &id).await?;
        self.require_on_key(caller, &key, Permission::ChangeKeys)?;
        let models = match &change.models {
            Some(names) => Some(self.resolve_models(caller, names)?),
            None => None,
        };
        let label = change.label.as_deref().map(check_label).transpose()?;
        let change = KeyChange { label, ..change };
        let by = caller.clone();
        let changed = self.write(Some(caller), move |control| async move {
            let (before, last_used_at) = control.visible_key(&by, &id).await?;
            control.require_on_key(&by, &before, Permission::ChangeKeys)?;
            let now = control.clock.now();
            refuse_ended(&before, now)?;
            let key = change.apply_to(&before, models);
            check(&key, now)?;
            if key == before {
                return Ok(control.key_view(key, last_used_at));
            }
            let others = control.store.keys(Some(key.account)).await?.into_iter();
            let others = others.map(|(other, _)| other).filter(|other| {
                other.origin == key.origin && other.id != key.id && other.revoked_at.is_none()
            });
            let (limits, spend_cap) = (key.limits, key.spend_cap);
            let others = others.map(|other| Key { limits, spend_cap, ..other });
            let keys: Vec<_> = std::iter::once(key.clone()).chain(others).collect();
            let details = audit_diff::describe_changes(&before, &key);
            let (action, object) = (AuditAction::KeyUpdate, key.id.as_str());
            let audit = control.audit_entry(action, object, Some(key.account), details);
            control.store.update_keys(&keys, &audit).await?;
            control.ledger.set_spend_cap(&key);
            for key in keys {
                control.directory.put_key(key);
            }
            Ok(control.key_view(key, last_used_at))
        });
        match changed.await {
            Err(ControlError::Repeated(done)) => {
                let id = KeyId::new(done.object.as_str());
                let (key, last_used_at) = self.visible_key(caller, &id).await?;
                Ok(self.key_view(key, last_used_at))
            }
            outcome => outcome,
        }
    }
}

// === impl KeyChange ===

impl KeyChange {
    /// Returns the changed key. `models` are the resolved [`Self::models`].
    fn apply_to(self, old: &Key, models: Option<Vec<ModelId>>) -> Key {
        let limit = |new: Option<u64>, old| new.or(old).filter(|&limit| limit != 0);
        let limits = Limits {
            rpm: limit(self.limits.rpm, old.limits.rpm),
            tpm: limit(self.limits.tpm, old.limits.tpm),
            concurrency: limit(self.limits.concurrency, old.limits.concurrency),
            monthly_tokens: limit(self.limits.monthly_tokens, old.limits.monthly_tokens),
            observe: self.observe_limits.unwrap_or(old.limits.observe),
        };
        Key {
            label: self.label.unwrap_or_else(|| old.label.clone()),
            limits,
            spend_cap: self.spend_cap.or(old.spend_cap),
            models: models.unwrap_or_else(|| old.models.clone()),
            translation: self.translation.unwrap_or(old.translation),
            client_gone: self.client_gone.unwrap_or(old.client_gone),
            trace_content: self.trace_content.unwrap_or(old.trace_content),
            expires_at: self.expires_at.or(old.expires_at),
            ..old.clone()
        }
    }
}

// === impl FieldChange ===

impl<T> FieldChange<T> {
    /// Returns the new value of a field that was `old`.
    fn or(self, old: Option<T>) -> Option<T> {
        match self {
            Self::Keep => old,
            Self::Remove => None,
            Self::Set(new) => Some(new),
        }
    }
}

/// Validates the changed fields.
fn check(key: &Key, now: Timestamp) -> Result<(), ControlError> {
    check_limits(&key.limits)?;
    check_client_gone(key.client_gone)?;
    check_spend_cap(key.spend_cap)?;
    Ok(check_expiry(key.expires_at, now)?)
}

/// Refuses a key that has ended, and one that was replaced: its successor has the settings.
fn refuse_ended(key: &Key, now: Timestamp) -> Result<(), ControlError> {
    let id = &key.id;
    if let Some(successor) = &key.successor {
        return Err(ControlError::InUse(format!(
            "key `{id}` was rotated; change `{successor}`, which took its place"
        )));
    }
    if !key.is_usable(now) {
        return Err(ControlError::InUse(format!(
            "key `{id}` has ended; make a new one with `ctl key create`"
        )));
    }
    Ok(())
}
