//! Roles of accounts. A change takes effect with the next call of each session of the account.
//!
//! Invariant: at least one owner can sign in, so that roles can always be granted.

use std::sync::Arc;

use super::access::Permission;
use super::accounts::AccountView;
use super::change::{ChangeContext, ReplayExt};
use super::{Caller, Control, ControlError};
use domain::account::{Account, AccountStatus, Role};
use domain::audit::AuditAction;

impl Control {
    /// Gives an account another role; [`Role::Member`] takes back all others. Idempotent.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] unless the caller is an owner, [`ControlError::NotFound`] if the
    /// account does not exist, [`ControlError::InUse`] for the last usable owner, for the account
    /// of the operator token, and for one with people.
    pub async fn grant_role(
        self: &Arc<Self>,
        caller: &Caller,
        account: &str,
        role: Role,
    ) -> Result<AccountView, ControlError> {
        caller.require(Permission::GrantRoles)?;
        let id = self.visible_account(caller, account)?.id;
        let changed = self.write(Some(caller), move |control| async move {
            let account = control.current_account(id)?;
            if account.role == role {
                return Ok(account);
            }
            if account.is_built_in() {
                return Err(ControlError::InUse(
                    "the account of the operator token is always an owner".into(),
                ));
            }
            control.refuse_role_with_people(&account, role).await?;
            control.ensure_other_owner(&account).await?;
            let details = format!("from `{}` to `{}`", account.role.as_str(), role.as_str());
            let changed = Account { role, ..Account::clone(&account) };
            control.put_account(AuditAction::AccountGrant, changed, details).await
        });
        let account = changed.await.or_replay(|_| self.visible_account(caller, account))?;
        self.view(account).await
    }
}

impl ChangeContext {
    /// Refuses a change after which `account` is not a usable owner any more, if it is the last one. The
    /// built-in account is not usable while the operator token is disabled.
    pub(super) async fn ensure_other_owner(&self, account: &Account) -> Result<(), ControlError> {
        let token = self.store.operator_token().await?;
        let is_usable = |owner: &Account| {
            let can_sign_in = token.is_enabled || !owner.is_built_in();
            owner.role == Role::Owner && owner.status == AccountStatus::Active && can_sign_in
        };
        let accounts = self.directory.accounts();
        let has_other = || accounts.iter().any(|other| other.id != account.id && is_usable(other));
        if !is_usable(account) || has_other() {
            return Ok(());
        }
        Err(ControlError::InUse(format!(
            "`{}` is the last owner that can sign in; first make another account an owner with \
             `ctl account grant NAME owner`",
            account.name
        )))
    }
}
