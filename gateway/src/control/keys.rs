//! API keys: creation, listing and revocation.
//!
//! A key's secret is returned once, at creation; only its digest is stored. Revocation takes effect
//! with the next request.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use secrecy::SecretString;

use super::access::Permission;
use super::change::{ChangeContext, ReplayExt};
use super::plans::check_limits;
use super::{Caller, Control, ControlError, MAX_BALANCE};
use domain::ValidationError;
use domain::audit::AuditAction;
use domain::audit_diff;
use domain::id::{AccountId, KeyId, ModelId};
use domain::key::{ClientGone, Key, NewKeyText, Translation};
use domain::limit::Limits;
use domain::money::Nanos;
use domain::text::has_hidden;

const MAX_LABEL_CHARS: usize = 64;
const MAX_DRAIN: Duration = Duration::from_hours(1);

/// A request to create a key.
#[derive(Clone, Debug, Default)]
pub struct NewKey {
    /// The label: 1 to 64 characters.
    pub label: String,
    /// The limits of the key, in addition to those of plan and model.
    pub limits: Limits,
    /// The maximum total spend; `None` for no cap.
    pub spend_cap: Option<Nanos>,
    /// The allowed models, by id or alias; empty means all models of the plan.
    pub models: Vec<String>,
    /// How `/v1/responses` handles parameters that it cannot translate.
    pub translation: Translation,
    /// How a request continues after its client disconnects.
    pub client_gone: ClientGone,
    /// When the key expires; `None` for never.
    pub expires_at: Option<Timestamp>,
}

/// A key with its account's name and its last use.
#[derive(Clone, Debug)]
pub struct KeyView {
    /// The key.
    pub key: Key,
    /// The name of its account.
    pub account: String,
    /// The name of the account or the person that created it; `None` if that is not known.
    pub created_by: Option<String>,
    /// When it was last used; `None` if it never was.
    pub last_used_at: Option<Timestamp>,
}

/// The accounts whose keys are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyScope<'a> {
    /// The caller's account.
    Caller,
    /// The account with this name or id.
    Account(&'a str),
    /// All accounts; operators only.
    All,
}

impl Control {
    /// Creates a key for the caller's account. Returns the secret, which cannot be retrieved later.
    ///
    /// # Errors
    /// [`ControlError::Invalid`] if a field is invalid, [`ControlError::InUse`] if the account has
    /// all keys that its plan allows, [`ControlError::Exists`] if an earlier call with the same
    /// idempotency key created the key.
    pub async fn create_key(
        self: &Arc<Self>,
        caller: &Caller,
        request: NewKey,
    ) -> Result<(KeyView, SecretString), ControlError> {
        let label = check_label(&request.label)?;
        check_limits(&request.limits)?;
        check_client_gone(request.client_gone)?;
        check_spend_cap(request.spend_cap)?;
        let models = self.resolve_models(caller, &request.models)?;
        let now = self.clock.now();
        check_expiry(request.expires_at, now)?;
        let text = self.new_key_text();
        let key = Key {
            origin: text.id.clone(),
            id: text.id,
            digest: text.digest,
            account: caller.account.id,
            label,
            limits: request.limits,
            spend_cap: request.spend_cap,
            models,
            translation: request.translation,
            client_gone: request.client_gone,
            trace_content: false,
            created_by: Some(caller.id()),
            created_at: now,
            expires_at: request.expires_at,
            revoked_at: None,
            successor: None,
        };
        let view = self
            .write(Some(caller), move |control| async move {
                control.check_key_count(key.account).await?;
                let details = audit_diff::describe(&key);
                let audit = control.audit_entry(
                    AuditAction::KeyCreate,
                    key.id.as_str(),
                    Some(key.account),
                    details,
                );
                control.store.add_key(&key, &audit).await?;
                control.directory.put_key(key.clone());
                Ok(control.key_view(key, None))
            })
            .await
            .or_replay(|done| Err(secret_already_shown(&done.object)))?;
        Ok((view, text.secret))
    }

