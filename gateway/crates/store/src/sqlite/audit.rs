//! The audit log.

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{Connection, Row, params_from_iter};

use super::codec::{At, Parameter, ReadColumn, ToColumn, parameters};
use super::{SqliteStore, calls};
use crate::audit::{AuditFilter, AuditLog};
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
    let sql = "INSERT INTO audit (at, actor, action, object, account, details) \
        VALUES (?, ?, ?, ?, ?, ?)";
    tx.prepare_cached(sql)?.execute(parameters![
        At(entry.at),
        entry.actor,
        entry.action,
        entry.object,
        entry.account,
        entry.details
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
    let mut sql = "SELECT seq, at, actor, action, object, account, details FROM audit \
        WHERE TRUE"
        .to_owned();
    let mut values: Vec<Box<dyn ToColumn>> = Vec::new();
    if let Some(account) = filter.account {
        sql.push_str(" AND (account = ? OR actor = ?)");
        values.extend([Box::new(account) as Box<dyn ToColumn>, Box::new(account)]);
    }
    if let Some(since) = filter.since {
        sql.push_str(" AND at >= ?");
        values.push(Box::new(At(since)));
    }
    if let Some(until) = filter.until {
        sql.push_str(" AND at < ?");
        values.push(Box::new(At(until)));
    }
    if let Some(before) = before {
        sql.push_str(" AND seq < ?");
        values.push(Box::new(before.0));
    }
    sql.push_str(" ORDER BY seq DESC");
    let mut select = tx.prepare_cached(&sql)?;
    let rows = select.query_map(params_from_iter(values.iter().map(Parameter)), read)?;
    Ok(rows.take(limit).collect::<Result<_, _>>()?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<(Cursor, AuditEntry)> {
    let entry = AuditEntry {
        at: row.column::<At>(1)?.0,
        actor: row.column(2)?,
        action: row.column(3)?,
        object: row.column(4)?,
        account: row.column(5)?,
        details: row.column(6)?,
        call: None,
    };
    Ok((Cursor(row.column(0)?), entry))
}
