//! Calls of the admin plane that were made under an idempotency key, for as long as they are remembered.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::codec::At;
use crate::domain::id::AccountId;
use crate::domain::idempotency::{AdminCall, DoneCall};
use crate::store::StoreError;

/// Adds a call, in the transaction of the change that it asked for.
pub(super) fn insert(
    tx: &Connection,
    actor: AccountId,
    call: &AdminCall,
    object: &str,
    at: Timestamp,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO admin_calls (actor, method, key, digest, object, at) \
        VALUES (?, ?, ?, ?, ?, ?)";
    let values = params![actor, call.method, call.key, call.digest, object, At(at)];
    tx.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

/// Returns the call that `actor` made by the same method under the same key.
pub(super) fn find(
    tx: &Connection,
    actor: AccountId,
    call: &AdminCall,
) -> Result<Option<DoneCall>, StoreError> {
    let sql = "SELECT digest, object FROM admin_calls WHERE actor = ? AND method = ? AND key = ?";
    let read = |row: &rusqlite::Row<'_>| Ok(DoneCall { digest: row.get(0)?, object: row.get(1)? });
    let mut select = tx.prepare_cached(sql)?;
    Ok(select.query_row(params![actor, call.method, call.key], read).optional()?)
}

/// Returns whether there are calls that were made before `time`.
pub(super) fn are_before(tx: &Connection, time: Timestamp) -> Result<bool, StoreError> {
    let mut select = tx.prepare_cached("SELECT 1 FROM admin_calls WHERE at < ? LIMIT 1")?;
    Ok(select.exists([At(time)])?)
}

/// Forgets calls that were made before `time`, up to `limit`. Returns how many.
pub(super) fn forget(tx: &Connection, time: Timestamp, limit: usize) -> Result<u64, StoreError> {
    let sql = "DELETE FROM admin_calls WHERE (actor, method, key) IN \
        (SELECT actor, method, key FROM admin_calls WHERE at < ? LIMIT ?)";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let forgotten = tx.prepare_cached(sql)?.execute(params![At(time), limit])?;
    Ok(forgotten as u64)
}
