//! Sessions: listing, revocation and authentication of their tokens. `sign_in` opens them.

use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use secrecy::SecretString;

use super::access::is_ended;
use super::accounts::AccountView;
use super::change::ReplayExt;
use super::{Caller, Control, ControlError, token};
use domain::account::Session;
use domain::audit::{AuditAction, AuditEntry};
use domain::id::SessionId;
use domain::person::Person;
use domain::source::CallAddress;
use store::StoreError;

/// A new session.
#[derive(Debug)]
pub struct SignedIn {
    /// The token. Only its digest is stored, so it cannot be shown again.
    pub token: SecretString,
    /// When the session expires.
    pub expires_at: Timestamp,
    /// The account that the session acts for.
    pub account: AccountView,
    /// The person that signed in; `None` for the owner of the account.
    pub person: Option<Arc<Person>>,
}

/// A session in the list of its account.
#[derive(Clone, Debug)]
pub struct SessionView {
    /// The session.
    pub session: Session,
    /// Whether it is the session of the call.
    pub current: bool,
}

impl Control {
    /// Ends the caller's session, if it has not ended yet. Suspended accounts can sign out, too.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for the operator token, which has no session.
    pub async fn sign_out(self: &Arc<Self>, caller: &Caller) -> Result<(), ControlError> {
        let Some(session) = caller.session else {
            return Err(ControlError::Forbidden(
                "the operator token has no session to end; `ctl operator-token rotate` replaces it"
                    .into(),
            ));
        };
        let (account, owner, address) = (caller.account.id, caller.id(), caller.address);
        let mut sessions = self.store.sessions(owner).await?.into_iter();
        let Some(id) = sessions.find(|it| it.digest == session).map(|it| it.id) else {
            return Ok(());
        };
        self.write(None, move |control| async move {
            let action = AuditAction::SessionRevoke;
            let audit = control.audit_entry(action, id.as_str(), Some(account), "signed out");
            let audit = AuditEntry { actor: Some(owner), address: Some(address), ..audit };
            match control.store.end_session(owner, &id, &audit).await {
                Ok(()) | Err(StoreError::NotFound) => Ok(()),
                Err(error) => Err(error.into()),
            }
        })
        .await
    }

    /// Lists the caller's unexpired sessions, newest first.
    ///
    /// # Errors
    /// [`ControlError::Store`] if the store fails.
    pub async fn list_sessions(&self, caller: &Caller) -> Result<Vec<SessionView>, ControlError> {
        let now = self.clock.now();
        let sessions = self.store.sessions(caller.id()).await?;
        let open = sessions.into_iter().filter(|session| now < session.expires_at);
        let view = |session: Session| SessionView {
            current: Some(session.digest) == caller.session,
            session,
        };
        Ok(open.map(view).collect())
    }

    /// Ends one of the caller's sessions.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if the caller has no such session.
    pub async fn revoke_session(
        self: &Arc<Self>,
        caller: &Caller,
        id: &str,
    ) -> Result<(), ControlError> {
        let (account, owner, id) = (caller.account.id, caller.id(), SessionId::new(id));
        self.write(Some(caller), move |control| async move {
            let audit =
                control.audit_entry(AuditAction::SessionRevoke, id.as_str(), Some(account), "");
            let ended = control.store.end_session(owner, &id, &audit).await;
            ended.map_err(|error| match error {
                StoreError::NotFound => ControlError::missing("session", id.as_str()),
                error => error.into(),
            })
        })
        .await
        .or_replay(|_| Ok(()))
    }

    /// Ends all of the caller's sessions but the current one. Returns the number of ended sessions.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for suspended accounts.
    pub async fn revoke_other_sessions(
        self: &Arc<Self>,
        caller: &Caller,
    ) -> Result<u64, ControlError> {
        let (identity, keep) = (caller.identity(), caller.session);
        self.write(Some(caller), move |control| async move {
            let action = AuditAction::SessionRevokeOthers;
            let account = Some(identity.account.id);
            let audit = control.audit_entry(action, identity.name(), account, "");
            Ok(control.store.end_other_sessions(identity.id(), keep, &audit).await?)
        })
        .await
        .or_replay(|_| Ok(0))
    }

    /// Authenticates a session token or the operator token. Suspended accounts are authenticated,
    /// too. `address` is the client address; `None` for the Unix socket.
    ///
    /// # Errors
    /// [`ControlError::Unauthenticated`] if the token is unknown or disabled, or its session has expired.
    pub async fn authenticate(
        &self,
        token: &SecretString,
        address: Option<IpAddr>,
    ) -> Result<Caller, ControlError> {
        let address = CallAddress::of(address);
        let digest = token::digest(token);
        // Also the account is read from the store: this gateway may not have applied yet that
        // another one took back a role.
        let caller = if let Some(found) = self.store.find_session(digest).await? {
            // A session may have been opened at a gateway that did not know yet that the account
            // was closed.
            let is_open = self.clock.now() < found.session.expires_at
                && !is_ended(&found.account)
                && found.person.as_ref().is_none_or(|person| !person.is_removed);
            let (account, person) = (Arc::new(found.account), found.person.map(Arc::new));
            let session = Some(digest);
            is_open.then_some(Caller {
                account,
                person,
                session,
                token: digest,
                address,
                call: None,
            })
        } else {
            let account = self.account_of_operator_token(digest).await?;
            account.map(|account| Caller {
                account,
                person: None,
                session: None,
                token: digest,
                address,
                call: None,
            })
        };
        caller.ok_or_else(|| {
            ControlError::Unauthenticated("the session has ended or is unknown".into())
        })
    }

    /// Refuses the rest of a call, such as a stream, whose session or operator token has ended since the call began, or
    /// whose caller has lost its account or a part of its role. While the store fails, nothing can end.
    pub(super) async fn refuse_if_ended(&self, caller: &Caller) -> Result<(), ControlError> {
        self.refuse_if_demoted(caller)?;
        let is_open = if caller.session.is_some() {
            let found = self.store.find_session(caller.token).await;
            found.map(|found| found.is_some_and(|it| self.clock.now() < it.session.expires_at))
        } else {
            let state = self.store.operator_token().await;
            state
                .map(|it| it.is_enabled && it.digest.unwrap_or(self.operator_token) == caller.token)
        };
        if is_open.unwrap_or(true) {
            return Ok(());
        }
        Err(ControlError::Unauthenticated(
            "the session has ended during the call; sign in again".into(),
        ))
    }
}
