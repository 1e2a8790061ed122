//! Keys, and the time of their last use.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row};

use super::codec::{ReadColumn, parameters};
use super::error::Constrained;
use crate::StoreError;
use crate::codec::{At, Count, List};
use crate::objects;
use domain::id::{AccountId, KeyId, ModelId};
use domain::key::Key;

const SELECT: &str = "SELECT id, digest, account, label, origin, rpm, tpm, concurrency, monthly_tokens, \
    observe, spend_cap, models, translation, created_at, expires_at, revoked_at, successor, \
    drain_seconds, last_used_at FROM keys";

/// Adds a key; [`StoreError::NotFound`] if there is no such account.
pub(super) fn insert(tx: &Connection, key: &Key) -> Result<(), StoreError> {
    tx.prepare_cached(
        "INSERT INTO keys (id, digest, account, label, origin, rpm, tpm, concurrency, \
         monthly_tokens, observe, spend_cap, models, translation, created_at, expires_at, \
         revoked_at, successor, drain_seconds) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(parameters![
        key.id,
        key.digest,
        key.account,
        key.label,
        key.origin,
        key.limits.rpm.map(Count),
        key.limits.tpm.map(Count),
        key.limits.concurrency.map(Count),
        key.limits.monthly_tokens.map(Count),
        key.limits.observe,
        key.spend_cap,
        List::of(key.models.iter().map(ModelId::as_str)),
        key.translation,
        At(key.created_at),
        key.expires_at.map(At),
        key.revoked_at.map(At),
        key.successor,
        objects::drain_seconds(key.client_gone)
    ])
    .or_not_found()
    .or_conflict(|| format!("key `{}` exists", key.id))?;
    Ok(())
}

/// Returns a key by its public id.
pub(super) fn find(tx: &Connection, id: &KeyId) -> Result<Option<Key>, StoreError> {
    let mut select = tx.prepare_cached(&format!("{SELECT} WHERE id = ?"))?;
    Ok(select.query_row(parameters![id], read).optional()?.map(|(key, _)| key))
}

/// Returns all keys that are not revoked.
pub(super) fn unrevoked(tx: &Connection) -> Result<Vec<Key>, StoreError> {
    let mut select = tx.prepare_cached(&format!("{SELECT} WHERE revoked_at IS NULL"))?;
    let keys = select.query_map([], |row| objects::key(row))?.collect::<Result<_, _>>()?;
    Ok(keys)
}

/// Returns the keys of one account, or all, newest first, with the time of their last use.
pub(super) fn list(
    tx: &Connection,
    account: Option<AccountId>,
) -> Result<Vec<(Key, Option<Timestamp>)>, StoreError> {
    let chosen = if account.is_some() { "account = ?1" } else { "?1 IS NULL" };
    let sql = format!("{SELECT} WHERE {chosen} ORDER BY created_at DESC, id DESC");
    Ok(tx.prepare_cached(&sql)?.query_map(parameters![account], read)?.collect::<Result<_, _>>()?)
}

/// Revokes a key, unless it is revoked already.
pub(super) fn revoke(tx: &Connection, id: &KeyId, at: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE keys SET revoked_at = coalesce(revoked_at, ?2) WHERE id = ?1";
    match tx.prepare_cached(sql)?.execute(parameters![id, At(at)])? {
        0 => Err(StoreError::NotFound),
        _ => Ok(()),
    }
}

/// Sets the end and the successor of `old`, and adds the successor.
pub(super) fn rotate(tx: &Connection, old: &Key, new: &Key) -> Result<(), StoreError> {
    insert(tx, new)?;
    let sql = "UPDATE keys SET expires_at = ?2, revoked_at = ?3, successor = ?4 \
        WHERE id = ?1 AND revoked_at IS NULL AND successor IS NULL";
    let values = parameters![old.id, old.expires_at.map(At), old.revoked_at.map(At), old.successor];
    match tx.prepare_cached(sql)?.execute(values)? {
        0 => Err(StoreError::NotFound),
        _ => Ok(()),
    }
}

/// Advances the time of a key's last use to `at`; a missing key is ignored.
pub(super) fn touch(tx: &Connection, id: &KeyId, at: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE keys SET last_used_at = ?2 \
        WHERE id = ?1 AND (last_used_at IS NULL OR last_used_at < ?2)";
    tx.prepare_cached(sql)?.execute(parameters![id, At(at)])?;
    Ok(())
}

fn read(row: &Row<'_>) -> rusqlite::Result<(Key, Option<Timestamp>)> {
    let last_used = row.column::<Option<At>>("last_used_at")?;
    Ok((objects::key(row)?, last_used.map(|at| at.0)))
}
