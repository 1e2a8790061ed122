//! The renaming, the closing and the deletion of accounts.

use async_trait::async_trait;
use jiff::Timestamp;

use super::StoreError;
use domain::account::Account;
use domain::audit::AuditEntry;
use domain::key::Key;

/// Renames, closes and deletes accounts.
#[async_trait]
pub trait AccountLifecycle: Send + Sync {
    /// Replaces the name of an account by that of `account`. [`StoreError::Conflict`] if it is taken
    /// (names are compared without case), [`StoreError::NotFound`] if there is no such account.
    async fn rename_account(&self, account: &Account, audit: &AuditEntry)
    -> Result<(), StoreError>;
    /// Writes the status of `account`, ends all its sessions and revokes all its keys at `at`. Returns
    /// the keys that were not revoked before. [`StoreError::NotFound`] if there is no such account.
    async fn close_account(
        &self,
        account: &Account,
        at: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Vec<Key>, StoreError>;
    /// Replaces the name, the status and the password hash of an account by those of `account` and
    /// `password_hash`, and deletes its sessions, the labels of its keys, its invites, and the admin
    /// calls that name it. Everything else is removed by [`Self::purge_deleted`].
    /// [`StoreError::NotFound`] if there is no such account.
    async fn delete_account(
        &self,
        account: &Account,
        password_hash: &str,
        at: Timestamp,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;
    /// Removes up to about `limit` texts of deleted accounts from large tables: stored responses, the
    /// notes and idempotency digests of request records, the notes of ledger entries, and names and
    /// details in the audit log. Amounts, counts and times stay. Returns the number of changed rows;
    /// zero if there are none, or while another gateway deletes old rows.
    ///
    /// Accounts that were deleted before `settled_before` are not looked at any more once they have
    /// nothing left: their last requests have ended.
    async fn purge_deleted(&self, settled_before: Timestamp, limit: u32)
    -> Result<u64, StoreError>;
    /// Removes what earlier versions of rows left in the files of the database, as far as the backend
    /// can. Called after the last [`Self::purge_deleted`].
    async fn scrub(&self) -> Result<(), StoreError>;
}
