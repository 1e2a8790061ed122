//! The renaming, the closing and the deletion of accounts.
//!
//! The writing connection overwrites deleted content with zeros (`secure_delete`), in the file as soon
//! as the write-ahead log is checkpointed; [`AccountLifecycle::scrub`] does that and empties the log.

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::Connection;

use super::codec::{ReadColumn, parameters};
use super::error::Constrained;
use super::{SqliteStore, keys, password_resets, people};
use crate::codec::At;
use crate::objects::{name_is_taken, status_columns};
use crate::{AccountLifecycle, StoreError};
use domain::account::Account;
use domain::audit::AuditEntry;
use domain::id::AccountId;
use domain::key::Key;

/// The rows of one table that a purge changes: how they are found for an account (`?1`), and what is done
/// with a found one. Found by a reader, because the search reads all rows of the account.
const PURGED: [(&str, &str); 4] = [
    (
        "SELECT rowid FROM responses WHERE account = ?1 LIMIT ?2",
        "DELETE FROM responses WHERE rowid = ?",
    ),
    (
        "SELECT seq FROM request_runs CROSS JOIN requests ON seq BETWEEN first AND last WHERE owner = ?1 \
            AND (notes IS NOT NULL OR idempotency IS NOT NULL) LIMIT ?2",
        "UPDATE requests SET notes = NULL, idempotency = NULL WHERE seq = ?",
    ),
    (
        "SELECT seq FROM entry_runs CROSS JOIN ledger_entries ON seq BETWEEN first AND last \
            WHERE owner = ?1 AND note <> '' LIMIT ?2",
        "UPDATE ledger_entries SET note = '' WHERE seq = ?",
    ),
    (
        "SELECT seq FROM audit WHERE account = ?1 AND (details <> '' OR (address IS NOT NULL \
            AND (actor IS NULL OR actor IN (SELECT id FROM accounts WHERE id = ?1 OR belongs_to = ?1))) \
            OR (action NOT LIKE 'key.%' \
            AND object <> (SELECT name FROM accounts WHERE id = ?1))) LIMIT ?2",
        "UPDATE audit SET details = '', address = CASE WHEN actor NOT IN \
            (SELECT id FROM accounts WHERE id = account OR belongs_to = account) THEN address END, object = CASE WHEN action LIKE 'key.%' THEN object \
            ELSE (SELECT name FROM accounts WHERE id = account) END WHERE seq = ?",
    ),
];

#[async_trait]
impl AccountLifecycle for SqliteStore {
    async fn rename_account(
        &self,
        account: &Account,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let account = account.clone();
        self.write_audited(audit, move |tx| rename(tx, &account)).await
    }

