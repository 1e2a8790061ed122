//! Suspension of accounts and assignment of plans; takes effect with the next request.

use std::sync::Arc;

use super::access::Permission;
use super::accounts::{AccountView, check_reason};
use super::change::{ChangeContext, ReplayExt};
use super::{Caller, Control, ControlError};
use domain::account::{Account, AccountStatus};
use domain::audit::AuditAction;
use domain::id::AccountId;

impl Control {
    /// Suspends an account: its keys are refused and its sessions become read-only. Idempotent.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members and for accounts with a greater role than the
    /// caller's, [`ControlError::NotFound`] if it does not exist, [`ControlError::InUse`] for the
    /// caller's own account or the last usable owner's, [`ControlError::Invalid`] without a reason.
    pub async fn suspend_account(
        self: &Arc<Self>,
        caller: &Caller,
        account: &str,
        reason: &str,
    ) -> Result<AccountView, ControlError> {
        caller.require(Permission::SuspendAccounts)?;
        let id = self.visible_account(caller, account)?.id;
        let by = caller.clone();
        let reason = check_reason(reason)?;
        if id == caller.account.id {
            return Err(ControlError::InUse(
                "you cannot suspend your own account, because you could not resume it".into(),
            ));
        }
        let changed = self.write(Some(caller), move |control| async move {
            let account = control.current_account(id)?;
            match account.status {
                AccountStatus::Suspended => return Ok(account),
                AccountStatus::Active => {}
                AccountStatus::Closed | AccountStatus::Deleted => {
                    let message = "the account is closed: nobody can use it";
                    return Err(ControlError::InUse(message.into()));
                }
            }
            by.require_on(&account, Permission::SuspendAccounts)?;
            control.ensure_other_owner(&account).await?;
            let changed = Account { status: AccountStatus::Suspended, ..Account::clone(&account) };
            control.put_account(AuditAction::AccountSuspend, changed, reason).await
        });
        let account = changed.await.or_replay(|_| self.visible_account(caller, account))?;
        self.view(account).await
    }

    /// Reactivates a suspended or closed account. The keys and sessions that a closed one had stay
    /// revoked and ended. Idempotent.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members and for accounts with a greater role than the
    /// caller's, [`ControlError::NotFound`] if it does not exist.
    pub async fn resume_account(
        self: &Arc<Self>,
        caller: &Caller,
        account: &str,
    ) -> Result<AccountView, ControlError> {
        caller.require(Permission::SuspendAccounts)?;
        let id = self.visible_account(caller, account)?.id;
        let by = caller.clone();
        let changed = self.write(Some(caller), move |control| async move {
            let account = control.current_account(id)?;
            if account.status == AccountStatus::Active {
                return Ok(account);
            }
            let permission = match account.status {
                AccountStatus::Closed => Permission::EndAccounts,
                _ => Permission::SuspendAccounts,
            };
            by.require_on(&account, permission)?;
            let changed = Account { status: AccountStatus::Active, ..Account::clone(&account) };
            control.put_account(AuditAction::AccountResume, changed, String::new()).await
        });
        let account = changed.await.or_replay(|_| self.visible_account(caller, account))?;
        self.view(account).await
    }

    /// Assigns an account to another plan. The balance is unchanged, because trial credit is
    /// granted once.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members and for accounts with a greater role than the
    /// caller's, [`ControlError::NotFound`] if the account or the plan does not exist.
    pub async fn set_plan(
        self: &Arc<Self>,
        caller: &Caller,
        account: &str,
        plan: String,
    ) -> Result<AccountView, ControlError> {
        caller.require(Permission::AssignPlans)?;
        let id = self.visible_account(caller, account)?.id;
        let by = caller.clone();
        let changed = self.write(Some(caller), move |control| async move {
            let account = control.current_account(id)?;
            by.require_on(&account, Permission::AssignPlans)?;
            let found = control.directory.catalogue().plans.get(plan.as_str()).cloned();
            let plan = found.ok_or_else(|| ControlError::missing("plan", &plan))?.name.clone();
            if account.plan == plan {
                return Ok(account);
            }
            let details = format!("from `{}` to `{plan}`", account.plan);
            let changed = Account { plan, ..Account::clone(&account) };
            control.put_account(AuditAction::AccountPlan, changed, details).await
        });
        let account = changed.await.or_replay(|_| self.visible_account(caller, account))?;
        self.view(account).await
    }
}

impl ChangeContext {
    /// Returns an account that was not deleted, as the change finds it.
    pub(super) fn current_account(&self, id: AccountId) -> Result<Arc<Account>, ControlError> {
        let found = self.directory.find_account(id);
        let found = found.ok_or_else(|| ControlError::missing("account", &id.to_string()))?;
        match found.status {
            AccountStatus::Deleted => Err(ControlError::InUse(format!(
                "the account `{}` was deleted and cannot be changed",
                found.name
            ))),
            AccountStatus::Active | AccountStatus::Suspended | AccountStatus::Closed => Ok(found),
        }
    }

    /// Stores and publishes the role, the status and the plan of an account.
    pub(super) async fn put_account(
        &self,
        action: AuditAction,
        account: Account,
        details: String,
    ) -> Result<Arc<Account>, ControlError> {
        let entry = self.audit_entry(action, &account.name, Some(account.id), details);
        self.store.update_account(&account, &entry).await?;
        Ok(self.directory.put_account(account))
    }
}
