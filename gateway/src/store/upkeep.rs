//! What is done for the stored data as a whole: a copy of it, and forgetting what is old.

use std::fs::File;

use async_trait::async_trait;
use jiff::Timestamp;

use super::StoreError;

/// Looks after the stored data.
#[async_trait]
pub trait Upkeep: Send + Sync {
    /// Copies everything that was written when this is called, beside all other work, and checks the
    /// copy. One at a time, and none beside a [proof](super::Books::prove); a caller that goes away
    /// ends it.
    async fn copy(&self) -> Result<StoreCopy, StoreError>;
    /// Looks for damage, beside all other work, and writes a little to see that it can. Returns what is
    /// damaged, at most ten things. One at a time, and none beside a copy or a proof; a caller that goes
    /// away ends it.
    async fn examine(&self, at: Timestamp) -> Result<Vec<String>, StoreError>;
    /// Forgets up to `limit` of the oldest request records: those that `wish` names. What was summed
    /// and charged stays. The newest record stays, too, because the log's cursors go on from it.
    /// Returns how many it forgot.
    async fn forget_requests(&self, wish: RetentionCutoff, limit: usize)
    -> Result<u64, StoreError>;
}

/// A copy of a store, which has no name any more: it is gone when the file is closed.
#[derive(Debug)]
pub struct StoreCopy {
    /// To be read from its start.
    pub file: File,
    /// How long it is.
    pub bytes: u64,
}

/// Which request records are to be forgotten. They go in the order of the log, so one that is to stay
/// keeps all later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionCutoff {
    /// Those that came in before this time.
    pub before: Option<Timestamp>,
    /// Those beyond so many newest ones.
    pub beyond: Option<u64>,
    /// None that ended after this time: what may be sent again must be found again.
    pub ended_before: Timestamp,
}
