//! Key rotation: replaces a key by a successor; both are valid for an overlap.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use secrecy::SecretString;

use super::change::{ChangeContext, ReplayExt};
use super::keys::{KeyView, require_own_key, secret_already_shown};
use super::{Caller, Control, ControlError};
use domain::ValidationError;
use domain::audit::AuditAction;
use domain::id::KeyId;
use domain::key::Key;

const MAX_OVERLAP: Duration = Duration::from_hours(366 * 24);

impl Control {
    /// Creates a successor of the key `id` with the same settings and a new secret. Spend and limit
    /// usage carry over. The old key remains valid for `overlap`, but not beyond its own expiry;
    /// zero revokes it at once. Only the owner may rotate a key, because the call returns the new
    /// secret.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if it does not exist or the caller may not see it,
    /// [`ControlError::Forbidden`] if it belongs to another account, [`ControlError::InUse`] if it
    /// has expired, was revoked or was rotated before, or the account has too many keys for an overlap, [`ControlError::Invalid`] for an overlap of
    /// more than a year, [`ControlError::Exists`] if an earlier call with the same idempotency key
    /// rotated it.
    pub async fn rotate_key(
        self: &Arc<Self>,
        caller: &Caller,
        id: &str,
        overlap: Duration,
    ) -> Result<(KeyView, SecretString), ControlError> {
        if overlap > MAX_OVERLAP {
            let message = "`overlap_seconds` must be at most a year";
            return Err(ValidationError::new("overlap_seconds", message).into());
        }
        let id = KeyId::new(id);
        let text = self.new_key_text();
        let (new_id, digest) = (text.id, text.digest);
        let by = caller.clone();
        let view = self
            .write(Some(caller), move |control| async move {
                let old = control.store.find_key(&id).await?;
                let old = old
                    .map(|(key, _)| key)
                    .filter(|key| by.can_see(key.account))
                    .ok_or_else(|| ControlError::missing("key", id.as_str()))?;
                let now = control.clock.now();
                check(&old, &by, now)?;
                if !overlap.is_zero() {
                    control.check_overlap(&by, now).await?;
                }
                let new = Key {
                    id: new_id.clone(),
                    digest,
                    created_at: now,
                    successor: None,
                    ..old.clone()
                };
                let old = retired(old, new_id, now, overlap);
                let ends = old.revoked_at.or(old.expires_at).unwrap_or(now);
                let details =
                    format!("label `{}`, replaced by `{}`, ends {ends}", old.label, new.id);
                let audit = control.audit_entry(
                    AuditAction::KeyRotate,
                    id.as_str(),
                    Some(old.account),
                    details,
                );
                control.store.rotate_key(&old, &new, &audit).await?;
                control.directory.put_key(old);
                control.directory.put_key(new.clone());
                Ok(control.key_view(new, None))
            })
            .await
            .or_replay(|done| Err(secret_already_shown(&done.object)))?;
        Ok((view, text.secret))
    }
}

impl ChangeContext {
    /// Refuses a rotation with an overlap by an account that has twice the keys that its plan
    /// allows: each overlap adds a usable key, and the keys of a plan can all be rotated at once.
    async fn check_overlap(&self, caller: &Caller, now: Timestamp) -> Result<(), ControlError> {
        let max = u64::from(self.plan_of(&caller.account)?.max_keys) * 2;
        if self.store.count_usable_keys(caller.account.id, now).await? < max {
            return Ok(());
        }
        Err(ControlError::InUse(format!(
            "the account has {max} usable keys with those that were rotated, twice as many as its plan \
             allows; rotate without an overlap (`--overlap 0s`), or revoke keys (`ctl key revoke`)"
        )))
    }
}

fn check(key: &Key, caller: &Caller, now: Timestamp) -> Result<(), ControlError> {
    let id = &key.id;
    if key.account != caller.account.id {
        return Err(ControlError::Forbidden(format!(
            "only its owner may rotate key `{id}`: the call returns the new secret; \
             `ctl key revoke` revokes it"
        )));
    }
    require_own_key(caller, key)?;
    if let Some(successor) = &key.successor {
        return Err(ControlError::InUse(format!(
            "key `{id}` was rotated before; rotate `{successor}`, which took its place"
        )));
    }
    if !key.is_usable(now) {
        return Err(ControlError::InUse(format!(
            "key `{id}` has ended; make a new one with `ctl key create`"
        )));
    }
    Ok(())
}

/// Returns the old key with its successor and its new expiry.
fn retired(old: Key, successor: KeyId, now: Timestamp, overlap: Duration) -> Key {
    let end = now.saturating_add(overlap).unwrap_or(Timestamp::MAX);
    Key {
        successor: Some(successor),
        revoked_at: overlap.is_zero().then_some(now),
        expires_at: if overlap.is_zero() {
            old.expires_at
        } else {
            Some(old.expires_at.map_or(end, |own| own.min(end)))
        },
        ..old
    }
}
