//! The renaming, the closing and the deletion of accounts.

use async_trait::async_trait;
use jiff::Timestamp;

use super::changes::{ChangeTransaction, ChangedObject};
use super::codec::{ReadColumn, parameters};
use super::error::{Constrained, expect_changed};
use super::transaction::Transaction;
use super::{PostgresStore, keys, password_resets, people};
use crate::codec::At;
use crate::objects::{name_is_taken, status_columns};
use crate::{AccountLifecycle, StoreError};
use domain::account::Account;
use domain::audit::AuditEntry;
use domain::id::AccountId;
use domain::key::Key;

/// The statements that change up to `$2` rows of an account (`$1`).
const PURGES: [&str; 5] = [
    "DELETE FROM responses WHERE (account, id) IN (SELECT account, id FROM responses \
        WHERE account = $1 LIMIT $2)",
    "DELETE FROM idempotency_claims WHERE (account, digest) IN (SELECT account, digest \
        FROM idempotency_claims WHERE account = $1 AND answered_at IS NOT NULL LIMIT $2)",
    "UPDATE requests SET notes = NULL, idempotency = NULL WHERE (account, day, id) IN \
        (SELECT account, day, id FROM requests WHERE account = $1 \
        AND (notes IS NOT NULL OR idempotency IS NOT NULL) LIMIT $2)",
    "UPDATE ledger_entries SET note = '' WHERE (account, seq) IN (SELECT account, seq \
        FROM ledger_entries WHERE account = $1 AND note <> '' LIMIT $2)",
    "UPDATE audit SET details = '', address = CASE WHEN actor NOT IN \
        (SELECT id FROM accounts WHERE id = $1 OR belongs_to = $1) THEN address END, object = CASE WHEN action LIKE 'key.%' THEN object \
        ELSE (SELECT name FROM accounts WHERE id = $1) END WHERE seq IN (SELECT seq FROM audit \
        WHERE account = $1 AND (details <> '' OR (address IS NOT NULL \
        AND (actor IS NULL OR actor IN (SELECT id FROM accounts WHERE id = $1 OR belongs_to = $1))) \
        OR (action NOT LIKE 'key.%' \
        AND object <> (SELECT name FROM accounts WHERE id = $1))) LIMIT $2)",
];

#[async_trait]
impl AccountLifecycle for PostgresStore {
    async fn rename_account(
        &self,
        account: &Account,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let mut tx = self.begin_change(&mut connection).await?;
        rename(&tx, account).await?;
        tx.changes(ChangedObject::Account(account.id));
        tx.commit_audited(audit).await
    }

    async fn close_account(
        &self,
        account: &Account,
        at: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Vec<Key>, StoreError> {
        let mut connection = self.connection().await?;
        let mut tx = self.begin_change(&mut connection).await?;
        set_status(&tx, account).await?;
        let revoked = end_access(&mut tx, account.id, at).await?;
        tx.changes(ChangedObject::Account(account.id));
        tx.commit_audited(audit).await?;
        Ok(revoked)
    }

    async fn delete_account(
        &self,
        account: &Account,
        password_hash: &str,
        at: Timestamp,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let mut tx = self.begin_change(&mut connection).await?;
        // The names that the account has had are the objects of its audit entries. Another account
        // may have one of them now, and its calls stay.
        let sql = "DELETE FROM admin_calls \
            WHERE actor IN (SELECT id FROM accounts WHERE id = $1 OR belongs_to = $1) OR object IN \
            (SELECT object FROM audit WHERE account = $1 AND action NOT LIKE 'key.%') \
            AND object NOT IN (SELECT name FROM accounts \
                WHERE id <> $1 AND belongs_to IS DISTINCT FROM $1)";
        tx.execute(sql, parameters![account.id]).await?;
        rename(&tx, account).await?;
        set_status(&tx, account).await?;
        let sql = "UPDATE accounts SET password_hash = $1 WHERE id = $2";
        tx.execute(sql, parameters![password_hash, account.id]).await?;
        end_access(&mut tx, account.id, at).await?;
        people::forget(&mut tx, account.id, password_hash).await?;
        let sql = "UPDATE keys SET label = '' WHERE account = $1";
        tx.execute(sql, parameters![account.id]).await?;
        let sql = "DELETE FROM invites WHERE used_by = $1 OR (created_by = $1 AND used_at IS NULL)";
        tx.execute(sql, parameters![account.id]).await?;
        let sql =
            "INSERT INTO account_deletions (account, at) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        tx.execute(sql, parameters![account.id, At(at)]).await?;
        tx.changes(ChangedObject::Account(account.id));
        tx.commit_audited(audit).await
    }

    async fn purge_deleted(
        &self,
        settled_before: Timestamp,
        limit: u32,
    ) -> Result<u64, StoreError> {
        let mut connection = self.connection().await?;
        let view = connection.view().await?;
        let marks = view.query("SELECT account, at FROM account_deletions", &[]).await?;
        drop(view);
        if marks.is_empty() {
            return Ok(0);
        }
        let tx = connection.begin(self.epoch).await?;
        if !tx.try_claim_retention().await? {
            return Ok(0);
        }
        let mut changed = 0;
        for mark in marks {
            let (account, At(at)): (AccountId, At) = (mark.column(0)?, mark.column(1)?);
            let mut purged = 0;
            for sql in PURGES {
                purged += tx.execute(sql, parameters![account, i64::from(limit)]).await?;
            }
            if purged == 0 && at < settled_before {
                let sql = "DELETE FROM account_deletions WHERE account = $1";
                tx.execute(sql, parameters![account]).await?;
            }
            changed += purged;
            if changed >= u64::from(limit) {
                break;
            }
        }
        tx.commit().await?;
        Ok(changed)
    }

    async fn scrub(&self) -> Result<(), StoreError> {
        // The server's vacuum reuses the space of old row versions.
        Ok(())
    }
}

async fn rename(tx: &Transaction<'_>, account: &Account) -> Result<(), StoreError> {
    let sql = "UPDATE accounts SET name = $1, folded_name = $2 WHERE id = $3";
    let values = parameters![account.name, account.name.to_lowercase(), account.id];
    let renamed = tx.execute(sql, values).await;
    expect_changed(renamed.or_conflict(|| name_is_taken(&account.name))?)
}

async fn set_status(tx: &Transaction<'_>, account: &Account) -> Result<(), StoreError> {
    let (status, ended) = status_columns(account.status);
    let sql = "UPDATE accounts SET status = $1, ended = $2 WHERE id = $3";
    expect_changed(tx.execute(sql, parameters![status, ended, account.id]).await?)
}

/// Ends all sessions of an account and its people, deletes their password resets and revokes the keys of the account.
/// Returns the keys.
async fn end_access(
    tx: &mut ChangeTransaction<'_>,
    account: AccountId,
    at: Timestamp,
) -> Result<Vec<Key>, StoreError> {
    tx.execute("DELETE FROM sessions WHERE account = $1", parameters![account]).await?;
    password_resets::remove(tx, account).await?;
    people::end_access(tx, account).await?;
    let revoked = keys::unrevoked_of(tx, account).await?;
    let sql = "UPDATE keys SET revoked_at = $1 WHERE account = $2 AND revoked_at IS NULL";
    tx.execute(sql, parameters![At(at), account]).await?;
    for key in &revoked {
        tx.changes(ChangedObject::Key(key.id.clone()));
    }
    Ok(revoked.into_iter().map(|key| Key { revoked_at: Some(at), ..key }).collect())
}