    async fn close_account(
        &self,
        account: &Account,
        at: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Vec<Key>, StoreError> {
        let account = account.clone();
        self.write_audited(audit, move |tx| {
            set_status(tx, &account)?;
            end_access(tx, account.id, at)
        })
        .await
    }

    async fn delete_account(
        &self,
        account: &Account,
        password_hash: &str,
        at: Timestamp,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let (account, hash) = (account.clone(), password_hash.to_owned());
        self.write_audited(audit, move |tx| {
            // The names that the account has had are the objects of its audit entries. Another account
            // may have one of them now, and its calls stay.
            let sql = "DELETE FROM admin_calls \
                WHERE actor IN (SELECT id FROM accounts WHERE id = ?1 OR belongs_to = ?1) OR object IN \
                (SELECT object FROM audit WHERE account = ?1 AND action NOT LIKE 'key.%') \
                AND object NOT IN (SELECT name FROM accounts WHERE id <> ?1 AND belongs_to IS NOT ?1)";
            tx.execute(sql, parameters![account.id])?;
            rename(tx, &account)?;
            set_status(tx, &account)?;
            let sql = "UPDATE accounts SET password_hash = ? WHERE id = ?";
            tx.execute(sql, parameters![hash, account.id])?;
            end_access(tx, account.id, at)?;
            people::forget(tx, account.id, &hash)?;
            tx.execute("UPDATE keys SET label = '' WHERE account = ?", parameters![account.id])?;
            let sql =
                "DELETE FROM invites WHERE used_by = ?1 OR (created_by = ?1 AND used_at IS NULL)";
            tx.execute(sql, parameters![account.id])?;
            let sql =
                "INSERT INTO account_deletions (account, at) VALUES (?, ?) ON CONFLICT DO NOTHING";
            tx.execute(sql, parameters![account.id, At(at)])?;
            Ok(())
        })
        .await
    }

    async fn purge_deleted(
        &self,
        settled_before: Timestamp,
        limit: u32,
    ) -> Result<u64, StoreError> {
        let deletions = self.read(deletions).await?;
        for (account, at) in deletions {
            for (select, change) in PURGED {
                let find = move |tx: &rusqlite::Transaction<'_>| found(tx, select, account, limit);
                let rows = self.read(find).await?;
                if !rows.is_empty() {
                    return self.write(move |tx| change_rows(tx, change, &rows)).await;
                }
            }
            if at < settled_before {
                let sql = "DELETE FROM account_deletions WHERE account = ?";
                self.write(move |tx| Ok(tx.execute(sql, parameters![account])?)).await?;
            }
        }
        Ok(0)
    }

    async fn scrub(&self) -> Result<(), StoreError> {
        let checkpoint = |source: &mut Connection, _: &_| {
            Ok(source.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
        };
        self.background_reads.run(checkpoint).await
    }
}

fn rename(tx: &Connection, account: &Account) -> Result<(), StoreError> {
    let sql = "UPDATE accounts SET name = ?, folded_name = ? WHERE id = ?";
    let renamed =
        tx.execute(sql, parameters![account.name, account.name.to_lowercase(), account.id]);
    let renamed = renamed.or_conflict(|| name_is_taken(&account.name))?;
    if renamed == 0 { Err(StoreError::NotFound) } else { Ok(()) }
}

fn set_status(tx: &Connection, account: &Account) -> Result<(), StoreError> {
    let (status, ended) = status_columns(account.status);
    let sql = "UPDATE accounts SET status = ?, ended = ? WHERE id = ?";
    match tx.execute(sql, parameters![status, ended, account.id])? {
        0 => Err(StoreError::NotFound),
        _ => Ok(()),
    }
}

/// Ends all sessions of an account and its people, deletes their password resets and revokes the keys of the account.
/// Returns the keys.
fn end_access(tx: &Connection, account: AccountId, at: Timestamp) -> Result<Vec<Key>, StoreError> {
    tx.execute("DELETE FROM sessions WHERE account = ?", parameters![account])?;
    password_resets::remove(tx, account)?;
    people::end_access(tx, account)?;
    let revoked = keys::unrevoked_of(tx, account)?;
    let sql = "UPDATE keys SET revoked_at = ? WHERE account = ? AND revoked_at IS NULL";
    tx.execute(sql, parameters![At(at), account])?;
    Ok(revoked.into_iter().map(|key| Key { revoked_at: Some(at), ..key }).collect())
}

fn deletions(tx: &rusqlite::Transaction<'_>) -> Result<Vec<(AccountId, Timestamp)>, StoreError> {
    let mut select = tx.prepare_cached("SELECT account, at FROM account_deletions")?;
    let rows = select.query_map([], |row| Ok((row.column(0)?, row.column::<At>(1)?.0)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn found(
    tx: &Connection,
    select: &str,
    account: AccountId,
    limit: u32,
) -> Result<Vec<i64>, StoreError> {
    let mut select = tx.prepare_cached(select)?;
    let rows = select.query_map(parameters![account, limit], |row| row.column(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn change_rows(tx: &Connection, change: &str, rows: &[i64]) -> Result<u64, StoreError> {
    let mut change = tx.prepare_cached(change)?;
    for row in rows {
        change.execute(parameters![row])?;
    }
    Ok(rows.len() as u64)
}
