//! The audit log, and the stored admin calls with idempotency keys.

use async_trait::async_trait;
use jiff::Timestamp;
use tokio_postgres::Row;

use super::PostgresStore;
use super::codec::{ReadColumn, parameters};
use super::error::Constrained;
use super::transaction::Transaction;
use crate::audit::{AuditFilter, AuditLog};
use crate::codec::At;
use crate::records::{self, AUDIT};
use crate::{Cursor, StoreError};
use domain::audit::AuditEntry;
use domain::id::AccountId;
use domain::idempotency::{AdminCall, CompletedCall};

#[async_trait]
impl AuditLog for PostgresStore {
    async fn add_audit(&self, entry: &AuditEntry) -> Result<(), StoreError> {
        self.connection().await?.begin(self.epoch).await?.commit_audited(entry).await
    }

    async fn find_call(
        &self,
        actor: AccountId,
        call: &AdminCall,
    ) -> Result<Option<CompletedCall>, StoreError> {
        let sql = "SELECT digest, object FROM admin_calls \
            WHERE actor = $1 AND method = $2 AND key = $3";
        let mut connection = self.connection().await?;
        let tx = connection.view().await?;
        let row = tx.query_opt(sql, parameters![actor, call.method, call.key]).await?;
        let read = |row: Row| Ok(CompletedCall { digest: row.column(0)?, object: row.column(1)? });
        row.map(read).transpose()
    }

    async fn delete_old_calls(&self, before: Timestamp, limit: usize) -> Result<u64, StoreError> {
        let sql = "DELETE FROM admin_calls WHERE (actor, method, key) IN \
            (SELECT actor, method, key FROM admin_calls WHERE at < $1 LIMIT $2)";
        let mut connection = self.connection().await?;
        let tx = connection.begin(self.epoch).await?;
        if !tx.try_claim_retention().await? {
            return Ok(0);
        }
        let deleted = tx.execute(sql, parameters![At(before), rows(limit)]).await?;
        tx.commit().await?;
        Ok(deleted)
    }

    async fn audit_before(
        &self,
        filter: &AuditFilter,
        before: Option<Cursor>,
        limit: usize,
    ) -> Result<Vec<(Cursor, AuditEntry)>, StoreError> {
        let condition = filter.condition(before);
        let sql = format!(
            "SELECT {AUDIT} FROM audit {} ORDER BY seq DESC LIMIT {}",
            condition.sql(),
            rows(limit)
        );
        let mut connection = self.connection().await?;
        let found = connection.view().await?.query_with(&sql, &[condition]).await?;
        found.iter().map(records::audit).collect()
    }
}

/// Adds an entry, with its call, in the transaction of its change.
pub(super) async fn insert(tx: &Transaction<'_>, entry: &AuditEntry) -> Result<(), StoreError> {
    let sql = "INSERT INTO audit (at, actor, action, object, account, details, address) \
        VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let values = parameters![
        At(entry.at),
        entry.actor,
        entry.action,
        entry.object,
        entry.account,
        entry.details,
        entry.address
    ];
    tx.execute(sql, values).await?;
    let (Some(call), Some(actor)) = (&entry.call, entry.actor) else { return Ok(()) };
    let sql = "INSERT INTO admin_calls (actor, method, key, digest, object, at) \
        VALUES ($1, $2, $3, $4, $5, $6)";
    let values = parameters![actor, call.method, call.key, call.digest, entry.object, At(entry.at)];
    let inserted = tx.execute(sql, values).await;
    inserted.or_conflict(|| "this call was already made".to_owned())?;
    Ok(())
}

/// Returns a number of rows as a parameter of `LIMIT`.
pub(super) fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
