//! Signing in and out, and who a token belongs to.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use secrecy::SecretString;

use super::accounts::AccountView;
use super::{Caller, Control, ControlError, token};
use crate::domain::account::{Account, AccountStatus, Session};

/// How long a session lasts.
const LIFETIME: SignedDuration = SignedDuration::from_hours(30 * 24);

/// A new session.
#[derive(Debug)]
pub struct SignedIn {
    /// Its token; it leaves the system once.
    pub token: SecretString,
    /// When it ends by itself.
    pub expires_at: Timestamp,
    /// Who signed in.
    pub account: AccountView,
}

impl Control {
    /// Checks a password and opens a session. An unknown name costs and reads the same as a wrong
    /// password.
    ///
    /// # Errors
    /// [`ControlError::Unauthenticated`] if the two do not fit, [`ControlError::Forbidden`] if the
    /// account is suspended, [`ControlError::Busy`] if too many are signing in.
    pub async fn sign_in(
        &self,
        name: &str,
        password: SecretString,
    ) -> Result<SignedIn, ControlError> {
        let account = self.directory.find_account_named(name);
        // asked for unknown names, too: both must cost the same
        let stored_name = account.as_ref().map_or(name, |account| &account.name);
        let stored = self.store.find_password_hash(stored_name).await?;
        let fits = self.passwords.verify(password, stored.map(|(_, hash)| hash)).await?;
        let account = account.filter(|_| fits).ok_or_else(|| {
            ControlError::Unauthenticated(
                "wrong name or password; `ctl register` makes an account".into(),
            )
        })?;
        refuse_suspended(&account)?;

        let token = token::make(token::SESSION, &*self.entropy);
        let now = self.clock.now();
        let session = Session {
            digest: token::digest(&token),
            account: account.id,
            created_at: now,
            expires_at: now.saturating_add(LIFETIME).unwrap_or(Timestamp::MAX),
        };
        self.store.add_session(&session).await?;
        Ok(SignedIn { token, expires_at: session.expires_at, account: self.view(account) })
    }

    /// Ends the caller's session.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for the operator token, which has none.
    pub async fn sign_out(&self, caller: &Caller) -> Result<(), ControlError> {
        if caller.session == self.operator_token {
            return Err(ControlError::Forbidden(
                "the operator token has no session to end; to replace it, delete \
                 `operator.token` in the data directory and restart the gateway"
                    .into(),
            ));
        }
        Ok(self.store.remove_session(caller.session).await?)
    }

    /// Returns who a session token or the operator token belongs to.
    ///
    /// # Errors
    /// [`ControlError::Unauthenticated`] if it is unknown or has ended, [`ControlError::Forbidden`] if
    /// the account is suspended.
    pub async fn authenticate(&self, token: &SecretString) -> Result<Caller, ControlError> {
        let digest = token::digest(token);
        // a digest may be compared in the plain way: who can choose it cannot choose its preimage
        let account = if digest == self.operator_token {
            self.directory.find_account_named(crate::domain::account::OPERATOR)
        } else {
            let session = self.store.find_session(digest).await?;
            session
                .filter(|session| self.clock.now() < session.expires_at)
                .and_then(|session| self.directory.find_account(session.account))
        };
        let account = account.ok_or_else(|| {
            ControlError::Unauthenticated(
                "the session has ended or is unknown; sign in with `ctl login`".into(),
            )
        })?;
        refuse_suspended(&account)?;
        Ok(Caller { account, session: digest })
    }
}

fn refuse_suspended(account: &Arc<Account>) -> Result<(), ControlError> {
    match account.status {
        AccountStatus::Active => Ok(()),
        AccountStatus::Suspended => Err(ControlError::Forbidden(
            "this account is suspended; ask the operator of this gateway".into(),
        )),
    }
}
