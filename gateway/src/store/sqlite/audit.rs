//! The audit log.

use async_trait::async_trait;
use rusqlite::{Connection, Row, ToSql, params, params_from_iter};

use super::SqliteStore;
use super::codec::At;
use crate::domain::audit::AuditEntry;
use crate::store::audit::{AuditFilter, AuditLog};
use crate::store::{Cursor, StoreError};

#[async_trait]
impl AuditLog for SqliteStore {
    async fn add_audit(&self, entry: &AuditEntry) -> Result<(), StoreError> {
        let entry = entry.clone();
        self.write(move |tx| insert(tx, &entry)).await
    }

    async fn audit_before(
        &self,
        filter: &AuditFilter,
        before: Option<Cursor>,
        limit: usize,
    ) -> Result<Vec<(Cursor, AuditEntry)>, StoreError> {
        let filter = filter.clone();
        self.read(move |tx| page(tx, &filter, before, limit)).await
    }
}

/// Adds an entry, in the transaction of the change that it is about.
pub(super) fn insert(tx: &Connection, entry: &AuditEntry) -> Result<(), StoreError> {
    let sql = "INSERT INTO audit (at, actor, action, object, account, details) \
        VALUES (?, ?, ?, ?, ?, ?)";
    tx.prepare_cached(sql)?.execute(params![
        At(entry.at),
        entry.actor,
        entry.action,
        entry.object,
        entry.account,
        entry.details
    ])?;
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
    let mut values: Vec<Box<dyn ToSql>> = Vec::new();
    if let Some(account) = filter.account {
        sql.push_str(" AND (account = ? OR actor = ?)");
        values.extend([Box::new(account) as Box<dyn ToSql>, Box::new(account)]);
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
    let rows = select.query_map(params_from_iter(values), read)?;
    Ok(rows.take(limit).collect::<Result<_, _>>()?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<(Cursor, AuditEntry)> {
    let entry = AuditEntry {
        at: row.get::<_, At>(1)?.0,
        actor: row.get(2)?,
        action: row.get(3)?,
        object: row.get(4)?,
        account: row.get(5)?,
        details: row.get(6)?,
    };
    Ok((Cursor(row.get(0)?), entry))
}
