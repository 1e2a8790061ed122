//! Codes with which the owners of accounts set new passwords.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension};

use super::codec::{ReadColumn, parameters};
use super::error::Constrained;
use super::{SqliteStore, identities};
use crate::codec::At;
use crate::objects::{self, PASSWORD_RESETS};
use crate::{PasswordResets, StoreError};
use domain::account::PasswordReset;
use domain::audit::AuditEntry;
use domain::id::AccountId;

#[async_trait]
impl PasswordResets for SqliteStore {
    async fn add_password_reset(
        &self,
        reset: &PasswordReset,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let reset = reset.clone();
        self.write_audited(audit, move |tx| insert(tx, &reset)).await
    }

    async fn find_password_reset(
        &self,
        digest: [u8; 32],
    ) -> Result<Option<PasswordReset>, StoreError> {
        self.read(move |tx| {
            let mut select = tx.prepare_cached(&format!("{PASSWORD_RESETS} WHERE digest = ?"))?;
            let found = select.query_row(parameters![digest], |row| objects::password_reset(row));
            Ok(found.optional()?)
        })
        .await
    }

    async fn use_password_reset(
        &self,
        digest: [u8; 32],
        password_hash: &str,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let hash = password_hash.to_owned();
        self.write_audited(audit, move |tx| {
            let sql = "SELECT account FROM password_resets WHERE digest = ?";
            let account: Option<AccountId> =
                tx.query_row(sql, parameters![digest], |row| row.column(0)).optional()?;
            let account = account.ok_or(StoreError::NotFound)?;
            identities::set_password(tx, account, &hash, None)?;
            Ok(())
        })
        .await
    }
}

/// Adds a code, which replaces an earlier one for its account.
pub(super) fn insert(tx: &Connection, reset: &PasswordReset) -> Result<(), StoreError> {
    let sql = "DELETE FROM password_resets WHERE account = ? OR expires_at <= ?";
    tx.execute(sql, parameters![reset.account, At(reset.created_at)])?;
    let sql = "INSERT INTO password_resets (account, digest, created_by, created_at, expires_at) \
        VALUES (?, ?, ?, ?, ?)";
    let values = parameters![
        reset.account,
        reset.digest,
        reset.created_by,
        At(reset.created_at),
        At(reset.expires_at)
    ];
    let inserted = tx.execute(sql, values);
    inserted.or_not_found().or_conflict(|| "this code exists".to_owned())?;
    Ok(())
}

/// Deletes the code for an account, if there is one, and those that it created: it may have been another person who
/// created them in its name.
pub(super) fn remove(tx: &Connection, account: AccountId) -> Result<(), StoreError> {
    let sql = "DELETE FROM password_resets WHERE account = ?1 OR created_by = ?1";
    tx.execute(sql, parameters![account])?;
    Ok(())
}

/// Deletes the codes that a person created, for when it may no longer create them.
pub(super) fn remove_created_by(tx: &Connection, person: AccountId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM password_resets WHERE created_by = ?", parameters![person])?;
    Ok(())
}
