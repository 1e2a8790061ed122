//! The append-only audit log. Each change adds an entry.

use async_trait::async_trait;
use jiff::Timestamp;

use super::{Cursor, StoreError};
use crate::codec::At;
use crate::condition::{Condition, ConditionValue};
use domain::audit::AuditEntry;
use domain::id::AccountId;
use domain::idempotency::{AdminCall, CompletedCall};

/// Reads the audit log. Changes of the other traits write their entries, and the calls that
/// requested them, in their own transactions. A change fails with [`StoreError::Conflict`] if its
/// call was already made, that is, if there is a stored call of the same actor, method and key.
#[async_trait]
pub trait AuditLog: Send + Sync {
    /// Adds an entry without a change.
    async fn add_audit(&self, entry: &AuditEntry) -> Result<(), StoreError>;
    /// Returns the stored call of `actor` with the same method and key.
    async fn find_call(
        &self,
        actor: AccountId,
        call: &AdminCall,
    ) -> Result<Option<CompletedCall>, StoreError>;
    /// Deletes up to `limit` calls made before `before`. Returns the number of deleted calls; if it
    /// equals `limit`, there may be more.
    async fn delete_old_calls(&self, before: Timestamp, limit: usize) -> Result<u64, StoreError>;
    /// Returns up to `limit` entries before `before` (from the end if `None`), newest first.
    async fn audit_before(
        &self,
        filter: &AuditFilter,
        before: Option<Cursor>,
        limit: usize,
    ) -> Result<Vec<(Cursor, AuditEntry)>, StoreError>;
}

/// Selects entries; each field narrows the selection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Entries that concern this account or were made by it.
    pub account: Option<AccountId>,
    /// Entries made at or after this time.
    pub since: Option<Timestamp>,
    /// Entries made before this time.
    pub until: Option<Timestamp>,
}

impl AuditFilter {
    /// Returns the condition on the entries before `before` (from the end if `None`).
    pub(crate) fn condition(&self, before: Option<Cursor>) -> Condition {
        let mut condition = Condition::default();
        if let Some(account) = self.account {
            let values = [account, account].map(|account| Box::new(account) as ConditionValue);
            condition.and_with("(account = ? OR actor = ?)", values);
        }
        condition.and_if_some("at >= ?", self.since.map(At));
        condition.and_if_some("at < ?", self.until.map(At));
        condition.and_if_some("seq < ?", before.map(|before| before.0));
        condition
    }
}
