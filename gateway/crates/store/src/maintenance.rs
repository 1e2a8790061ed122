//! Maintenance of the stored data: copies, checks, and deletion of old records.

use std::fs::File;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{Cursor, StoreError};
use domain::record::RequestRecord;

/// The name of the row of `meta` with the time that retention trusts.
pub(crate) const TRUSTED_TIME: &str = "trusted_time";

/// Maintains the stored data.
#[async_trait]
pub trait StoreMaintenance: Send + Sync {
    /// Copies everything that was written before the call, concurrently with all other work, and
    /// checks the copy. At most one copy or [verification](super::LedgerEntries::verify_ledger)
    /// runs at a time.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the copy.
    async fn copy(&self) -> Result<StoreCopy, StoreError>;
    /// Checks the stored data for corruption, concurrently with all other work, and that a small
    /// write succeeds. Returns up to ten findings. Never runs concurrently with a copy or a
    /// verification.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the check.
    async fn check_integrity(&self, at: Timestamp) -> Result<Vec<String>, StoreError>;
    /// Returns the size of the database in bytes; with SQLite, that of its files.
    async fn database_bytes(&self) -> Result<u64, StoreError>;
    /// Returns the time that retention trusted last; `None` before the first.
    async fn trusted_time(&self) -> Result<Option<Timestamp>, StoreError>;
    /// Stores the time that retention trusts.
    async fn set_trusted_time(&self, at: Timestamp) -> Result<(), StoreError>;
    /// Deletes up to `limit` of the oldest request records that `cutoff` selects. Keeps sums and
    /// charges, and the newest record, because cursors continue from it. Returns the number of
    /// deleted records; zero while another gateway deletes old rows.
    async fn delete_old_requests(
        &self,
        cutoff: RetentionCutoff,
        limit: usize,
    ) -> Result<u64, StoreError>;
}

/// A copy of a store in an unlinked file, which the system deletes when the file is closed.
#[derive(Debug)]
pub struct StoreCopy {
    /// The file, positioned at its start.
    pub file: File,
    /// The length, in bytes.
    pub bytes: u64,
}

/// Selects the records to delete. Records are deleted in log order, so the first record that must
/// stay keeps all later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionCutoff {
    /// Records that arrived before this time.
    pub before: Option<Timestamp>,
    /// Records beyond this many newest ones.
    pub beyond: Option<u64>,
    /// Only records that ended before this time: newer ones may be committed again and must be
    /// found then.
    pub ended_before: Timestamp,
}

impl RetentionCutoff {
    /// Returns whether the record at `cursor` may be deleted, if `newest` is the last one.
    pub(crate) fn selects(&self, cursor: Cursor, record: &RequestRecord, newest: Cursor) -> bool {
        let beyond = self.beyond.map(|limit| i64::try_from(limit).unwrap_or(i64::MAX));
        let surplus = beyond.map_or(0, |limit| newest.0.saturating_sub(limit));
        let ended = record.started_at.saturating_add(record.duration).ok();
        ended.is_some_and(|ended| ended < self.ended_before)
            && (cursor.0 <= surplus || self.before.is_some_and(|time| record.started_at < time))
    }
}
