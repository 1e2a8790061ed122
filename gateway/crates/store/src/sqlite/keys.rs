//! Keys, and the time of their last use.

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row};

use super::codec::{At, Count, List, ReadColumn, parameters};
use super::error::Constrained;
use crate::StoreError;
use domain::id::{AccountId, KeyId, ModelId};
use domain::key::{ClientGone, Key};
use domain::limit::Limits;

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
        drain_seconds(key.client_gone)
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
    let keys = select.query_map([], |row| Ok(read(row)?.0))?.collect::<Result<_, _>>()?;
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
    let at =
        |column: &str| Ok::<_, rusqlite::Error>(row.column::<Option<At>>(column)?.map(|at| at.0));
    let key = Key {
        id: row.column("id")?,
        digest: row.column("digest")?,
        account: row.column("account")?,
        label: row.column("label")?,
        origin: row.column("origin")?,
        limits: limits(row)?,
        spend_cap: row.column("spend_cap")?,
        models: row.column::<List>("models")?.into_models(),
        translation: row.column("translation")?,
        created_at: row.column::<At>("created_at")?.0,
        expires_at: at("expires_at")?,
        revoked_at: at("revoked_at")?,
        successor: row.column("successor")?,
        client_gone: match row.column("drain_seconds")? {
            None => ClientGone::Cancel,
            Some(Count(seconds)) => ClientGone::Drain(Duration::from_secs(seconds)),
        },
    };
    Ok((key, at("last_used_at")?))
}

fn drain_seconds(client_gone: ClientGone) -> Option<Count> {
    match client_gone {
        ClientGone::Cancel => None,
        ClientGone::Drain(limit) => Some(Count(limit.as_secs())),
    }
}

/// Reads the limits of a key, a plan or a model.
pub(super) fn limits(row: &Row<'_>) -> rusqlite::Result<Limits> {
    let limit =
        |column| Ok::<_, rusqlite::Error>(row.column::<Option<Count>>(column)?.map(|n| n.0));
    Ok(Limits {
        rpm: limit("rpm")?,
        tpm: limit("tpm")?,
        concurrency: limit("concurrency")?,
        monthly_tokens: limit("monthly_tokens")?,
        observe: row.column("observe")?,
    })
}