    /// Lists keys, newest first, including revoked ones.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for [`KeyScope::All`] by a member, [`ControlError::NotFound`]
    /// for an account that does not exist or that the caller may not see.
    pub async fn list_keys(
        &self,
        caller: &Caller,
        of: KeyScope<'_>,
    ) -> Result<Vec<KeyView>, ControlError> {
        let account = match of {
            KeyScope::Caller => Some(caller.account.id),
            KeyScope::Account(text) => Some(self.visible_account(caller, text)?.id),
            KeyScope::All => {
                caller.require(Permission::ReadAll)?;
                None
            }
        };
        self.ledger.wait_until_stored().await;
        let keys = self.store.keys(account).await?;
        Ok(keys.into_iter().map(|(key, last_used_at)| self.key_view(key, last_used_at)).collect())
    }

    /// Revokes a key; the next request with it is refused. Idempotent.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if it does not exist or the caller may not see it.
    pub async fn revoke_key(
        self: &Arc<Self>,
        caller: &Caller,
        id: &str,
    ) -> Result<KeyView, ControlError> {
        let (key, _) = self.visible_key(caller, &KeyId::new(id)).await?;
        self.require_on_key(caller, &key, Permission::RevokeKeys)?;
        let id = key.id.clone();
        let revoked = self.write(Some(caller), move |control| async move {
            if key.revoked_at.is_none() {
                let label = format!("label `{}`", key.label);
                let audit = control.audit_entry(
                    AuditAction::KeyRevoke,
                    id.as_str(),
                    Some(key.account),
                    label,
                );
                control.store.revoke_key(&key.id, control.clock.now(), &audit).await?;
            }
            // Read again, because the store keeps the time of an earlier revocation.
            let found = control.store.find_key(&id).await;
            let (key, last_used_at) = match found {
                Ok(found) => found.unwrap_or((key, None)),
                Err(error) => {
                    // The store has the revocation, so memory must have it, although the call
                    // fails.
                    let revoked_at = Some(control.clock.now());
                    control.directory.put_key(Key { revoked_at, ..key });
                    return Err(error.into());
                }
            };
            control.directory.put_key(key.clone());
            Ok(control.key_view(key, last_used_at))
        });
        match revoked.await {
            Err(ControlError::Repeated(done)) => {
                let found = self.store.find_key(&KeyId::new(done.object.as_str())).await?;
                let found = found.ok_or_else(|| ControlError::missing("key", &done.object));
                let (key, last_used_at) = found?;
                Ok(self.key_view(key, last_used_at))
            }
            outcome => outcome,
        }
    }

    /// Finds a key that `caller` may see, with the time of its last use.
    pub(super) async fn visible_key(
        &self,
        caller: &Caller,
        id: &KeyId,
    ) -> Result<(Key, Option<Timestamp>), ControlError> {
        let found = self.store.find_key(id).await?;
        let visible = found.filter(|(key, _)| caller.can_see(key.account));
        visible.ok_or_else(|| ControlError::missing("key", id.as_str()))
    }

    /// Returns a key with the names that belong to it.
    pub(super) fn key_view(&self, key: Key, last_used_at: Option<Timestamp>) -> KeyView {
        let created_by = key.created_by.map(|id| self.name_of(id));
        KeyView { account: self.name_of(key.account), created_by, key, last_used_at }
    }

    /// Refuses an act on a key of another account without `permission`, or with a smaller role than that
    /// of its account; and an act of a person that is not an admin on a key that it has not created.
    pub(super) fn require_on_key(
        &self,
        caller: &Caller,
        key: &Key,
        permission: Permission,
    ) -> Result<(), ControlError> {
        if key.account == caller.account.id {
            return require_own_key(caller, key);
        }
        caller.require(permission)?;
        let owner = self.directory.find_account(key.account);
        owner.map_or(Ok(()), |owner| caller.require_on(&owner, permission))
    }

