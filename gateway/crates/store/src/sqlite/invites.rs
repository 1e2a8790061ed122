//! Invites.

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use super::SqliteStore;
use super::codec::{ReadColumn, parameters};
use super::error::Constrained;
use crate::codec::{At, Count};
use crate::objects::{self, INVITES};
use crate::{Invites, StoreError};
use domain::account::{Account, Invite};
use domain::audit::AuditEntry;
use domain::id::InviteId;

#[async_trait]
impl Invites for SqliteStore {
    async fn add_invite(
        &self,
        invite: &Invite,
        max_open: u32,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let invite = invite.clone();
        self.write_audited(audit, move |tx| insert(tx, &invite, max_open)).await
    }

    async fn find_invite(&self, digest: [u8; 32]) -> Result<Option<Invite>, StoreError> {
        self.read(move |tx| find(tx, digest)).await
    }

    async fn invites(&self, limit: usize) -> Result<Vec<Invite>, StoreError> {
        self.read(move |tx| newest(tx, limit)).await
    }

    async fn revoke_invite(&self, id: &InviteId, audit: &AuditEntry) -> Result<(), StoreError> {
        let id = id.clone();
        self.write_audited(audit, move |tx| revoke(tx, &id)).await
    }
}

/// Adds an invite, unless `max_open` others can still be used.
pub(super) fn insert(tx: &Connection, invite: &Invite, max_open: u32) -> Result<(), StoreError> {
    tx.prepare_cached("DELETE FROM invites WHERE used_at IS NULL AND expires_at <= ?")?
        .execute(parameters![At(invite.created_at)])?;
    let sql = "SELECT count(*) FROM invites WHERE used_at IS NULL";
    let Count(open) = tx.prepare_cached(sql)?.query_row([], |row| row.column(0))?;
    if open >= u64::from(max_open) {
        return Err(StoreError::Conflict(format!("{open} invites can still be used")));
    }
    let sql = "INSERT INTO invites (id, digest, created_by, created_at, expires_at, plan, credit) \
        VALUES (?, ?, ?, ?, ?, ?, ?)";
    tx.prepare_cached(sql)?
        .execute(parameters![
            invite.id,
            invite.digest,
            invite.created_by,
            At(invite.created_at),
            At(invite.expires_at),
            invite.plan,
            invite.credit
        ])
        .or_conflict(|| "this invite exists".to_owned())?;
    Ok(())
}

/// Returns an invite by the digest of its code.
pub(super) fn find(tx: &Connection, digest: [u8; 32]) -> Result<Option<Invite>, StoreError> {
    let mut select = tx.prepare_cached(&format!("{INVITES} WHERE digest = ?"))?;
    Ok(select.query_row(parameters![digest], |row| objects::invite(row)).optional()?)
}

/// Returns the newest invites.
pub(super) fn newest(tx: &Connection, limit: usize) -> Result<Vec<Invite>, StoreError> {
    let sql = format!("{INVITES} ORDER BY created_at DESC, id LIMIT ?");
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    Ok(tx
        .prepare_cached(&sql)?
        .query_map(parameters![limit], |row| objects::invite(row))?
        .collect::<Result<_, _>>()?)
}

/// Marks an invite as used by a new account.
pub(super) fn consume(
    tx: &Connection,
    digest: [u8; 32],
    account: &Account,
) -> Result<(), StoreError> {
    let sql = "UPDATE invites SET used_at = ?2, expires_at = ?2, used_by = ?3 \
        WHERE digest = ?1 AND expires_at > ?2 AND used_at IS NULL";
    let at: Timestamp = account.created_at;
    match tx.prepare_cached(sql)?.execute(parameters![digest, At(at), account.id])? {
        0 => Err(StoreError::NotFound),
        _ => Ok(()),
    }
}

/// Deletes an unused invite.
pub(super) fn revoke(tx: &Connection, id: &InviteId) -> Result<(), StoreError> {
    let sql = "DELETE FROM invites WHERE id = ? AND used_at IS NULL";
    match tx.prepare_cached(sql)?.execute(parameters![id])? {
        0 => Err(StoreError::NotFound),
        _ => Ok(()),
    }
}
