//! API keys: made for the caller, shown once, revoked at once.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use secrecy::SecretString;

use super::change::Again;
use super::plans::check_limits;
use super::{Caller, Control, ControlError, MAX_BALANCE};
use domain::Invalid;
use domain::audit::AuditAction;
use domain::difference;
use domain::id::{AccountId, KeyId, ModelId};
use domain::key::{ClientGone, Key, NewKeyText, Translation};
use domain::limit::Limits;
use domain::money::Nanos;
use domain::text::has_hidden;
use store::StoreError;

const MAX_LABEL_CHARS: usize = 64;
const MAX_DRAIN: Duration = Duration::from_hours(1);

/// What a caller may choose of a new key.
#[derive(Clone, Debug, Default)]
pub struct NewKey {
    /// What to call it: 1 to 64 characters.
    pub label: String,
    /// Its own limits.
    pub limits: Limits,
    /// The most that it may spend in all.
    pub spend_cap: Option<Nanos>,
    /// The models that it may use, by id or alias; empty means all that the plan allows.
    pub models: Vec<String>,
    /// What happens to what `/v1/responses` cannot translate.
    pub translation: Translation,
    /// What becomes of a request whose client goes away.
    pub client_gone: ClientGone,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
}

/// A key with what lists show of it.
#[derive(Clone, Debug)]
pub struct KeyView {
    /// The key.
    pub key: Key,
    /// The name of its account.
    pub account: String,
    /// When it was last used.
    pub last_used_at: Option<Timestamp>,
}

/// Whose keys to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyScope<'a> {
    /// The caller's.
    Caller,
    /// Of the account with this name or id.
    Account(&'a str),
    /// Everybody's.
    All,
}

impl Control {
    /// Makes a key for the caller's account; the text leaves the system here only.
    ///
    /// # Errors
    /// [`ControlError::Invalid`] if a wish breaks a rule.
    pub async fn create_key(
        self: &Arc<Self>,
        caller: &Caller,
        wish: NewKey,
    ) -> Result<(KeyView, SecretString), ControlError> {
        let label = check_label(&wish.label)?;
        check_limits(&wish.limits)?;
        check_client_gone(wish.client_gone)?;
        check_spend_cap(wish.spend_cap)?;
        let models = self.resolve_models(caller, &wish.models)?;
        let now = self.clock.now();
        if wish.expires_at.is_some_and(|end| end <= now) {
            return Err(Invalid::new("expires_at", "`expires_at` must be in the future").into());
        }
        let text = self.new_key_text();
        let key = Key {
            origin: text.id.clone(),
            id: text.id,
            digest: text.digest,
            account: caller.account.id,
            label,
            limits: wish.limits,
            spend_cap: wish.spend_cap,
            models,
            translation: wish.translation,
            client_gone: wish.client_gone,
            created_at: now,
            expires_at: wish.expires_at,
            revoked_at: None,
            successor: None,
        };
        let account = caller.account.name.clone();
        let view = self
            .write(Some(caller), move |control| async move {
                let details = difference::all_of(&key);
                let audit = control.entry(
                    AuditAction::KeyCreate,
                    key.id.as_str(),
                    Some(key.account),
                    details,
                );
                control.store.add_key(&key, &audit).await?;
                control.directory.put_key(key.clone());
                Ok(KeyView { key, account, last_used_at: None })
            })
            .await
            .or_replay(|done| Err(shown_before(&done.object)))?;
        Ok((view, text.secret))
    }

    /// Lists keys, newest first, the revoked ones included.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] if a member asks for all, [`ControlError::NotFound`] for an account
    /// that does not exist or is not the caller's to see.
    pub async fn list_keys(
        &self,
        caller: &Caller,
        of: KeyScope<'_>,
    ) -> Result<Vec<KeyView>, ControlError> {
        let account = match of {
            KeyScope::Caller => Some(caller.account.id),
            KeyScope::Account(text) => Some(self.visible_account(caller, text)?.id),
            KeyScope::All => {
                caller.require_operator("list the keys of all accounts")?;
                None
            }
        };
        self.ledger.flushed().await;
        let keys = self.store.keys(account).await?;
        let view = |(key, last_used_at): (Key, _)| KeyView {
            account: self.account_name(key.account),
            key,
            last_used_at,
        };
        Ok(keys.into_iter().map(view).collect())
    }

