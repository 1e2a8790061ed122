//! Rotating a key: a successor takes its place, and for a while both work.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use secrecy::SecretString;

use super::change::Again;
use super::keys::{KeyView, shown_before};
use super::{Caller, Control, ControlError};
use domain::Invalid;
use domain::audit::AuditAction;
use domain::id::KeyId;
use domain::key::Key;

const MAX_OVERLAP: Duration = Duration::from_hours(366 * 24);

impl Control {
    /// Makes a key that is like the key `id` but for its secret: what that has spent and used of its
    /// limits counts on. The old one works for `overlap` more, though not beyond its own end; zero
    /// revokes it at once. The text of the new one leaves the system here only, so that only its owner
    /// may ask for it.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if it does not exist or is not the caller's to see,
    /// [`ControlError::Forbidden`] if it is another's, [`ControlError::InUse`] if it has ended or was
    /// rotated before, [`ControlError::Invalid`] for an overlap of more than a year.
    pub async fn rotate_key(
        self: &Arc<Self>,
        caller: &Caller,
        id: &str,
        overlap: Duration,
    ) -> Result<(KeyView, SecretString), ControlError> {
        if overlap > MAX_OVERLAP {
            let message = "`overlap_seconds` must be at most a year";
            return Err(Invalid::new("overlap_seconds", message).into());
        }
        let id = KeyId::new(id);
        let text = self.new_key_text();
        let (new_id, digest) = (text.id, text.digest);
        let by = caller.clone();
        let view = self
            .write(Some(caller), move |control| async move {
                let old = control.store.find_key(&id).await?;
                let old = old
                    .filter(|key| by.sees(key.account))
                    .ok_or_else(|| ControlError::missing("key", id.as_str()))?;
                let now = control.clock.now();
                check(&old, &by, now)?;
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
                let audit =
                    control.entry(AuditAction::KeyRotate, id.as_str(), Some(old.account), details);
                control.store.rotate_key(&old, &new, &audit).await?;
                control.directory.put_key(old);
                control.directory.put_key(new.clone());
                let account = control.account_name(new.account);
                Ok(KeyView { key: new, account, last_used_at: None })
            })
            .await
            .or_replay(|done| Err(shown_before(&done.object)))?;
        Ok((view, text.secret))
    }
}

fn check(key: &Key, caller: &Caller, now: Timestamp) -> Result<(), ControlError> {
    let id = &key.id;
    if key.account != caller.account.id {
        return Err(ControlError::Forbidden(format!(
            "only its owner may rotate key `{id}`: the new secret is shown to who asks; \
             `ctl key revoke` ends it"
        )));
    }
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

/// The old key as it is from now on.
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
