//! Keys, and the time of their last use.

use jiff::Timestamp;
use tokio_postgres::Row;

use super::codec::{ReadColumn, arrays, parameters};
use super::error::{Constrained, expect_changed};
use super::transaction::Transaction;
use crate::StoreError;
use crate::codec::{At, Count, List};
use crate::objects::{self, select_keys};
use domain::id::{AccountId, KeyId, ModelId};
use domain::key::Key;

/// Adds a key; [`StoreError::NotFound`] if there is no such account.
pub(super) async fn insert(tx: &Transaction<'_>, key: &Key) -> Result<(), StoreError> {
    let sql = "INSERT INTO keys (id, digest, account, label, origin, rpm, tpm, concurrency, \
        monthly_tokens, observe, spend_cap, models, translation, created_at, expires_at, \
        revoked_at, successor, drain_seconds, created_by, trace_content) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, \
        $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)";
    let values = parameters![
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
    ];
    let inserted = tx.execute(sql, values).await;
    inserted.or_not_found().or_conflict(|| format!("key `{}` exists", key.id))?;
    Ok(())
}

/// Returns a key by its public id, with the time of its last use.
pub(super) async fn find(
    tx: &Transaction<'_>,
    id: &KeyId,
) -> Result<Option<(Key, Option<Timestamp>)>, StoreError> {
    let row = tx.query_opt(&select_keys("WHERE id = $1"), parameters![id]).await?;
    row.as_ref().map(read).transpose()
}

/// Returns the number of an account's keys that are neither revoked nor expired.
pub(super) async fn count_usable(
    tx: &Transaction<'_>,
    account: AccountId,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let sql = "SELECT count(*) FROM keys WHERE account = $1 AND revoked_at IS NULL \
        AND (expires_at IS NULL OR expires_at > $2)";
    let Count(count) = tx.query_one("keys", sql, parameters![account, At(now)]).await?.column(0)?;
    Ok(count)
}

/// Returns all keys that are not revoked.
pub(super) async fn unrevoked(tx: &Transaction<'_>) -> Result<Vec<Key>, StoreError> {
    let rows = tx.query(&select_keys("WHERE revoked_at IS NULL"), &[]).await?;
    rows.iter().map(objects::key).collect()
}

/// Returns the keys of an account that are not revoked.
pub(super) async fn unrevoked_of(
    tx: &Transaction<'_>,
    account: AccountId,
) -> Result<Vec<Key>, StoreError> {
    let sql = select_keys("WHERE account = $1 AND revoked_at IS NULL");
    tx.query(&sql, parameters![account]).await?.iter().map(objects::key).collect()
}

/// Returns the keys of one account, or all, newest first, with the time of their last use.
pub(super) async fn list(
    tx: &Transaction<'_>,
    account: Option<AccountId>,
) -> Result<Vec<(Key, Option<Timestamp>)>, StoreError> {
    let sql = select_keys(
        "WHERE $1::uuid IS NULL OR account = $1 ORDER BY created_at DESC, id COLLATE \"C\" DESC",
    );
    tx.query(&sql, parameters![account]).await?.iter().map(read).collect()
}

/// Revokes a key, unless it is revoked already.
pub(super) async fn revoke(
    tx: &Transaction<'_>,
    id: &KeyId,
    at: Timestamp,
) -> Result<(), StoreError> {
    let sql = "UPDATE keys SET revoked_at = coalesce(revoked_at, $2) WHERE id = $1";
    expect_changed(tx.execute(sql, parameters![id, At(at)]).await?)
}

/// Replaces the settings of a key that is not revoked.
pub(super) async fn update(tx: &Transaction<'_>, key: &Key) -> Result<(), StoreError> {
    let sql = "UPDATE keys SET label = $2, rpm = $3, tpm = $4, concurrency = $5, \
        monthly_tokens = $6, observe = $7, spend_cap = $8, models = $9, translation = $10, \
        drain_seconds = $11, expires_at = $12, trace_content = $13 WHERE id = $1 AND revoked_at IS NULL";
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
    expect_changed(tx.execute(sql, values).await?)
}

/// Sets the end and the successor of `old`, and adds the successor.
pub(super) async fn rotate(tx: &Transaction<'_>, old: &Key, new: &Key) -> Result<(), StoreError> {
    insert(tx, new).await?;
    let sql = "UPDATE keys SET expires_at = $2, revoked_at = $3, successor = $4 \
        WHERE id = $1 AND revoked_at IS NULL AND successor IS NULL";
    let values = parameters![old.id, old.expires_at.map(At), old.revoked_at.map(At), old.successor];
    expect_changed(tx.execute(sql, values).await?)
}

fn read(row: &Row) -> Result<(Key, Option<Timestamp>), StoreError> {
    let last_used = row.column::<Option<At>>("last_used_at")?;
    Ok((objects::key(row)?, last_used.map(|at| at.0)))
}

/// Advances the times of the last use of keys; missing keys are ignored.
pub(super) async fn touch(
    tx: &Transaction<'_>,
    last_used: &[(&KeyId, Timestamp)],
) -> Result<(), StoreError> {
    let sql = "UPDATE keys SET last_used_at = used.at \
        FROM unnest($1::text[], $2::bigint[]) AS used (id, at) \
        WHERE keys.id = used.id AND (last_used_at IS NULL OR last_used_at < used.at)";
    tx.execute(sql, arrays!(last_used, |row| row.0, At(row.1))).await?;
    Ok(())
}
