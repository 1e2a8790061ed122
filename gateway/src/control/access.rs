//! Authorization: the caller of an operation, and the objects that it may see.
//!
//! Members see only objects of their own account. Invariant: the error for another account's object
//! is identical to the error for one that does not exist.

use std::sync::Arc;

use super::error::printable;
use super::{Control, ControlError};
use domain::account::{Account, AccountStatus, Role};
use domain::id::AccountId;
use domain::idempotency::AdminCall;
use domain::model::Model;
use domain::plan::Plan;

/// The authenticated account of a call, with its session.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The account.
    pub account: Arc<Account>,
    /// SHA-256 of the session's token.
    pub session: [u8; 32],
    /// The call's idempotency key and digest, if it was sent with a key.
    pub call: Option<AdminCall>,
}

impl Caller {
    /// Whether the account is an operator, which may see and change all objects.
    pub fn is_operator(&self) -> bool {
        self.account.role == Role::Operator
    }

    /// Refuses members; `act` completes the message "only operators may …".
    pub(super) fn require_operator(&self, act: &str) -> Result<(), ControlError> {
        if self.is_operator() {
            return Ok(());
        }
        Err(ControlError::Forbidden(format!("only operators may {act}")))
    }

    /// Whether the caller may see objects of `account`.
    pub(super) fn can_see(&self, account: AccountId) -> bool {
        self.is_operator() || self.account.id == account
    }
}

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
                if caller.is_operator() {
                    return ControlError::missing("account", text);
                }
                // Members cannot list accounts, so the usual hint would not help.
                let text = printable(text);
                ControlError::NotFound(format!(
                    "account `{text}` does not exist, or is not yours to see"
                ))
            })
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
        if caller.is_operator() || allows(&*self.plan_of(&caller.account)?, &model) {
            return Ok(model);
        }
        Err(missing())
    }
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
