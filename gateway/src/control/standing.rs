//! An account's standing: whether it may be used, and on which plan. Operators only; the next request
//! is served accordingly.

use std::sync::Arc;

use super::accounts::{AccountView, check_reason};
use super::change::{Again, Change};
use super::{Caller, Control, ControlError};
use domain::account::{Account, AccountStatus, Role};
use domain::audit::AuditAction;
use domain::id::AccountId;

impl Control {
    /// Suspends an account: its keys are refused, its sessions may look and change nothing.
    /// Suspending twice is no error.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members, [`ControlError::NotFound`] if it does not exist,
    /// [`ControlError::InUse`] for the caller's own or the last operator's,
    /// [`ControlError::Invalid`] without a reason.
    pub async fn suspend_account(
        self: &Arc<Self>,
        caller: &Caller,
        account: &str,
        reason: &str,
    ) -> Result<AccountView, ControlError> {
        caller.require_operator("suspend accounts")?;
        let id = self.visible_account(caller, account)?.id;
        let reason = check_reason(reason)?;
        if id == caller.account.id {
            return Err(ControlError::InUse(
                "you cannot suspend your own account: nobody could undo it".into(),
            ));
        }
        self.write(Some(caller), move |control| async move {
            let account = control.account_now(id)?;
            if account.status == AccountStatus::Suspended {
                return Ok(control.view(account));
            }
            if account.role == Role::Operator && control.is_last_operator(id) {
                return Err(ControlError::InUse(
                    "this is the last operator's account: nobody could undo it".into(),
                ));
            }
            let changed = Account { status: AccountStatus::Suspended, ..Account::clone(&account) };
            control.put_account(AuditAction::AccountSuspend, changed, reason).await
        })
        .await
        .or_replay(|_| self.get_account(caller, account))
    }

    /// Lets a suspended account be used again. Resuming one that is not suspended is no error.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members, [`ControlError::NotFound`] if it does not exist.
    pub async fn resume_account(
        self: &Arc<Self>,
        caller: &Caller,
        account: &str,
    ) -> Result<AccountView, ControlError> {
        caller.require_operator("resume accounts")?;
        let id = self.visible_account(caller, account)?.id;
        self.write(Some(caller), move |control| async move {
            let account = control.account_now(id)?;
            if account.status == AccountStatus::Active {
                return Ok(control.view(account));
            }
            let changed = Account { status: AccountStatus::Active, ..Account::clone(&account) };
            control.put_account(AuditAction::AccountResume, changed, String::new()).await
        })
        .await
        .or_replay(|_| self.get_account(caller, account))
    }

    /// Puts an account on another plan. Its balance stays as it is: trial credit is given once.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members, [`ControlError::NotFound`] if the account or the plan
    /// does not exist.
    pub async fn set_plan(
        self: &Arc<Self>,
        caller: &Caller,
        account: &str,
        plan: String,
    ) -> Result<AccountView, ControlError> {
        caller.require_operator("change the plans of accounts")?;
        let id = self.visible_account(caller, account)?.id;
        self.write(Some(caller), move |control| async move {
            let account = control.account_now(id)?;
            let found = control.directory.catalogue().plans.get(plan.as_str()).cloned();
            let plan = found.ok_or_else(|| ControlError::missing("plan", &plan))?.name.clone();
            if account.plan == plan {
                return Ok(control.view(account));
            }
            let details = format!("from `{}` to `{plan}`", account.plan);
            let changed = Account { plan, ..Account::clone(&account) };
            control.put_account(AuditAction::AccountPlan, changed, details).await
        })
        .await
        .or_replay(|_| self.get_account(caller, account))
    }
}

impl Change {
    fn account_now(&self, id: AccountId) -> Result<Arc<Account>, ControlError> {
        let found = self.directory.find_account(id);
        found.ok_or_else(|| ControlError::missing("account", &id.to_string()))
    }

    fn is_last_operator(&self, id: AccountId) -> bool {
        let accounts = self.directory.accounts();
        !accounts.iter().any(|other| {
            other.id != id && other.role == Role::Operator && other.status == AccountStatus::Active
        })
    }

    async fn put_account(
        &self,
        action: AuditAction,
        account: Account,
        details: String,
    ) -> Result<AccountView, ControlError> {
        let entry = self.entry(action, &account.name, Some(account.id), details);
        self.store.put_account(&account, &entry).await?;
        Ok(self.view(self.directory.put_account(account)))
    }
}
