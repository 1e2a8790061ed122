//! Accounts: lookups and balances.

use std::sync::Arc;

use super::access::Permission;
use super::change::ReplayExt;
use super::{Caller, Control, ControlError, MAX_BALANCE};
use domain::ValidationError;
use domain::account::Account;
use domain::allocation::{Pool, Recall, RecallScope};
use domain::audit::AuditAction;
use domain::ledger::{Entry, EntryKind};
use domain::money::Nanos;

const MAX_REASON_BYTES: usize = 1_024;

/// An account with its balance.
#[derive(Clone, Debug)]
pub struct AccountView {
    /// The account.
    pub account: Arc<Account>,
    /// The current balance; may be negative.
    pub balance: Nanos,
}

/// A page of a list.
#[derive(Debug)]
pub struct Page<T> {
    /// The items, at most the requested page size.
    pub items: Vec<T>,
    /// The token of the next page; `None` on the last one.
    pub next: Option<String>,
}

impl Control {
    /// Lists accounts in order of their names: at most `size`, after the name `token`.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members.
    pub async fn list_accounts(
        &self,
        caller: &Caller,
        size: usize,
        token: &str,
    ) -> Result<Page<AccountView>, ControlError> {
        caller.require(Permission::ReadAll)?;
        let accounts = self.directory.accounts();
        let start = accounts.partition_point(|account| account.name.as_str() <= token);
        let rest = &accounts[start..];
        let page = &rest[..rest.len().min(size)];
        let next = page.last().filter(|_| page.len() < rest.len()).map(|last| last.name.clone());
        Ok(Page { items: self.views(page).await?, next })
    }

    /// Returns an account by its name or id.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if it does not exist or the caller may not see it.
    pub async fn get_account(
        &self,
        caller: &Caller,
        account: &str,
    ) -> Result<AccountView, ControlError> {
        self.view(self.visible_account(caller, account)?).await
    }

    /// Adds `amount` to an account's balance; a negative amount is a debit.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members and for accounts with a greater role than the
    /// caller's, [`ControlError::Invalid`] if the amount is zero, the new balance would exceed the
    /// maximum, or the reason is empty or too long, [`ControlError::InUse`] for deleted accounts.
    pub async fn credit_account(
        self: &Arc<Self>,
        caller: &Caller,
        account: &str,
        amount: Nanos,
        reason: &str,
    ) -> Result<AccountView, ControlError> {
        caller.require(Permission::CreditAccounts)?;
        let credited = self.visible_account(caller, account)?;
        let (id, by, reason) = (credited.id, caller.clone(), check_reason(reason)?);
        if amount == Nanos::ZERO {
            return Err(ValidationError::new("amount_usd", "`amount_usd` must not be zero").into());
        }
        let changed = self.write(Some(caller), move |control| async move {
            let account = control.current_account(id)?;
            by.require_on(&account, Permission::CreditAccounts)?;
            let balance = control.view(account.clone()).await?.balance + amount;
            if balance > MAX_BALANCE || balance < -MAX_BALANCE {
                let message = format!("a balance must stay within ±{MAX_BALANCE} dollars");
                return Err(ValidationError::new("amount_usd", message).into());
            }
            let details = format!("{amount} dollars: {reason}");
            let audit = control.audit_entry(
                AuditAction::AccountCredit,
                &account.name,
                Some(account.id),
                details,
            );
            let kind = EntryKind::Credit(reason);
            let entry = Entry { account: account.id, amount, kind, at: control.clock.now() };
            control.ledger.credit(entry, &audit).await?;
            if let Some(allocations) = control.allocations.as_ref().filter(|_| amount < Nanos::ZERO) {
                // Gateways must not spend what the debit took from the balance.
                let (pool, needed) = (Pool::Balance(account.id), -amount.0);
                let recall = Recall { pool, needed, from: RecallScope::All };
                if let Err(error) = allocations.recall(&[recall]).await {
                    tracing::warn!(%error, account = %account.id, "cannot recall the parts of a balance that gateways have");
                }
            }
            Ok(())
        });
        changed.await.or_replay(|_| Ok(()))?;
        self.view(credited).await
    }

    /// Returns an account with its current balance.
    ///
    /// # Errors
    /// [`ControlError::Store`] if several gateways share the balances, and the store fails.
    pub async fn view(&self, account: Arc<Account>) -> Result<AccountView, ControlError> {
        let balances = self.balances(std::slice::from_ref(&account)).await?;
        Ok(AccountView { balance: balances.first().copied().unwrap_or_default(), account })
    }

    async fn views(&self, accounts: &[Arc<Account>]) -> Result<Vec<AccountView>, ControlError> {
        let balances = self.balances(accounts).await?;
        let view = |(account, balance): (&Arc<Account>, _)| AccountView {
            account: account.clone(),
            balance,
        };
        Ok(accounts.iter().zip(balances).map(view).collect())
    }

    /// Returns the balances of accounts: those in memory or, if this gateway has only parts of them,
    /// those in the store.
    async fn balances(&self, accounts: &[Arc<Account>]) -> Result<Vec<Nanos>, ControlError> {
        let Some(allocations) = &self.allocations else {
            return Ok(accounts.iter().map(|account| self.ledger.balance(account.id)).collect());
        };
        self.ledger.wait_until_stored().await;
        let pools: Vec<_> = accounts.iter().map(|it| (Pool::Balance(it.id), None)).collect();
        Ok(allocations.unused(&pools).await?.into_iter().map(Nanos).collect())
    }
}

/// Trims and validates the reason of a change.
pub(super) fn check_reason(reason: &str) -> Result<String, ValidationError> {
    let reason = reason.trim();
    if reason.is_empty() || reason.len() > MAX_REASON_BYTES {
        let message = format!("`reason` must have 1 to {MAX_REASON_BYTES} bytes");
        return Err(ValidationError::new("reason", message));
    }
    Ok(reason.to_owned())
}
