//! Password changes, which end all other sessions of the account.

use std::net::IpAddr;
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};

use super::passwords::Requester;
use super::{Caller, Control, ControlError};
use domain::account::Account;
use domain::audit::AuditAction;
use domain::source::Source;
use store::StoreError;

impl Control {
    /// Changes the caller's password and ends all of its sessions but the current
    /// one. `address` is the client address; `None` for the Unix socket. Returns the number of
    /// ended sessions.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] if the old password is wrong, or for the operator token, which
    /// has none; [`ControlError::Invalid`] if the new one is too short or too long;
    /// [`ControlError::Limited`] after too many wrong passwords; [`ControlError::Busy`] if too many
    /// passwords are being verified.
    pub async fn change_password(
        self: &Arc<Self>,
        caller: &Caller,
        address: Option<IpAddr>,
        old: SecretString,
        new: SecretString,
    ) -> Result<u64, ControlError> {
        if caller.session.is_none() {
            return Err(ControlError::Forbidden(
                "the operator token has no password; `ctl operator-token rotate` replaces it"
                    .into(),
            ));
        }
        // A replay cannot be verified: the old password was replaced by the first call.
        if self.find_completed_call(caller).await?.is_some() {
            return Ok(0);
        }
        let (identity, keep) = (caller.identity(), caller.session);
        Account::check_new_password(new.expose_secret())?;
        let hash = self.store.find_password_hash(identity.name()).await?.map(|(_, hash)| hash);
        self.check_own_password(caller, address, old, hash.clone()).await?;
        let requester = Requester { source: Source::Local, is_trusted: true };
        let new_hash = self.passwords.hash(requester, new).await?;
        self.write(Some(caller), move |control| async move {
            let audit = control.audit_entry(
                AuditAction::AccountPassword,
                identity.name(),
                Some(identity.account.id),
                "",
            );
            let former = hash.unwrap_or_default();
            let set = control.store.set_password(identity.id(), &former, &new_hash, keep, &audit);
            match set.await {
                // It was changed since it was verified.
                Err(StoreError::NotFound) => {
                    Err(ControlError::Forbidden("the old password is wrong".into()))
                }
                set => Ok(set?),
            }
        })
        .await
    }
}
