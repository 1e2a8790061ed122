//! Invites.

use async_trait::async_trait;

use super::PostgresStore;
use super::audit::rows;
use super::codec::{ReadColumn, parameters};
use super::error::{Constrained, expect_changed};
use super::transaction::Transaction;
use crate::codec::{At, Count};
use crate::objects::{self, INVITES};
use crate::{Invites, StoreError};
use domain::account::{Account, Invite};
use domain::audit::AuditEntry;
use domain::id::InviteId;

#[async_trait]
impl Invites for PostgresStore {
    async fn add_invite(
        &self,
        invite: &Invite,
        max_open: u32,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.begin(self.epoch).await?;
        insert(&tx, invite, max_open).await?;
        tx.commit_audited(audit).await
    }

    async fn find_invite(&self, digest: [u8; 32]) -> Result<Option<Invite>, StoreError> {
        let mut connection = self.connection().await?;
        find(&connection.view().await?, digest).await
    }

    async fn invites(&self, limit: usize) -> Result<Vec<Invite>, StoreError> {
        let mut connection = self.connection().await?;
        newest(&connection.view().await?, limit).await
    }

    async fn revoke_invite(&self, id: &InviteId, audit: &AuditEntry) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.begin(self.epoch).await?;
        revoke(&tx, id).await?;
        tx.commit_audited(audit).await
    }
}

/// Adds an invite, unless `max_open` others can still be used.
pub(super) async fn insert(
    tx: &Transaction<'_>,
    invite: &Invite,
    max_open: u32,
) -> Result<(), StoreError> {
    // Two gateways must not both add the last one.
    tx.execute("LOCK TABLE invites IN SHARE ROW EXCLUSIVE MODE", &[]).await?;
    let sql = "DELETE FROM invites WHERE used_at IS NULL AND expires_at <= $1";
    tx.execute(sql, parameters![At(invite.created_at)]).await?;
    let sql = "SELECT count(*) FROM invites WHERE used_at IS NULL";
    let Count(open) = tx.query_one("invites", sql, &[]).await?.column(0)?;
    if open >= u64::from(max_open) {
        return Err(StoreError::Conflict(format!("{open} invites can still be used")));
    }
    let sql = "INSERT INTO invites (id, digest, created_by, created_at, expires_at, plan, credit) \
        VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let values = parameters![
        invite.id,
        invite.digest,
        invite.created_by,
        At(invite.created_at),
        At(invite.expires_at),
        invite.plan,
        invite.credit
    ];
    let inserted = tx.execute(sql, values).await;
    inserted.or_conflict(|| "this invite exists".to_owned())?;
    Ok(())
}

/// Returns an invite by the digest of its code.
pub(super) async fn find(
    tx: &Transaction<'_>,
    digest: [u8; 32],
) -> Result<Option<Invite>, StoreError> {
    let sql = format!("{INVITES} WHERE digest = $1");
    tx.query_opt(&sql, parameters![digest]).await?.as_ref().map(objects::invite).transpose()
}

/// Returns the newest invites.
pub(super) async fn newest(tx: &Transaction<'_>, limit: usize) -> Result<Vec<Invite>, StoreError> {
    let sql = format!("{INVITES} ORDER BY created_at DESC, id COLLATE \"C\" LIMIT $1");
    tx.query(&sql, parameters![rows(limit)]).await?.iter().map(objects::invite).collect()
}

/// Marks an invite as used by a new account. Gateways of earlier versions see that it has expired.
pub(super) async fn consume(
    tx: &Transaction<'_>,
    digest: [u8; 32],
    account: &Account,
) -> Result<(), StoreError> {
    let sql = "UPDATE invites SET used_at = $2, expires_at = $2, used_by = $3 \
        WHERE digest = $1 AND expires_at > $2 AND used_at IS NULL";
    let values = parameters![digest, At(account.created_at), account.id];
    expect_changed(tx.execute(sql, values).await?)
}

/// Deletes an unused invite.
pub(super) async fn revoke(tx: &Transaction<'_>, id: &InviteId) -> Result<(), StoreError> {
    let sql = "DELETE FROM invites WHERE id = $1 AND used_at IS NULL";
    expect_changed(tx.execute(sql, parameters![id]).await?)
}
