//! Password resets: an operator creates a code, with which the owner of an account, or a person, sets a new password
//! without the old one. The owner and the admins of an account create codes for its people.
//!
//! A code is as good as its creator: it is refused once its creator may not reset that
//! password any more.

use std::net::IpAddr;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use secrecy::{ExposeSecret, SecretString};

use super::access::{Permission, is_ended};
use super::change::ReplayExt;
use super::passwords::Requester;
use super::people::require_management;
use super::{Caller, Control, ControlError, Identity, token};
use domain::account::{Account, AccountStatus, PasswordReset};
use domain::audit::{AuditAction, AuditEntry};
use domain::id::AccountId;
use domain::person::PersonRole;
use domain::source::{CallAddress, Source};
use store::StoreError;

/// The lifetime of a code.
const LIFETIME: SignedDuration = SignedDuration::from_hours(1);

/// A new code.
#[derive(Debug)]
pub struct NewPasswordReset {
    /// The code. Only its digest is stored, so it cannot be shown again.
    pub code: SecretString,
    /// When the code expires.
    pub expires_at: Timestamp,
    /// Whose password it sets.
    pub identity: Identity,
}

impl Control {
    /// Creates a code with which the owner of the account, or the person, `name` can set a new password once,
    /// within an hour. It replaces an earlier code. The present password and sessions work until it is used.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] without the permission and for accounts with a greater role than the
    /// caller's, [`ControlError::NotFound`] if it does not exist, [`ControlError::InUse`] for the
    /// caller's own account, for the built-in one, which has no password, and for closed ones;
    /// [`ControlError::Exists`] if the code was returned to an earlier call with the same idempotency
    /// key.
    pub async fn create_password_reset(
        self: &Arc<Self>,
        caller: &Caller,
        name: &str,
    ) -> Result<NewPasswordReset, ControlError> {
        let id = self.resettable(caller, name)?;
        if id == caller.id() {
            return Err(ControlError::InUse(
                "your own password is changed with `ctl account password`".into(),
            ));
        }
        let code = token::make(token::PASSWORD_RESET, &*self.entropy);
        let (by, digest) = (caller.clone(), token::digest(&code));
        let created = self.write(Some(caller), move |control| async move {
            let missing = || ControlError::missing("account", &id.to_string());
            let identity = control.find_identity(id).ok_or_else(missing)?;
            let account = control.current_account(identity.account.id)?;
            match &identity.person {
                Some(person) if person.is_removed => return Err(missing()),
                Some(_) => require_management(&by, &account)?,
                None => by.require_on(&account, Permission::ResetPasswords)?,
            }
            if is_ended(&account) {
                return Err(ControlError::InUse(format!(
                    "the account `{}` is closed; first run `ctl account resume {0}`",
                    account.name
                )));
            }
            let created_at = control.clock.now();
            let expires_at = created_at.saturating_add(LIFETIME).unwrap_or(Timestamp::MAX);
            let created_by = by.id();
            let reset = PasswordReset { digest, account: id, created_by, created_at, expires_at };
            let action = AuditAction::AccountResetPassword;
            let details = format!("until {expires_at}");
            let audit = control.audit_entry(action, identity.name(), Some(account.id), details);
            control.store.add_password_reset(&reset, &audit).await?;
            Ok((expires_at, identity))
        });
        let (expires_at, identity) = created.await.or_replay(|_| {
            Err(ControlError::Exists(
                "an earlier call with this idempotency key returned the code; create another one"
                    .into(),
            ))
        })?;
        Ok(NewPasswordReset { code, expires_at, identity })
    }

    /// Finds whose password `caller` may reset: a person of an account whose people it manages, or the owner of an
    /// account.
    fn resettable(&self, caller: &Caller, name: &str) -> Result<AccountId, ControlError> {
        if let Ok(person) = self.visible_person(caller, name) {
            return Ok(person.id);
        }
        caller.require(Permission::ResetPasswords)?;
        Ok(self.changeable(caller, name, "given a password")?.id)
    }

