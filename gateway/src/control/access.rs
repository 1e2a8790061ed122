//! Authorization: the caller of an operation, what its role permits, and the objects that it may see.
//!
//! `Permission::rule` is the only table from permissions to roles. Members see only objects of
//! their own account. Invariant: the error for another account's object is identical to the error
//! for one that does not exist.

use std::sync::Arc;

use super::error::printable;
use super::{Control, ControlError, Identity};
use domain::account::{Account, AccountStatus, Role};
use domain::id::AccountId;
use domain::idempotency::AdminCall;
use domain::model::Model;
use domain::person::{Person, PersonRole};
use domain::plan::Plan;
use domain::source::CallAddress;

/// The authenticated account of a call, with its session. All people of an account act on what belongs to the account,
/// so objects are looked up by `account`, and `person` only restricts what the caller may change.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The account, as the store had it when the call began.
    pub account: Arc<Account>,
    /// The person that signed in, as the store had it when the call began; `None` for the owner of the account.
    pub person: Option<Arc<Person>>,
    /// SHA-256 of the session's token; `None` for the operator token.
    pub session: Option<[u8; 32]>,
    /// SHA-256 of the token of the call: a session's or the operator token.
    pub token: [u8; 32],
    /// The address of the client.
    pub address: CallAddress,
    /// The call's idempotency key and digest, if it was sent with a key.
    pub call: Option<AdminCall>,
}

/// What a caller needs a role for. Operations on the caller's own account need none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// To read the objects of all accounts and the state of the gateway, but no secrets.
    ReadAll,
    /// To suspend and resume accounts.
    SuspendAccounts,
    /// To revoke the keys of other accounts.
    RevokeKeys,
    /// To cancel requests of other accounts.
    CancelRequests,
    /// To change the settings of the keys of other accounts.
    ChangeKeys,
    /// To register accounts in every registration mode, and to invite.
    AddAccounts,
    /// To rename, close, reopen and delete accounts.
    EndAccounts,
    /// To add and remove the people of other accounts.
    ManagePeople,
    /// To create codes with which the owners of accounts set new passwords.
    ResetPasswords,
    /// To change the balances of accounts.
    CreditAccounts,
    /// To assign accounts to plans.
    AssignPlans,
    /// To change plans, models and upstreams.
    ChangeCatalogue,
    /// To drain and remove nodes.
    ManageNodes,
    /// To send requests to upstreams, at the expense of the gateway.
    SendTestRequests,
    /// To copy the store, which contains digests of secrets.
    CopyStore,
    /// To capture the requests of other accounts, and to read what was captured.
    CaptureRequests,
    /// To send test events to the endpoints of webhooks.
    TestWebhooks,
    /// To read the settings, certificates and credentials of the gateway again.
    ReloadFiles,
    /// To replace the key of stored secrets.
    RotateSealKey,
    /// To give accounts other roles.
    GrantRoles,
    /// To replace, disable and enable the operator token.
    ManageOperatorToken,
}

// === impl Permission ===

impl Permission {
    /// Returns the smallest role that has the permission, and the act for messages.
    const fn rule(self) -> (Role, &'static str) {
        match self {
            Self::ReadAll => (Role::Support, "see other accounts and the state of the gateway"),
            Self::SuspendAccounts => (Role::Support, "suspend and resume accounts"),
            Self::RevokeKeys => (Role::Support, "revoke the keys of other accounts"),
            Self::CancelRequests => (Role::Support, "cancel requests of other accounts"),
            Self::ChangeKeys => (Role::Operator, "change the keys of other accounts"),
            Self::AddAccounts => (Role::Operator, "invite and register accounts"),
            Self::EndAccounts => (Role::Operator, "rename, close, reopen and delete accounts"),
            Self::ManagePeople => (Role::Operator, "manage the people of other accounts"),
            Self::ResetPasswords => (Role::Operator, "reset the passwords of accounts"),
            Self::CreditAccounts => (Role::Operator, "credit accounts"),
            Self::AssignPlans => (Role::Operator, "change the plans of accounts"),
            Self::ChangeCatalogue => (Role::Operator, "change plans, models and upstreams"),
            Self::ManageNodes => (Role::Operator, "drain and remove nodes"),
            Self::SendTestRequests => (Role::Operator, "send test requests"),
            Self::CopyStore => (Role::Operator, "back the gateway up"),
            Self::CaptureRequests => (Role::Operator, "capture requests"),
            Self::TestWebhooks => (Role::Operator, "test the gateway's webhooks"),
            Self::ReloadFiles => (Role::Operator, "reload the gateway's files"),
            Self::RotateSealKey => (Role::Operator, "replace the key of stored secrets"),
            Self::GrantRoles => (Role::Owner, "grant roles"),
            Self::ManageOperatorToken => (Role::Owner, "manage the operator token"),
        }
    }

    /// Whether `account` has the permission by its role. While it is suspended, it has those of a member.
    pub(super) fn is_held_by(self, account: &Account) -> bool {
        let role =
            if account.status == AccountStatus::Active { account.role } else { Role::Member };
        role >= self.rule().0
    }

    fn refusal(self) -> ControlError {
        let (role, act) = self.rule();
        let roles = match role {
            Role::Member => "accounts",
            Role::Support => "support, operators and owners",
            Role::Operator => "operators and owners",
            Role::Owner => "owners",
        };
        ControlError::Forbidden(format!("only {roles} may {act}"))
    }
}

// === impl Caller ===

impl Caller {
    /// Returns who calls.
    pub fn identity(&self) -> Identity {
        Identity { account: self.account.clone(), person: self.person.clone() }
    }

    /// Returns the id of the account or the person that calls.
    pub fn id(&self) -> AccountId {
        self.person.as_ref().map_or(self.account.id, |person| person.id)
    }

