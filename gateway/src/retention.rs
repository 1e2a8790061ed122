//! Deletes request records that are too old or too many, and the admin plane's idempotency keys after a day.
//!
//! It works in small steps with pauses, so that no commit waits long. Sums and ledger entries are kept, and
//! freed pages of the database are reused: nothing is vacuumed.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use store::{RetentionCutoff, Store, StoreError};

/// The number of records deleted per step, which takes some milliseconds of the writer's time.
const MAX_ROWS_PER_STEP: usize = 1_000;
const PAUSE: Duration = Duration::from_millis(20);
/// The interval between sweeps.
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);
/// Newer records are kept in any case: a request that is recorded again after a crash must be found.
const MIN_AGE: SignedDuration = SignedDuration::from_mins(10);

/// How long an idempotency key of the admin plane is remembered.
const IDEMPOTENCY_RETENTION: SignedDuration = SignedDuration::from_hours(24);

/// An operator's settings for request records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeepRecords {
    /// The maximum age; `None` for no limit.
    pub keep_for: Option<Duration>,
    /// The maximum number; `None` for no limit.
    pub most: Option<u64>,
}

/// The background work. Must be run until it returns.
pub struct RetentionTask {
    /// The settings.
    pub keep: KeepRecords,
    /// The store.
    pub store: Arc<dyn Store>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

impl KeepRecords {
    /// Returns whether all records are kept.
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
            ended_before: now.checked_sub(MIN_AGE).ok()?,
        })
    }
}

impl RetentionTask {
    /// Sweeps every minute until `stop` is cancelled.
    pub async fn run(self, stop: CancellationToken) {
        let mut minutes = tokio::time::interval(SWEEP_INTERVAL);
        let sweeps = async {
            loop {
                minutes.tick().await;
                if !self.keep.all() {
                    self.sweep().await;
                }
                self.sweep_calls().await;
            }
        };
        // A step in progress is completed: the store does not undo it.
        stop.run_until_cancelled(sweeps).await;
    }

    async fn sweep(&self) {
        let Some(wish) = self.keep.wish(self.clock.now()) else { return };
        let records =
            in_steps("old request records", || self.store.forget_requests(wish, MAX_ROWS_PER_STEP))
                .await;
        if records > 0 {
            tracing::info!(records, "forgot request records past their retention");
        }
    }

    async fn sweep_calls(&self) {
        let Ok(before) = self.clock.now().checked_sub(IDEMPOTENCY_RETENTION) else { return };
        in_steps("old idempotency keys", || self.store.forget_calls(before, MAX_ROWS_PER_STEP))
            .await;
    }
}

/// Deletes step by step until nothing is left to delete, and returns the total.
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
