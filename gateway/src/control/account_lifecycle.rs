//! Renaming, closing and deleting accounts; `resume_account` reopens a closed one.

use std::sync::Arc;

use super::access::Permission;
use super::accounts::AccountView;
use super::change::ReplayExt;
use super::registration::taken;
use super::{Caller, Control, ControlError, passwords};
use crate::retention::settled_before;
use domain::ValidationError;
use domain::account::{Account, AccountStatus, OPERATOR};
use domain::account_name::AccountName;
use domain::audit::AuditAction;
use store::StoreError;

/// The number of rows that a step of a deletion changes.
const PURGE_ROWS: u32 = 256;

impl Control {
    /// Renames an account. Its id does not change, and its old name is free. Idempotent.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] without the permission and for accounts with a greater role than the
    /// caller's, [`ControlError::NotFound`] if it does not exist,
    /// [`ControlError::Invalid`] or [`ControlError::Exists`] for a name that no new account could
    /// have, [`ControlError::InUse`] for the built-in account.
    pub async fn rename_account(
        self: &Arc<Self>,
        caller: &Caller,
        account: &str,
        name: &str,
    ) -> Result<AccountView, ControlError> {
        caller.require(Permission::EndAccounts)?;
        // A repeated call finds the account under its new name.
        if let Some(done) = self.find_completed_call(caller).await? {
            return self.view(self.visible_account(caller, &done.object)?).await;
        }
        let id = self.changeable(caller, account, "renamed")?.id;
        let by = caller.clone();
        let name = AccountName::parse(name)?;
        let changed = self.write(Some(caller), move |control| async move {
            let account = control.current_account(id)?;
            by.require_on(&account, Permission::EndAccounts)?;
            if account.name == name.as_str() {
                return Ok(account);
            }
            control.refuse_taken(&name, Some(id))?;
            let details = format!("from `{}`", account.name);
            let renamed = Account { name: name.into_string(), ..Account::clone(&account) };
            let action = AuditAction::AccountRename;
            let audit = control.audit_entry(action, &renamed.name, Some(id), details);
            let stored = control.store.rename_account(&renamed, &audit).await;
            stored.map_err(|error| match error {
                StoreError::Conflict(_) => taken(&renamed.name),
                error => error.into(),
            })?;
            Ok(control.directory.put_account(renamed))
        });
        let account = changed.await.or_replay(|done| self.visible_account(caller, &done.object))?;
        self.view(account).await
    }

    /// Closes an account: its sessions end, its keys are revoked, and it cannot sign in. The balance
    /// is kept. Idempotent.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] without the permission and for accounts with a greater role than the
    /// caller's, [`ControlError::NotFound`] if it does not exist,
    /// [`ControlError::InUse`] for the caller's own account, the built-in one and the last usable
    /// owner's.
    pub async fn close_account(
        self: &Arc<Self>,
        caller: &Caller,
        account: &str,
    ) -> Result<AccountView, ControlError> {
        caller.require(Permission::EndAccounts)?;
        let id = self.changeable(caller, account, "closed")?.id;
        let by = caller.clone();
        if id == caller.account.id {
            return Err(ControlError::InUse("you cannot close your own account".into()));
        }
        let changed = self.write(Some(caller), move |control| async move {
            let account = control.current_account(id)?;
            if account.status == AccountStatus::Closed {
                return Ok(account);
            }
            by.require_on(&account, Permission::EndAccounts)?;
            control.ensure_other_owner(&account).await?;
            let closed = Account { status: AccountStatus::Closed, ..Account::clone(&account) };
            let audit = control.audit_entry(AuditAction::AccountClose, &closed.name, Some(id), "");
            let revoked = control.store.close_account(&closed, control.clock.now(), &audit).await?;
            for key in revoked {
                control.directory.put_key(key);
            }
            Ok(control.directory.put_account(closed))
        });
        let account = changed.await.or_replay(|_| self.visible_account(caller, account))?;
        self.view(account).await
    }

    /// Deletes a closed account: everything that describes its owner, and all texts of its requests.
    /// Its ledger entries and request records stay, under a pseudonym. `confirm` repeats its name. A
    /// deletion that a crash interrupts is continued by `purge_deleted`. Idempotent by the
    /// account's id.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] without the permission and for accounts with a greater role than the
    /// caller's, [`ControlError::NotFound`] if it does not exist,
    /// [`ControlError::Invalid`] if `confirm` is not its name, [`ControlError::InUse`] if it is not
    /// closed.
    pub async fn delete_account(
        self: &Arc<Self>,
        caller: &Caller,
        account: &str,
        confirm: &str,
    ) -> Result<AccountView, ControlError> {
        caller.require(Permission::EndAccounts)?;
        // A repeated call finds the account under its pseudonym.
        if let Some(done) = self.find_completed_call(caller).await? {
            return self.view(self.visible_account(caller, &done.object)?).await;
        }
        let found = self.visible_account(caller, account)?;
        let (id, by) = (found.id, caller.clone());
        if found.status != AccountStatus::Deleted && confirm != found.name {
            let message = format!("`confirm` must repeat the account's name, `{}`", found.name);
            return Err(ValidationError::new("confirm", message).into());
        }
        let changed = self.write(Some(caller), move |control| async move {
            let missing = || ControlError::missing("account", &id.to_string());
            let account = control.directory.find_account(id).ok_or_else(missing)?;
            match account.status {
                AccountStatus::Deleted => return Ok(account),
                AccountStatus::Closed => {}
                AccountStatus::Active | AccountStatus::Suspended => {
                    return Err(ControlError::InUse(format!(
                        "only a closed account can be deleted; first run `ctl account close {}`",
                        account.name
                    )));
                }
            }
            by.require_on(&account, Permission::EndAccounts)?;
            let deleted = account.deleted();
            let now = control.clock.now();
            let action = AuditAction::AccountDelete;
            let audit = control.audit_entry(action, &deleted.name, Some(id), "");
            let hash = passwords::UNUSABLE_HASH;
            control.store.delete_account(&deleted, hash, now, &audit).await?;
            control.forget_people(id).await?;
            Ok(control.directory.put_account(deleted))
        });
        let account = changed.await.or_replay(|done| self.visible_account(caller, &done.object))?;
        self.purge_deleted().await?;
        self.view(account).await
    }

    /// Removes the texts of deleted accounts, step by step.
    async fn purge_deleted(&self) -> Result<(), ControlError> {
        self.ledger.wait_until_stored().await;
        let settled_before = settled_before(self.clock.now());
        while self.store.purge_deleted(settled_before, PURGE_ROWS).await? > 0 {}
        Ok(self.store.scrub().await?)
    }

    /// Finds an account and refuses the built-in one. `participle` completes the message.
    pub(super) fn changeable(
        &self,
        caller: &Caller,
        account: &str,
        participle: &str,
    ) -> Result<Arc<Account>, ControlError> {
        let found = self.visible_account(caller, account)?;
        if found.name == OPERATOR {
            return Err(ControlError::InUse(format!(
                "the built-in account `{OPERATOR}` cannot be {participle}: the operator token belongs to it"
            )));
        }
        Ok(found)
    }
}
