//! Forgets request records that are past their time or beyond the most that are kept, and the idempotency
//! keys of the admin plane after a day.
//!
//! In small steps with pauses between them, so that no commit waits long behind one. Sums and ledger
//! entries stay, and freed pages of the database are used again by new records: nothing is vacuumed.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::store::{RetentionCutoff, Store, StoreError};

/// Records of one step: some milliseconds of the writer's time.
const STEP: usize = 1_000;
const PAUSE: Duration = Duration::from_millis(20);
/// How often old records are looked for.
const SWEEP: Duration = Duration::from_mins(1);
/// Records that ended so short a time ago stay in any case: a request that is recorded again, after a
/// crash, must be found.
const SPARED: SignedDuration = SignedDuration::from_mins(10);

/// For how long a call of the admin plane is known by its idempotency key.
const CALLS_KEPT: SignedDuration = SignedDuration::from_hours(24);

/// What an operator decides about keeping request records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeepRecords {
    /// For how long; `None` for good.
    pub keep_for: Option<Duration>,
    /// How many of the newest; `None` for all.
    pub most: Option<u64>,
}

/// The background work: run it until it returns.
pub struct RetentionTask {
    /// What is kept.
    pub keep: KeepRecords,
    /// Where from.
    pub store: Arc<dyn Store>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

impl KeepRecords {
    /// Whether all records are kept for good.
    pub fn all(&self) -> bool {
        *self == Self::default()
    }

    fn wish(&self, now: Timestamp) -> Option<RetentionCutoff> {
        let before = |keep_for: Duration| {
            let keep_for = SignedDuration::try_from(keep_for).ok()?;
            now.checked_sub(keep_for).ok()
        };
        Some(RetentionCutoff {
            before: self.keep_for.and_then(before),
            beyond: self.most,
            ended_before: now.checked_sub(SPARED).ok()?,
        })
    }
}

impl RetentionTask {
    /// Sweeps every minute until `stop` is cancelled.
    pub async fn run(self, stop: CancellationToken) {
        let mut minutes = tokio::time::interval(SWEEP);
        let sweeps = async {
            loop {
                minutes.tick().await;
                if !self.keep.all() {
                    self.sweep().await;
                }
                self.sweep_calls().await;
            }
        };
        // a step under way is done all the same: the store does not undo it
        stop.run_until_cancelled(sweeps).await;
    }

    async fn sweep(&self) {
        let Some(wish) = self.keep.wish(self.clock.now()) else { return };
        let records =
            in_steps("old request records", || self.store.forget_requests(wish, STEP)).await;
        if records > 0 {
            tracing::info!(records, "forgot request records past their retention");
        }
    }

    async fn sweep_calls(&self) {
        let Ok(before) = self.clock.now().checked_sub(CALLS_KEPT) else { return };
        in_steps("old idempotency keys", || self.store.forget_calls(before, STEP)).await;
    }
}

/// Forgets step by step until nothing is left to forget, and returns how much was.
async fn in_steps<F>(what: &str, mut step: impl FnMut() -> F) -> u64
where
    F: Future<Output = Result<u64, StoreError>>,
{
    let mut all = 0;
    loop {
        match step().await {
            Ok(0) => break,
            Ok(forgotten) => all += forgotten,
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "cannot forget {what}; trying again soon");
                break;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    all
}