    /// Whether the caller's role has `permission`. People of an account have no permissions of its role.
    pub fn may(&self, permission: Permission) -> bool {
        self.person.is_none() && permission.is_held_by(&self.account)
    }

    /// Refuses people that are not admins of their account. `act` completes the message.
    pub(super) fn require_admin(&self, act: &str) -> Result<(), ControlError> {
        if self.person.as_ref().is_none_or(|person| person.role == PersonRole::Admin) {
            return Ok(());
        }
        Err(ControlError::Forbidden(format!(
            "only the owner and the admins of the account may {act}; ask one of them"
        )))
    }

    /// Refuses callers whose role does not have `permission`, and those that are suspended.
    pub(super) fn require(&self, permission: Permission) -> Result<(), ControlError> {
        if self.may(permission) {
            return Ok(());
        }
        refuse_suspended(&self.account)?;
        Err(permission.refusal())
    }

    /// Like [`require`](Self::require), for an act on `account`. Also refuses callers whose role is
    /// smaller than that of the account.
    pub(super) fn require_on(
        &self,
        account: &Account,
        permission: Permission,
    ) -> Result<(), ControlError> {
        self.require(permission)?;
        if self.account.role >= account.role {
            return Ok(());
        }
        let (own, other) = (self.account.role.as_str(), account.role.as_str());
        Err(ControlError::Forbidden(format!(
            "the account `{}` has the role `{other}`, which is above your role `{own}`",
            account.name
        )))
    }

    /// Whether the caller may see objects of all accounts.
    pub(super) fn sees_all(&self) -> bool {
        self.may(Permission::ReadAll)
    }

    /// Whether the caller may see objects of `account`.
    pub(super) fn can_see(&self, account: AccountId) -> bool {
        self.sees_all() || self.account.id == account
    }
}

// === impl Control ===

impl Control {
    /// Finds an account by its id or name, if `caller` may see it. Ids take precedence, so that a
    /// name that equals another account's id cannot shadow that account.
    pub(super) fn visible_account(
        &self,
        caller: &Caller,
        text: &str,
    ) -> Result<Arc<Account>, ControlError> {
        text.parse()
            .ok()
            .and_then(|id| self.directory.find_account(AccountId(id)))
            .or_else(|| self.directory.find_account_named(text))
            .filter(|account| caller.can_see(account.id))
            .ok_or_else(|| {
                if caller.sees_all() {
                    return ControlError::missing("account", text);
                }
                // Members cannot list accounts, so the usual hint would not help.
                let text = printable(text);
                ControlError::NotFound(format!(
                    "account `{text}` does not exist, or is not yours to see"
                ))
            })
    }

    /// Like [`refuse_demoted`], with the account and the person as this gateway knows them now.
    pub(super) fn refuse_if_demoted(&self, caller: &Caller) -> Result<(), ControlError> {
        if let Some(person) = &caller.person {
            let current = self.directory.find_person(person.id);
            let current = current.filter(|current| !current.is_removed);
            let Some(current) = current else {
                let message = "you were removed from the account during the call";
                return Err(ControlError::Forbidden(message.into()));
            };
            if current.role < person.role {
                return Err(role_changed());
            }
        }
        let current = self.directory.find_account(caller.account.id);
        current.map_or(Ok(()), |current| refuse_demoted(caller, &current))
    }

    /// Returns the plan of `account`.
    pub(super) fn plan_of(&self, account: &Account) -> Result<Arc<Plan>, ControlError> {
        let catalogue = self.directory.catalogue();
        let plan = catalogue.plans.get(&account.plan);
        plan.cloned().ok_or_else(|| ControlError::missing("plan", account.plan.as_str()))
    }

    /// Finds a model by its id or an alias, if `caller` may see it.
    pub(super) fn visible_model(
        &self,
        caller: &Caller,
        text: &str,
    ) -> Result<Arc<Model>, ControlError> {
        let missing = || ControlError::missing("model", text);
        let model = self.directory.catalogue().find_model(text).cloned().ok_or_else(missing)?;
        if caller.sees_all() || allows(&*self.plan_of(&caller.account)?, &model) {
            return Ok(model);
        }
        Err(missing())
    }
}

/// Whether an account was closed or deleted, so that it cannot be used.
pub(super) fn is_ended(account: &Account) -> bool {
    matches!(account.status, AccountStatus::Closed | AccountStatus::Deleted)
}

/// Refuses the rest of a call whose caller has lost its account, or a part of its role, since the
/// call began.
pub(super) fn refuse_demoted(caller: &Caller, current: &Account) -> Result<(), ControlError> {
    if is_ended(current) {
        return Err(ControlError::Forbidden("your account was closed during the call".into()));
    }
    if caller.sees_all() && !Permission::ReadAll.is_held_by(current) {
        refuse_suspended(current)?;
    }
    if current.role >= caller.account.role {
        return Ok(());
    }
    Err(role_changed())
}

fn role_changed() -> ControlError {
    ControlError::Forbidden("your role was changed during the call; try again".into())
}

/// Whether an account on `plan` may use `model`.
pub(super) fn allows(plan: &Plan, model: &Model) -> bool {
    plan.models.is_empty() || plan.models.contains(&model.id)
}

/// Refuses changes by suspended accounts; reads remain allowed.
pub(super) fn refuse_suspended(account: &Account) -> Result<(), ControlError> {
    match account.status {
        AccountStatus::Active => Ok(()),
        AccountStatus::Suspended => Err(ControlError::Forbidden(
            "this account is suspended and can change nothing; `ctl audit list` shows why".into(),
        )),
        AccountStatus::Closed | AccountStatus::Deleted => Err(ControlError::Forbidden(
            "this account is closed; ask the operator of this gateway to resume it".into(),
        )),
    }
}
