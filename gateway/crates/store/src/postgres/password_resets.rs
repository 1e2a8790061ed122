//! Codes with which the owners of accounts set new passwords.
//!
//! A code depends on the roles of its account and of its creator, so adding and using one are changes:
//! they fail with [`StoreError::Stale`] if the caller may have read roles of earlier times.

use async_trait::async_trait;

use super::codec::{ReadColumn, parameters};
use super::error::Constrained;
use super::transaction::Transaction;
use super::{PostgresStore, identities};
use crate::codec::At;
use crate::objects::{self, PASSWORD_RESETS};
use crate::{PasswordResets, StoreError};
use domain::account::PasswordReset;
use domain::audit::AuditEntry;
use domain::id::AccountId;

#[async_trait]
impl PasswordResets for PostgresStore {
    async fn add_password_reset(
        &self,
        reset: &PasswordReset,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let tx = self.begin_change(&mut connection).await?;
        insert(&tx, reset).await?;
        tx.commit_audited(audit).await
    }

    async fn find_password_reset(
        &self,
        digest: [u8; 32],
    ) -> Result<Option<PasswordReset>, StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.view().await?;
        let sql = format!("{PASSWORD_RESETS} WHERE digest = $1");
        let found = tx.query_opt(&sql, parameters![digest]).await?;
        found.as_ref().map(objects::password_reset).transpose()
    }

    async fn use_password_reset(
        &self,
        digest: [u8; 32],
        password_hash: &str,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let tx = self.begin_change(&mut connection).await?;
        let sql = "SELECT account FROM password_resets WHERE digest = $1 FOR UPDATE";
        let found = tx.query_opt(sql, parameters![digest]).await?;
        let account: AccountId = found.ok_or(StoreError::NotFound)?.column(0)?;
        identities::set_password(&tx, account, password_hash, None).await?;
        tx.commit_audited(audit).await
    }
}

/// Adds a code, which replaces an earlier one for its account.
pub(super) async fn insert(tx: &Transaction<'_>, reset: &PasswordReset) -> Result<(), StoreError> {
    let sql = "DELETE FROM password_resets WHERE account = $1 OR expires_at <= $2";
    tx.execute(sql, parameters![reset.account, At(reset.created_at)]).await?;
    let sql = "INSERT INTO password_resets \
        (account, digest, created_by, created_at, expires_at) VALUES ($1, $2, $3, $4, $5)";
    let values = parameters![
        reset.account,
        reset.digest,
        reset.created_by,
        At(reset.created_at),
        At(reset.expires_at)
    ];
    let inserted = tx.execute(sql, values).await;
    inserted.or_not_found().or_conflict(|| "this code exists".to_owned())?;
    Ok(())
}

/// Deletes the code for an account, if there is one, and those that it created: it may have been another person who
/// created them in its name.
pub(super) async fn remove(tx: &Transaction<'_>, account: AccountId) -> Result<(), StoreError> {
    let sql = "DELETE FROM password_resets WHERE account = $1 OR created_by = $1";
    tx.execute(sql, parameters![account]).await?;
    Ok(())
}

/// Deletes the codes that a person created, for when it may no longer create them.
pub(super) async fn remove_created_by(
    tx: &Transaction<'_>,
    person: AccountId,
) -> Result<(), StoreError> {
    tx.execute("DELETE FROM password_resets WHERE created_by = $1", parameters![person]).await?;
    Ok(())
}