    /// Sets the password of the account or the person `name` with a code of
    /// [`create_password_reset`](Self::create_password_reset) or [`add_person`](Self::add_person), and ends all of
    /// its sessions. `address` is the client address; `None` for the Unix socket. A failure counts as a failed sign-in.
    ///
    /// # Errors
    /// [`ControlError::Unauthenticated`] if the code is not valid for the account or the account does
    /// not exist, [`ControlError::Invalid`] if the password is too short or too long,
    /// [`ControlError::Limited`] after too many failures, [`ControlError::Busy`] if too many passwords
    /// are being verified.
    pub async fn reset_password(
        self: &Arc<Self>,
        address: Option<IpAddr>,
        name: &str,
        code: &SecretString,
        password: SecretString,
    ) -> Result<(), ControlError> {
        Account::check_new_password(password.expose_secret())?;
        let identity = self.find_identity_named(name);
        let source = Source::of(address);
        let (attempt, check) = self.begin_sign_in(name, identity.as_ref(), source)?;
        let outcome =
            self.use_code(address, identity.map(|it| it.id()), token::digest(code), password).await;
        self.conclude(attempt, check, outcome)
    }

    async fn use_code(
        self: &Arc<Self>,
        address: Option<IpAddr>,
        id: Option<AccountId>,
        digest: [u8; 32],
        password: SecretString,
    ) -> Result<(), ControlError> {
        // Saves the cost of the hash; checked again below, where changes are serialized.
        self.identity_of_code(id, digest).await?;
        let requester = Requester { source: Source::of(address), is_trusted: true };
        let hash = self.passwords.hash(requester, password).await?;
        self.write(None, move |control| async move {
            let identity = control.identity_of_code(id, digest).await?;
            let action = AuditAction::AccountPassword;
            let (name, account) = (identity.name(), Some(identity.account.id));
            let audit = control.audit_entry(action, name, account, "with a code");
            let (actor, address) = (Some(identity.id()), Some(CallAddress::of(address)));
            let audit = AuditEntry { actor, address, ..audit };
            let used = control.store.use_password_reset(digest, &hash, &audit).await;
            used.map_err(|error| match error {
                StoreError::NotFound => refused(),
                error => error.into(),
            })
        })
        .await
    }

    /// Returns the account or the person with `id` if the code with `digest` is valid for it now. Also
    /// without an id, the code is looked up, so that both cases take the same time.
    async fn identity_of_code(
        &self,
        id: Option<AccountId>,
        digest: [u8; 32],
    ) -> Result<Identity, ControlError> {
        let reset = self.store.find_password_reset(digest).await?;
        let reset = reset
            .filter(|reset| id == Some(reset.account))
            .filter(|reset| self.clock.now() < reset.expires_at)
            .ok_or_else(refused)?;
        let identity = self.find_identity(reset.account).filter(|it| !is_ended(&it.account));
        let identity = identity.ok_or_else(refused)?;
        let creator = self.find_identity(reset.created_by);
        let is_valid = creator.is_some_and(|creator| may_reset(&creator, &identity));
        if is_valid { Ok(identity) } else { Err(refused()) }
    }
}

/// Whether `creator` may reset the password of `identity` now.
fn may_reset(creator: &Identity, identity: &Identity) -> bool {
    if creator.account.status != AccountStatus::Active {
        return false;
    }
    let is_own_person = identity.person.is_some() && creator.account.id == identity.account.id;
    if let Some(creator) = &creator.person {
        return is_own_person && !creator.is_removed && creator.role == PersonRole::Admin;
    }
    let is_operator = Permission::ResetPasswords.is_held_by(&creator.account)
        && creator.account.role >= identity.account.role;
    is_own_person || is_operator
}

fn refused() -> ControlError {
    ControlError::Unauthenticated(
        "the name or the code is wrong, or the code was used, replaced or has expired; ask who gave it to you \
         for a new one"
            .into(),
    )
}
