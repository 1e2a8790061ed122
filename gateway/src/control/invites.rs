//! Invites: codes for one registration each, with the plan and the credit of the new account.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use secrecy::SecretString;

use super::access::Permission;
use super::change::ReplayExt;
use super::{Caller, Control, ControlError, MAX_BALANCE, token};
use domain::ValidationError;
use domain::account::Invite;
use domain::audit::AuditAction;
use domain::id::InviteId;
use domain::money::Nanos;
use store::StoreError;

const DEFAULT_LIFETIME: Duration = Duration::from_hours(7 * 24);
const MAX_LIFETIME: Duration = Duration::from_hours(366 * 24);
const ID_BYTES: usize = 6;
/// The number of invites that can still be used beyond which none can be created.
const MAX_OPEN: u32 = 1_000;
/// The maximum number of listed invites.
const MAX_LISTED: usize = 10_000;

/// A request to create an invite.
#[derive(Clone, Debug, Default)]
pub struct InviteRequest {
    /// The lifetime of the code; zero means seven days.
    pub lifetime: Duration,
    /// The plan of the new account; `None` for the default plan.
    pub plan: Option<String>,
    /// The credit of the new account, in addition to the trial credit of its plan.
    pub credit: Option<Nanos>,
}

/// A new invite.
#[derive(Debug)]
pub struct NewInvite {
    /// The code. Only its digest is stored, so it cannot be shown again.
    pub code: SecretString,
    /// The invite.
    pub invite: InviteView,
}

/// An invite with the names of its accounts.
#[derive(Clone, Debug)]
pub struct InviteView {
    /// The invite.
    pub invite: Invite,
    /// The name of the account that created it, if that is known.
    pub created_by: Option<String>,
    /// The name of the account that used it.
    pub used_by: Option<String>,
}

impl Control {
    /// Creates a single-use registration code.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members, [`ControlError::Invalid`] for a lifetime of more
    /// than a year or an invalid credit, [`ControlError::NotFound`] for an unknown plan,
    /// [`ControlError::InUse`] if too many invites can still be used.
    pub async fn create_invite(
        self: &Arc<Self>,
        caller: &Caller,
        request: InviteRequest,
    ) -> Result<NewInvite, ControlError> {
        caller.require(Permission::AddAccounts)?;
        let InviteRequest { lifetime, plan, credit } = request;
        let lifetime = if lifetime.is_zero() { DEFAULT_LIFETIME } else { lifetime };
        if lifetime > MAX_LIFETIME {
            let message = "`ttl_seconds` must be at most a year";
            return Err(ValidationError::new("ttl_seconds", message).into());
        }
        if credit.is_some_and(|credit| credit <= Nanos::ZERO || credit > MAX_BALANCE) {
            let message = format!(
                "`credit_usd` must be above 0 and at most {MAX_BALANCE}; leave it out for none"
            );
            return Err(ValidationError::new("credit_usd", message).into());
        }
        let find = |name: String| {
            let found = self.directory.catalogue().plans.get(name.as_str()).cloned();
            found.map(|plan| plan.name.clone()).ok_or_else(|| ControlError::missing("plan", &name))
        };
        let plan = plan.map(find).transpose()?;
        let code = token::make(token::INVITE, &*self.entropy);
        let mut id = [0; ID_BYTES];
        self.entropy.fill(&mut id);
        let created_at = self.clock.now();
        let invite = Invite {
            id: InviteId::new(HEXLOWER.encode(&id)),
            digest: token::digest(&code),
            created_by: Some(caller.account.id),
            created_at,
            expires_at: created_at.saturating_add(lifetime).unwrap_or(Timestamp::MAX),
            plan,
            credit,
            used: None,
        };
        let invite = self
            .write(Some(caller), move |control| async move {
                let mut details = format!("until {}", invite.expires_at);
                if let Some(plan) = &invite.plan {
                    _ = write!(details, ", plan `{plan}`");
                }
                if let Some(credit) = invite.credit {
                    _ = write!(details, ", credit {credit} dollars");
                }
                let action = AuditAction::AccountInvite;
                let audit = control.audit_entry(action, invite.id.as_str(), None, details);
                let added = control.store.add_invite(&invite, MAX_OPEN, &audit).await;
                added.map_err(|error| match error {
                    StoreError::Conflict(text) => ControlError::InUse(format!(
                        "{text}; revoke one (`ctl account invites`, `ctl account uninvite`), or wait until \
                         one expires"
                    )),
                    error => error.into(),
                })?;
                Ok(invite)
            })
            .await
            .or_replay(|_| {
                Err(ControlError::Exists(
                    "an earlier call with this idempotency key returned the code; create another invite"
                        .into(),
                ))
            })?;
        Ok(NewInvite { code, invite: self.invite_view(invite) })
    }

    /// Lists the newest invites, newest first: open, used and recently expired ones.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members.
    pub async fn list_invites(&self, caller: &Caller) -> Result<Vec<InviteView>, ControlError> {
        caller.require(Permission::AddAccounts)?;
        let invites = self.store.invites(MAX_LISTED).await?;
        Ok(invites.into_iter().map(|invite| self.invite_view(invite)).collect())
    }

    /// Revokes an unused invite: its code can no longer be used.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members, [`ControlError::NotFound`] if it does not exist or
    /// was used.
    pub async fn revoke_invite(
        self: &Arc<Self>,
        caller: &Caller,
        id: &str,
    ) -> Result<(), ControlError> {
        caller.require(Permission::AddAccounts)?;
        let id = InviteId::new(id);
        self.write(Some(caller), move |control| async move {
            let audit = control.audit_entry(AuditAction::AccountUninvite, id.as_str(), None, "");
            let revoked = control.store.revoke_invite(&id, &audit).await;
            revoked.map_err(|error| match error {
                StoreError::NotFound => ControlError::NotFound(format!(
                    "there is no unused invite `{}`; `ctl account invites` shows all",
                    super::error::printable(id.as_str())
                )),
                error => error.into(),
            })
        })
        .await
        .or_replay(|_| Ok(()))
    }

    fn invite_view(&self, invite: Invite) -> InviteView {
        InviteView {
            created_by: invite.created_by.map(|id| self.name_of(id)),
            used_by: invite.used.map(|used| self.name_of(used.by)),
            invite,
        }
    }
}