    /// Revokes a key; the next request with it is refused. Revoking twice is no error.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if it does not exist or is not the caller's to see.
    pub async fn revoke_key(
        self: &Arc<Self>,
        caller: &Caller,
        id: &str,
    ) -> Result<KeyView, ControlError> {
        let found = self.store.find_key(&KeyId::new(id)).await?;
        let key = found
            .filter(|key| caller.sees(key.account))
            .ok_or_else(|| ControlError::missing("key", id))?;
        let (id, account) = (key.id.clone(), key.account);
        let revoked = self.write(Some(caller), move |control| async move {
            if key.revoked_at.is_none() {
                let label = format!("label `{}`", key.label);
                let audit =
                    control.entry(AuditAction::KeyRevoke, id.as_str(), Some(key.account), label);
                control.store.revoke_key(&key.id, control.clock.now(), &audit).await?;
            }
            // read again: the time of an earlier revocation stays
            let found = control.listed_key(key.account, &id).await;
            let (key, last_used_at) = match found {
                Ok(found) => found.unwrap_or((key, None)),
                Err(error) => {
                    // it is revoked in the store, so it must be here, whatever the answer is
                    let revoked_at = Some(control.clock.now());
                    control.directory.put_key(Key { revoked_at, ..key });
                    return Err(error.into());
                }
            };
            control.directory.put_key(key.clone());
            Ok(KeyView { account: control.account_name(key.account), key, last_used_at })
        });
        match revoked.await {
            Err(ControlError::Repeated(done)) => {
                let found = self.listed_key(account, &KeyId::new(done.object.as_str())).await?;
                let found = found.ok_or_else(|| ControlError::missing("key", &done.object));
                let (key, last_used_at) = found?;
                Ok(KeyView { account: self.account_name(account), key, last_used_at })
            }
            outcome => outcome,
        }
    }

    /// Finds a key of an account, with the time of its last use.
    async fn listed_key(
        &self,
        account: AccountId,
        id: &KeyId,
    ) -> Result<Option<(Key, Option<Timestamp>)>, StoreError> {
        let keys = self.store.keys(Some(account)).await?;
        Ok(keys.into_iter().find(|(key, _)| key.id == *id))
    }

    /// Makes the text of a new key.
    pub(super) fn new_key_text(&self) -> NewKeyText {
        let mut random = zeroize::Zeroizing::new([0; NewKeyText::RANDOM_BYTES]);
        self.entropy.fill(random.as_mut_slice());
        NewKeyText::new(&random)
    }

    /// Turns ids and aliases into ids of models that the caller may use.
    pub(super) fn resolve_models(
        &self,
        caller: &Caller,
        names: &[String],
    ) -> Result<Vec<ModelId>, ControlError> {
        let mut ids = Vec::with_capacity(names.len());
        for name in names {
            let model = self
                .visible_model(caller, name)
                .map_err(|error| Invalid::new("models", error.to_string()))?;
            if !ids.contains(&model.id) {
                ids.push(model.id.clone());
            }
        }
        Ok(ids)
    }
}

/// What a call that made a secret says when it is made again.
pub(super) fn shown_before(key: &str) -> ControlError {
    ControlError::Exists(format!(
        "this call was made before, for key `{key}`, and the secret was shown then; `ctl key list` shows \
         what there is, `ctl key revoke` ends a key whose secret is lost"
    ))
}

fn check_client_gone(client_gone: ClientGone) -> Result<(), Invalid> {
    match client_gone {
        ClientGone::Drain(limit) if limit.is_zero() || limit > MAX_DRAIN => {
            let most = MAX_DRAIN.as_secs();
            let message = format!("`drain_seconds` must be 1 to {most}");
            Err(Invalid::new("drain_seconds", message))
        }
        ClientGone::Drain(_) | ClientGone::Cancel => Ok(()),
    }
}

fn check_spend_cap(cap: Option<Nanos>) -> Result<(), Invalid> {
    if cap.is_some_and(|cap| cap <= Nanos::ZERO || cap > MAX_BALANCE) {
        let message = format!(
            "`spend_cap_usd` must be above 0 and at most {MAX_BALANCE}; leave it out for no cap"
        );
        return Err(Invalid::new("spend_cap_usd", message));
    }
    Ok(())
}

fn check_label(label: &str) -> Result<String, Invalid> {
    let label = label.trim();
    if label.is_empty() || label.chars().count() > MAX_LABEL_CHARS {
        let message = format!("`label` must have 1 to {MAX_LABEL_CHARS} characters");
        return Err(Invalid::new("label", message));
    }
    if has_hidden(label) {
        let message = "`label` must not contain control or invisible characters";
        return Err(Invalid::new("label", message));
    }
    Ok(label.to_owned())
}
