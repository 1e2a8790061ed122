//! The audit log.

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{Connection, params_from_iter};

use super::codec::{Parameter, parameters};
use super::{SqliteStore, calls};
use crate::audit::{AuditFilter, AuditLog};
use crate::codec::At;
use crate::records::{self, AUDIT};
use crate::{Cursor, StoreError};
use domain::audit::AuditEntry;
use domain::id::AccountId;
use domain::idempotency::{AdminCall, CompletedCall};

#[async_trait]
impl AuditLog for SqliteStore {
    async fn audit_before(
        &self,
        filter: &AuditFilter,
        before: Option<Cursor>,
        limit: usize,
    ) -> Result<Vec<(Cursor, AuditEntry)>, StoreError> {
        let filter = filter.clone();
        self.read(move |tx| page(tx, &filter, before, limit)).await
    }

    async fn add_audit(&self, entry: &AuditEntry) -> Result<(), StoreError> {
        self.write_audited(entry, |_| Ok(())).await
    }

    async fn find_call(
        &self,
        actor: AccountId,
        call: &AdminCall,
    ) -> Result<Option<CompletedCall>, StoreError> {
        let call = call.clone();
        self.read(move |tx| calls::find(tx, actor, &call)).await
    }

    async fn delete_old_calls(&self, before: Timestamp, limit: usize) -> Result<u64, StoreError> {
        // Avoids a write transaction without changes.
        if !self.read(move |tx| calls::are_before(tx, before)).await? {
            return Ok(0);
        }
        self.write(move |tx| calls::delete_before(tx, before, limit)).await
    }
}

/// Adds an entry in the transaction of its change.
pub(super) fn insert(tx: &Connection, entry: &AuditEntry) -> Result<(), StoreError> {
    let sql = "INSERT INTO audit (at, actor, action, object, account, details, address) \
        VALUES (?, ?, ?, ?, ?, ?, ?)";
    tx.prepare_cached(sql)?.execute(parameters![
        At(entry.at),
        entry.actor,
        entry.action,
        entry.object,
        entry.account,
        entry.details,
        entry.address
    ])?;
    if let (Some(call), Some(actor)) = (&entry.call, entry.actor) {
        calls::insert(tx, actor, call, &entry.object, entry.at)?;
    }
    Ok(())
}

fn page(
    tx: &Connection,
    filter: &AuditFilter,
    before: Option<Cursor>,
    limit: usize,
) -> Result<Vec<(Cursor, AuditEntry)>, StoreError> {
    let condition = filter.condition(before);
    let sql = format!("SELECT {AUDIT} FROM audit {} ORDER BY seq DESC", condition.sql());
    let mut select = tx.prepare_cached(&sql)?;
    let rows = select.query_map(params_from_iter(condition.values().map(Parameter)), |row| {
        records::audit(row)
    })?;
    Ok(rows.take(limit).collect::<Result<_, _>>()?)
}
