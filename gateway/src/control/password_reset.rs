//! Password resets: an operator creates a code, with which the owner of an account sets a new password
//! without the old one.
//!
//! A code is as good as the account that created it: it is refused once its creator may not reset the
//! password of the account any more.

use std::net::IpAddr;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use secrecy::{ExposeSecret, SecretString};

use super::access::{Permission, is_ended};
use super::change::ReplayExt;
use super::passwords::Requester;
use super::{Caller, Control, ControlError, token};
use domain::account::{Account, AccountStatus, PasswordReset};
use domain::audit::{AuditAction, AuditEntry};
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
    /// The account whose password it sets.
    pub account: Arc<Account>,
}

impl Control {
    /// Creates a code with which the owner of `account` can set a new password once, within an hour.
    /// It replaces an earlier code. The present password and sessions work until it is used.
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
        account: &str,
    ) -> Result<NewPasswordReset, ControlError> {
        caller.require(Permission::ResetPasswords)?;
        let id = self.changeable(caller, account, "given a password")?.id;
        if id == caller.account.id {
            return Err(ControlError::InUse(
                "your own password is changed with `ctl account password`".into(),
            ));
        }
        let code = token::make(token::PASSWORD_RESET, &*self.entropy);
        let (by, digest) = (caller.clone(), token::digest(&code));
        let created = self.write(Some(caller), move |control| async move {
            let account = control.current_account(id)?;
            by.require_on(&account, Permission::ResetPasswords)?;
            if is_ended(&account) {
                return Err(ControlError::InUse(format!(
                    "the account `{}` is closed; first run `ctl account resume {0}`",
                    account.name
                )));
            }
            let created_at = control.clock.now();
            let expires_at = created_at.saturating_add(LIFETIME).unwrap_or(Timestamp::MAX);
            let created_by = by.account.id;
            let reset = PasswordReset { digest, account: id, created_by, created_at, expires_at };
            let action = AuditAction::AccountResetPassword;
            let details = format!("until {expires_at}");
            let audit = control.audit_entry(action, &account.name, Some(id), details);
            control.store.add_password_reset(&reset, &audit).await?;
            Ok((expires_at, account))
        });
        let (expires_at, account) = created.await.or_replay(|_| {
            Err(ControlError::Exists(
                "an earlier call with this idempotency key returned the code; create another one"
                    .into(),
            ))
        })?;
        Ok(NewPasswordReset { code, expires_at, account })
    }

    /// Sets the password of the account `name` with a code of
    /// [`create_password_reset`](Self::create_password_reset), and ends all of its sessions. `address`
    /// is the client address; `None` for the Unix socket. A failure counts as a failed sign-in.
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
        let account = self.directory.find_account_named(name);
        let source = Source::of(address);
        let (attempt, check) = self.begin_sign_in(name, account.clone(), source)?;
        let outcome = self.use_code(address, account, token::digest(code), password).await;
        self.conclude(attempt, check, outcome)
    }

    async fn use_code(
        self: &Arc<Self>,
        address: Option<IpAddr>,
        account: Option<Arc<Account>>,
        digest: [u8; 32],
        password: SecretString,
    ) -> Result<(), ControlError> {
        // Saves the cost of the hash; checked again below, where changes are serialized.
        let account = self.account_of_code(account.as_deref(), digest).await?;
        let requester = Requester { source: Source::of(address), is_trusted: true };
        let hash = self.passwords.hash(requester, password).await?;
        self.write(None, move |control| async move {
            let account = control.account_of_code(Some(&account), digest).await?;
            let action = AuditAction::AccountPassword;
            let details = "with a code of an operator";
            let audit = control.audit_entry(action, &account.name, Some(account.id), details);
            let audit = AuditEntry { address: Some(CallAddress::of(address)), ..audit };
            let used = control.store.use_password_reset(digest, &hash, &audit).await;
            used.map_err(|error| match error {
                StoreError::NotFound => refused(),
                error => error.into(),
            })
        })
        .await
    }

    /// Returns the present state of `account` if the code with `digest` is valid for it now. Also
    /// without an account, the code is looked up, so that both cases take the same time.
    async fn account_of_code(
        &self,
        account: Option<&Account>,
        digest: [u8; 32],
    ) -> Result<Arc<Account>, ControlError> {
        let reset = self.store.find_password_reset(digest).await?;
        let reset = reset
            .filter(|reset| account.is_some_and(|account| account.id == reset.account))
            .filter(|reset| self.clock.now() < reset.expires_at)
            .ok_or_else(refused)?;
        let account = self.directory.find_account(reset.account);
        let account = account.filter(|account| !is_ended(account)).ok_or_else(refused)?;
        let may_reset = |creator: Arc<Account>| {
            creator.status == AccountStatus::Active
                && Permission::ResetPasswords.is_held_by(&creator)
                && creator.role >= account.role
        };
        let creator = self.directory.find_account(reset.created_by);
        if creator.is_some_and(may_reset) { Ok(account) } else { Err(refused()) }
    }
}

fn refused() -> ControlError {
    ControlError::Unauthenticated(
        "the name or the code is wrong, or the code was used, replaced or has expired; ask an \
         operator of this gateway for a new one"
            .into(),
    )
}
