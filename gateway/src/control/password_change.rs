//! Changing a password, which ends all other sessions of its account.

use std::net::IpAddr;
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};

use super::passwords::Requester;
use super::{Caller, Control, ControlError};
use domain::account::Account;
use domain::audit::AuditAction;
use domain::source::Source;

impl Control {
    /// Gives the caller's account another password and ends all its sessions but the one that asks; `address` is
    /// where the call comes from, unless by the Unix socket. Returns how many sessions ended.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] if the old one is wrong, or for the operator token, which has none;
    /// [`ControlError::Invalid`] if the new one is too short or too long; [`ControlError::Limited`] after
    /// too many wrong ones; [`ControlError::Busy`] if too many are signing in.
    pub async fn change_password(
        self: &Arc<Self>,
        caller: &Caller,
        address: Option<IpAddr>,
        old: SecretString,
        new: SecretString,
    ) -> Result<u64, ControlError> {
        if caller.session == self.operator_token {
            return Err(ControlError::Forbidden(
                "the operator token has no password; delete `operator.token` in the data \
                 directory and restart the gateway to replace it"
                    .into(),
            ));
        }
        // the old password does not fit any more when it was changed before
        if self.find_done(caller).await?.is_some() {
            return Ok(0);
        }
        let (account, keep) = (caller.account.clone(), caller.session);
        Account::check_new_password(new.expose_secret())?;
        let hash = self.store.find_password_hash(&account.name).await?.map(|(_, hash)| hash);
        self.check_own_password(caller, address, old, hash.clone()).await?;
        let requester = Requester { source: Source::Local, is_trusted: true };
        let new_hash = self.passwords.hash(requester, new).await?;
        self.write(Some(caller), move |control| async move {
            let stored = control.store.find_password_hash(&account.name).await?;
            if stored.map(|(_, hash)| hash) != hash {
                return Err(ControlError::Forbidden("the old password is wrong".into()));
            }
            let audit =
                control.entry(AuditAction::AccountPassword, &account.name, Some(account.id), "");
            Ok(control.store.set_password(account.id, &new_hash, keep, &audit).await?)
        })
        .await
    }
}
