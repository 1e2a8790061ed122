//! Maintenance of the stored data: copies, checks, and deletion of old records.

use std::fs::File;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{Cursor, StoreError};
use domain::record::RequestRecord;

/// The name of the row of `meta` with the time that retention trusts.
pub(crate) const TRUSTED_TIME: &str = "trusted_time";

/// The name of the row of `meta` with an [`UnconfirmedTime`].
pub(crate) const UNCONFIRMED_TIME: &str = "unconfirmed_time";

/// A wall clock that retention does not trust yet, over one or several runs of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnconfirmedTime {
    /// The wall clock when it was first observed. It was never behind since.
    pub first: Timestamp,
    /// The wall clock when it was last observed.
    pub last: Timestamp,
    /// How long the gateway has run with it.
    pub uptime: Duration,
}

/// What retention has stored about the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionTime {
    /// The last time that it trusted.
    pub trusted: Timestamp,
    /// The wall clock, while it is not trusted.
    pub unconfirmed: Option<UnconfirmedTime>,
}

/// Maintains the stored data.
#[async_trait]
pub trait StoreMaintenance: Send + Sync {
    /// Returns why the store can never be copied, if that is so: then [`copy`](Self::copy) fails with the same error.
    fn check_copyable(&self) -> Result<(), StoreError>;
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
    /// Returns what retention stored last; `None` before the first.
    async fn retention_time(&self) -> Result<Option<RetentionTime>, StoreError>;
    /// Stores the time that retention trusts.
    async fn set_retention_time(&self, time: RetentionTime) -> Result<(), StoreError>;
    /// Deletes up to `limit` keys that were revoked before `revoked_before` and have no requests. Their entries in the
    /// audit log stay. Returns the number of deleted keys; zero while another gateway deletes old rows.
    async fn delete_unused_keys(
        &self,
        revoked_before: Timestamp,
        limit: usize,
    ) -> Result<u64, StoreError>;
    /// Prepares the log for the records of today and the next days, so that [`drop_old_days`](Self::drop_old_days) can
    /// remove them. `keep_for` is the age at which records are deleted, if there is one. Does nothing if the store does
    /// not divide the log, and while another gateway prepares it or deletes old rows.
    async fn prepare_days(&self, keep_for: Option<Duration>) -> Result<(), StoreError>;
    /// Deletes the request records of some days as a whole, if `cutoff` selects all of them. Keeps sums and charges.
    /// Returns the number of deleted records; zero if there are no such days, if the store does not divide the log, and
    /// while another gateway deletes old rows.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the deletion.
    async fn drop_old_days(&self, cutoff: RetentionCutoff) -> Result<u64, StoreError>;
    /// Deletes up to `limit` of the oldest request records that `cutoff` selects. Keeps sums and
    /// charges, and the newest record, because cursors continue from it. Leaves records that are too old to
    /// [`drop_old_days`](Self::drop_old_days) if it will remove their days. Returns the number of
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

/// How far ahead of the clock the time of a record can be without being wrong.
const MAX_AHEAD: Duration = Duration::from_hours(1);

impl RetentionCutoff {
    /// Returns the time after which the clock of a record was wrong. Such a record is deleted with those behind it in the
    /// log, which were written after it; by its own time, it would keep all of them.
    pub(crate) fn ahead(&self) -> Timestamp {
        self.ended_before.saturating_add(MAX_AHEAD).unwrap_or(Timestamp::MAX)
    }

    /// Returns the cursor of the last record that is beyond the kept number, if `newest` is the last one; zero for none.
    pub(crate) fn surplus(&self, newest: Cursor) -> i64 {
        let beyond = self.beyond.map(|limit| i64::try_from(limit).unwrap_or(i64::MAX));
        beyond.map_or(0, |limit| newest.0.saturating_sub(limit))
    }

    /// Returns whether the record at `cursor` may be deleted, if `newest` is the last one.
    pub(crate) fn selects(&self, cursor: Cursor, record: &RequestRecord, newest: Cursor) -> bool {
        let ended = record.started_at.saturating_add(record.duration).ok();
        ended.is_some_and(|ended| ended < self.ended_before)
            && (cursor.0 <= self.surplus(newest)
                || self.before.is_some_and(|time| record.started_at < time))
    }
}

impl UnconfirmedTime {
    /// Returns the value of the row of `meta`.
    pub(crate) fn encode(&self) -> String {
        format!("{} {} {}", self.first, self.last, self.uptime.as_secs())
    }

    /// Reads the value of the row of `meta`; `None` if it is malformed.
    pub(crate) fn decode(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let mut next = || parts.next();
        Some(Self {
            first: next()?.parse().ok()?,
            last: next()?.parse().ok()?,
            uptime: Duration::from_secs(next()?.parse().ok()?),
        })
    }
}
