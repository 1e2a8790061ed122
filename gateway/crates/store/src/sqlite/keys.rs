//! Keys, and what each has used.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row};

use super::codec::{ReadColumn, parameters};
use super::error::Constrained;
use crate::StoreError;
use crate::codec::{At, Count, List};
use crate::objects::{self, select_keys};
use domain::id::{AccountId, KeyId, ModelId};
use domain::key::Key;
use domain::money::Nanos;

/// What the requests of a batch used of their key.
#[derive(Clone, Copy)]
pub(super) struct KeyUse {
    /// The time of the last request.
    pub(super) last_used_at: Timestamp,
    /// The cost of the requests.
    pub(super) spent: Nanos,
    /// The first day of the month of the last request, in days since 1970.
    pub(super) month: i64,
    /// The tokens of the requests of that month.
    pub(super) tokens: u64,
}

/// Adds a key; [`StoreError::NotFound`] if there is no such account.
pub(super) fn insert(tx: &Connection, key: &Key) -> Result<(), StoreError> {
    tx.prepare_cached(
        "INSERT INTO keys (id, digest, account, label, origin, rpm, tpm, concurrency, \
         monthly_tokens, observe, spend_cap, models, translation, created_at, expires_at, \
         revoked_at, successor, drain_seconds, created_by, trace_content) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
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
        objects::drain_seconds(key.client_gone),
        key.created_by,
        key.trace_content
    ])
    .or_not_found()
    .or_conflict(|| format!("key `{}` exists", key.id))?;
    Ok(())
}

/// Returns a key by its public id, with the time of its last use.
pub(super) fn find(
    tx: &Connection,
    id: &KeyId,
) -> Result<Option<(Key, Option<Timestamp>)>, StoreError> {
    let mut select = tx.prepare_cached(&select_keys("WHERE id = ?"))?;
    Ok(select.query_row(parameters![id], read).optional()?)
}

/// Returns the number of an account's keys that are neither revoked nor expired.
pub(super) fn count_usable(
    tx: &Connection,
    account: AccountId,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let sql = "SELECT count(*) FROM keys WHERE account = ? AND revoked_at IS NULL \
        AND (expires_at IS NULL OR expires_at > ?)";
    let count = |row: &Row<'_>| row.column(0);
    let Count(count) = tx.prepare_cached(sql)?.query_row(parameters![account, At(now)], count)?;
    Ok(count)
}

/// Returns all keys that are not revoked.
pub(super) fn unrevoked(tx: &Connection) -> Result<Vec<Key>, StoreError> {
    let mut select = tx.prepare_cached(&select_keys("WHERE revoked_at IS NULL"))?;
    let keys = select.query_map([], |row| objects::key(row))?.collect::<Result<_, _>>()?;
    Ok(keys)
}

/// Returns the keys of an account that are not revoked.
pub(super) fn unrevoked_of(tx: &Connection, account: AccountId) -> Result<Vec<Key>, StoreError> {
    let mut select = tx.prepare_cached(&select_keys("WHERE account = ? AND revoked_at IS NULL"))?;
    let keys = select.query_map(parameters![account], |row| objects::key(row))?;
    Ok(keys.collect::<Result<_, _>>()?)
}

/// Returns the keys of one account, or all, newest first, with the time of their last use.
pub(super) fn list(
    tx: &Connection,
    account: Option<AccountId>,
) -> Result<Vec<(Key, Option<Timestamp>)>, StoreError> {
    let chosen = if account.is_some() { "account = ?1" } else { "?1 IS NULL" };
    let sql = select_keys(&format!("WHERE {chosen} ORDER BY created_at DESC, id DESC"));
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

/// Replaces the settings of a key that is not revoked.
pub(super) fn update(tx: &Connection, key: &Key) -> Result<(), StoreError> {
    let sql = "UPDATE keys SET label = ?2, rpm = ?3, tpm = ?4, concurrency = ?5, \
        monthly_tokens = ?6, observe = ?7, spend_cap = ?8, models = ?9, translation = ?10, \
        drain_seconds = ?11, expires_at = ?12, trace_content = ?13 WHERE id = ?1 AND revoked_at IS NULL";
    let values = parameters![
        key.id,
        key.label,
        key.limits.rpm.map(Count),
        key.limits.tpm.map(Count),
        key.limits.concurrency.map(Count),
        key.limits.monthly_tokens.map(Count),
        key.limits.observe,
        key.spend_cap,
        List::of(key.models.iter().map(ModelId::as_str)),
        key.translation,
        objects::drain_seconds(key.client_gone),
        key.expires_at.map(At),
        key.trace_content
    ];
    match tx.prepare_cached(sql)?.execute(values)? {
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

/// Adds what requests used of a key to its row; a missing key is ignored. The tokens of a month
/// replace those of an earlier one. On overflow, SQLite yields a float, which the cast saturates.
pub(super) fn add_use(tx: &Connection, id: &KeyId, used: KeyUse) -> Result<(), StoreError> {
    let sql = "UPDATE keys SET last_used_at = max(ifnull(last_used_at, ?2), ?2), \
        spent = CAST(spent + ?3 AS INTEGER), used_month = max(used_month, ?4), \
        used_tokens = CASE WHEN used_month = ?4 THEN CAST(used_tokens + ?5 AS INTEGER) \
        WHEN used_month < ?4 THEN ?5 ELSE used_tokens END WHERE id = ?1";
    let KeyUse { last_used_at, spent, month, tokens } = used;
    let values = parameters![id, At(last_used_at), spent, month, Count(tokens)];
    tx.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

fn read(row: &Row<'_>) -> rusqlite::Result<(Key, Option<Timestamp>)> {
    let last_used = row.column::<Option<At>>("last_used_at")?;
    Ok((objects::key(row)?, last_used.map(|at| at.0)))
}

// === impl KeyUse ===

impl KeyUse {
    /// Adds what another request used.
    pub(super) fn add(&mut self, other: Self) {
        self.last_used_at = self.last_used_at.max(other.last_used_at);
        self.spent = self.spent.saturating_add(other.spent);
        if self.month < other.month {
            (self.month, self.tokens) = (other.month, other.tokens);
        } else if self.month == other.month {
            self.tokens = self.tokens.saturating_add(other.tokens);
        }
    }
}
