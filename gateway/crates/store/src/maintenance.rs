//! Maintenance of the stored data: copies, checks, and deletion of old records.

use std::fs::File;

use async_trait::async_trait;
use jiff::Timestamp;

use super::StoreError;

/// Maintains the stored data.
#[async_trait]
pub trait StoreMaintenance: Send + Sync {
    /// Copies everything that was written before the call, beside all other work, and checks the copy. Runs
    /// one at a time and never beside a [verification](super::LedgerEntries::verify_ledger). Dropping the future cancels it.
    async fn copy(&self) -> Result<StoreCopy, StoreError>;
    /// Searches for damage, beside all other work, and writes a little to test that writing works. Returns up
    /// to ten findings. Runs one at a time and never beside a copy or a verification. Dropping the future
    /// cancels it.
    async fn check_integrity(&self, at: Timestamp) -> Result<Vec<String>, StoreError>;
    /// Deletes up to `limit` of the oldest request records that `wish` selects. Sums and charges stay. The
    /// newest record stays as well, because cursors continue from it. Returns the number of deleted records.
    async fn delete_old_requests(
        &self,
        wish: RetentionCutoff,
        limit: usize,
    ) -> Result<u64, StoreError>;
}

/// A copy of a store in an unlinked file, which is gone when the file is closed.
#[derive(Debug)]
pub struct StoreCopy {
    /// The file, positioned at its start.
    pub file: File,
    /// The length, in bytes.
    pub bytes: u64,
}

/// Selects the records to delete. They are deleted in the order of the log, so a record that must stay keeps
/// all later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionCutoff {
    /// Records that arrived before this time.
    pub before: Option<Timestamp>,
    /// Records beyond this many newest ones.
    pub beyond: Option<u64>,
    /// Only records that ended before this time: newer ones may be committed again and must be found then.
    pub ended_before: Timestamp,
}
