//! The audit log as the store keeps it: added to with every change, never changed itself.

use async_trait::async_trait;
use jiff::Timestamp;

use super::{Cursor, StoreError};
use domain::audit::AuditEntry;
use domain::id::AccountId;
use domain::idempotency::{AdminCall, DoneCall};

/// The audit log. Changes of the other traits take their entry along, and the call that asked for them with
/// it; this reads.
#[async_trait]
pub trait AuditLog: Send + Sync {
    /// Adds an entry that goes with no change.
    async fn add_audit(&self, entry: &AuditEntry) -> Result<(), StoreError>;
    /// Returns the call that `actor` made by the same method under the same key, if it is remembered.
    async fn find_call(
        &self,
        actor: AccountId,
        call: &AdminCall,
    ) -> Result<Option<DoneCall>, StoreError>;
    /// Forgets calls that were made before `before`, up to `limit`. Returns how many; there may be more
    /// if it is `limit`.
    async fn forget_calls(&self, before: Timestamp, limit: usize) -> Result<u64, StoreError>;
    /// Returns up to `limit` entries before `before` (from the end if `None`), newest first.
    async fn audit_before(
        &self,
        filter: &AuditFilter,
        before: Option<Cursor>,
        limit: usize,
    ) -> Result<Vec<(Cursor, AuditEntry)>, StoreError>;
}

/// Which entries; every field narrows the choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// That concern this account, or were made by it.
    pub account: Option<AccountId>,
    /// That were made at or after this time.
    pub since: Option<Timestamp>,
    /// That were made before this time.
    pub until: Option<Timestamp>,
}