    /// Generates the id, secret and digest of a new key.
    pub(super) fn new_key_text(&self) -> NewKeyText {
        let mut random = zeroize::Zeroizing::new([0; NewKeyText::RANDOM_BYTES]);
        self.entropy.fill(random.as_mut_slice());
        NewKeyText::new(&random)
    }

    /// Resolves model ids and aliases to the ids of models that the caller may use.
    pub(super) fn resolve_models(
        &self,
        caller: &Caller,
        names: &[String],
    ) -> Result<Vec<ModelId>, ControlError> {
        let mut ids = Vec::with_capacity(names.len());
        for name in names {
            let model = self
                .visible_model(caller, name)
                .map_err(|error| ValidationError::new("models", error.to_string()))?;
            if !ids.contains(&model.id) {
                ids.push(model.id.clone());
            }
        }
        Ok(ids)
    }
}

impl ChangeContext {
    /// Refuses another key if the account has all that its plan allows. An account with more keeps
    /// them.
    async fn check_key_count(&self, account: AccountId) -> Result<(), ControlError> {
        let missing = || ControlError::missing("account", &account.to_string());
        let owner = self.directory.find_account(account).ok_or_else(missing)?;
        let plan = self.plan_of(&owner)?;
        let usable = self.store.count_usable_keys(account, self.clock.now()).await?;
        if usable < u64::from(plan.max_keys) {
            return Ok(());
        }
        Err(ControlError::InUse(format!(
            "the account has {usable} usable keys, and its plan `{}` allows {}; revoke one that is no longer \
             needed (`ctl key list`, `ctl key revoke`), or ask the operator for a plan with more \
             (`ctl plan set {} --max-keys N`)",
            plan.name, plan.max_keys, plan.name
        )))
    }
}

/// Refuses a person that is not an admin of its account, unless it created the key.
pub(super) fn require_own_key(caller: &Caller, key: &Key) -> Result<(), ControlError> {
    if key.created_by == Some(caller.id()) {
        return Ok(());
    }
    caller.require_admin("change keys that others created")
}

/// Returns the error for the replay of a call that created a secret: only its digest is stored.
pub(super) fn secret_already_shown(key: &str) -> ControlError {
    ControlError::Exists(format!(
        "an earlier call with this idempotency key returned the secret of key `{key}`; \
         `ctl key list` shows the keys, `ctl key revoke` revokes one whose secret is lost"
    ))
}

pub(super) fn check_client_gone(client_gone: ClientGone) -> Result<(), ValidationError> {
    match client_gone {
        ClientGone::Drain(limit) if limit.is_zero() || limit > MAX_DRAIN => {
            let most = MAX_DRAIN.as_secs();
            let message = format!("`drain_seconds` must be 1 to {most}");
            Err(ValidationError::new("drain_seconds", message))
        }
        ClientGone::Drain(_) | ClientGone::Cancel => Ok(()),
    }
}

pub(super) fn check_spend_cap(cap: Option<Nanos>) -> Result<(), ValidationError> {
    if cap.is_some_and(|cap| cap <= Nanos::ZERO || cap > MAX_BALANCE) {
        let message = format!(
            "`spend_cap_usd` must be above 0 and at most {MAX_BALANCE}; leave it out for no cap"
        );
        return Err(ValidationError::new("spend_cap_usd", message));
    }
    Ok(())
}

/// Refuses an expiry that is not after `now`.
pub(super) fn check_expiry(
    expires_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), ValidationError> {
    if expires_at.is_some_and(|end| end <= now) {
        let message = "`expires_at` must be in the future";
        return Err(ValidationError::new("expires_at", message));
    }
    Ok(())
}

pub(super) fn check_label(label: &str) -> Result<String, ValidationError> {
    let label = label.trim();
    if label.is_empty() || label.chars().count() > MAX_LABEL_CHARS {
        let message = format!("`label` must have 1 to {MAX_LABEL_CHARS} characters");
        return Err(ValidationError::new("label", message));
    }
    if has_hidden(label) {
        let message = "`label` must not contain control or invisible characters";
        return Err(ValidationError::new("label", message));
    }
    Ok(label.to_owned())
}
