//! The invites by which accounts register.

use async_trait::async_trait;

use super::StoreError;
use domain::account::Invite;
use domain::audit::AuditEntry;
use domain::id::InviteId;

/// Adds, finds and revokes invites; [`Identities::add_account`](super::Identities::add_account) uses them up.
#[async_trait]
pub trait Invites: Send + Sync {
    /// Adds an invite, and deletes those that expired unused before its `created_at`.
    /// [`StoreError::Conflict`] if `max_open` others can still be used.
    async fn add_invite(
        &self,
        invite: &Invite,
        max_open: u32,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;
    /// Returns an invite by the digest of its code, even if it was used or has expired.
    async fn find_invite(&self, digest: [u8; 32]) -> Result<Option<Invite>, StoreError>;
    /// Returns up to `limit` invites, newest first.
    async fn invites(&self, limit: usize) -> Result<Vec<Invite>, StoreError>;
    /// Deletes an unused invite. [`StoreError::NotFound`] if there is none.
    async fn revoke_invite(&self, id: &InviteId, audit: &AuditEntry) -> Result<(), StoreError>;
}
