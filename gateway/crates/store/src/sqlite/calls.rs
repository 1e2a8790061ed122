//! Stored admin calls with idempotency keys.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use super::codec::{ReadColumn, parameters};
use super::error::Constrained;
use crate::StoreError;
use crate::codec::At;
use domain::id::AccountId;
use domain::idempotency::{AdminCall, CompletedCall};

/// Adds a call in the transaction of its change; [`StoreError::Conflict`] if it was made before.
pub(super) fn insert(
    tx: &Connection,
    actor: AccountId,
    call: &AdminCall,
    object: &str,
    at: Timestamp,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO admin_calls (actor, method, key, digest, object, at) \
        VALUES (?, ?, ?, ?, ?, ?)";
    let values = parameters![actor, call.method, call.key, call.digest, object, At(at)];
    tx.prepare_cached(sql)?
        .execute(values)
        .or_conflict(|| "this call was already made".to_owned())?;
    Ok(())
}

/// Returns the call of `actor` with the same method and key.
pub(super) fn find(
    tx: &Connection,
    actor: AccountId,
    call: &AdminCall,
) -> Result<Option<CompletedCall>, StoreError> {
    let sql = "SELECT digest, object FROM admin_calls WHERE actor = ? AND method = ? AND key = ?";
    let read = |row: &rusqlite::Row<'_>| {
        Ok(CompletedCall { digest: row.column(0)?, object: row.column(1)? })
    };
    let mut select = tx.prepare_cached(sql)?;
    Ok(select.query_row(parameters![actor, call.method, call.key], read).optional()?)
}

/// Returns whether there are calls from before `time`.
pub(super) fn are_before(tx: &Connection, time: Timestamp) -> Result<bool, StoreError> {
    let mut select = tx.prepare_cached("SELECT 1 FROM admin_calls WHERE at < ? LIMIT 1")?;
    Ok(select.exists(parameters![At(time)])?)
}

/// Deletes up to `limit` calls from before `time`. Returns how many.
pub(super) fn delete_before(
    tx: &Connection,
    time: Timestamp,
    limit: usize,
) -> Result<u64, StoreError> {
    let sql = "DELETE FROM admin_calls WHERE (actor, method, key) IN \
        (SELECT actor, method, key FROM admin_calls WHERE at < ? LIMIT ?)";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let deleted = tx.prepare_cached(sql)?.execute(parameters![At(time), limit])?;
    Ok(deleted as u64)
}
