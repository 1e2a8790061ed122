//! Deletes request records that are too old or too many, revoked keys that were never used, expired responses, expired claims of idempotency keys,
//! old changes of the directory, and the admin plane's idempotency keys after a day.
//!
//! If several gateways share the database, the store lets one of them delete at a time; a sweep of another one
//! finds nothing to do. Deletion proceeds in small steps with pauses, so that commits do not wait long. Aggregates and ledger entries
//! are kept. The database is not vacuumed, because SQLite reuses freed pages.

mod trusted_time;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

use self::trusted_time::{Event, TrustedTime};
use crate::clock::Clock;
use store::{IdempotencyClaims, RequestFilter, RetentionCutoff, RetentionTime, Store, StoreError};

/// The number of records deleted per step, which takes some milliseconds of the writer's time.
const MAX_ROWS_PER_STEP: usize = 1_000;
/// The pause between two steps.
const STEP_PAUSE: Duration = Duration::from_millis(20);
/// The number of responses deleted per step.
const MAX_RESPONSES_PER_STEP: u32 = 256;
/// The interval between sweeps.
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);
/// The number of sweeps per sweep of responses and keys.
const RARE_SWEEPS: u64 = 60;
/// Records that ended more recently are never deleted: a record that is written again after a crash must be found
/// to exist.
const MIN_RECORD_AGE: SignedDuration = SignedDuration::from_mins(10);

/// The number of changes of the directory that are kept for gateways that have not applied them; a gateway that
/// lacks more loads everything again.
const KEPT_CHANGES: u32 = 10_000;

/// How long an idempotency key of the admin plane is remembered.
const IDEMPOTENCY_RETENTION: SignedDuration = SignedDuration::from_hours(24);

/// The retention of request records, as configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordRetention {
    /// The maximum age; `None` for no limit.
    pub keep_for: Option<Duration>,
    /// The maximum number; `None` for no limit.
    pub max_rows: Option<u64>,
}

/// An operator's settings for stored responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseRetention {
    /// How long a chain of responses is kept after it was last continued.
    pub keep_for: Duration,
    /// How much each account may store, in bytes; the oldest responses are deleted first.
    pub account_bytes: u64,
}

/// What is kept, as configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionSettings {
    /// The settings for records.
    pub records: RecordRetention,
    /// The settings for responses; `None` if responses are not stored.
    pub responses: Option<ResponseRetention>,
    /// How long revoked keys are kept that were never used; `None` for no limit.
    pub unused_keys: Option<Duration>,
}

/// The background work. Must be run until it returns.
pub struct RetentionTask {
    /// The settings, which may change at any time.
    pub settings: Arc<ArcSwap<RetentionSettings>>,
    /// The claims of idempotency keys and how long they are in force; `None` if there are no other gateways.
    pub claims: Option<(Arc<dyn IdempotencyClaims>, Duration)>,
    /// The store.
    pub store: Arc<dyn Store>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

/// Returns the time before which the last request of an account that is deleted `now` has certainly ended.
pub fn settled_before(now: Timestamp) -> Timestamp {
    now.saturating_sub(Duration::from_hours(24)).unwrap_or(Timestamp::MIN)
}

impl RecordRetention {
    /// Returns whether all records are kept.
    pub fn keeps_all(&self) -> bool {
        *self == Self::default()
    }

    fn cutoff(&self, now: Timestamp) -> Option<RetentionCutoff> {
        let before = |keep_for: Duration| {
            let keep_for = SignedDuration::try_from(keep_for).ok()?;
            now.checked_sub(keep_for).ok()
        };
        Some(RetentionCutoff {
            before: self.keep_for.and_then(before),
            beyond: self.max_rows,
            ended_before: now.checked_sub(MIN_RECORD_AGE).ok()?,
        })
    }
}

impl RetentionTask {
    /// Sweeps every minute until `stop` is cancelled.
    pub async fn run(self, stop: CancellationToken) {
        let mut minutes = tokio::time::interval(SWEEP_INTERVAL);
        let sweeps = async {
            let mut time = self.start_time().await;
            for sweep in 0_u64.. {
                minutes.tick().await;
                let (now, event) = time.observe(self.clock.now(), self.clock.monotonic());
                let is_confirmed = matches!(event, Some(Event::Confirmed | Event::Advanced(_)));
                report(event);
                self.store_time(RetentionTime { trusted: now, unconfirmed: time.unconfirmed() })
                    .await;
                let RetentionSettings { records, responses, unused_keys } = **self.settings.load();
                prepare_days(&*self.store, records).await;
                if !records.keeps_all() {
                    self.sweep_records(records, now).await;
                }
                self.sweep_calls(now).await;
                self.sweep_deleted_accounts(now).await;
                in_steps("old changes of the directory", || {
                    self.store.delete_old_changes(KEPT_CHANGES, MAX_ROWS_PER_STEP)
                })
                .await;
                if let Some((claims, window)) = &self.claims {
                    in_steps("old claims of idempotency keys", || {
                        claims.delete_old_claims(*window, MAX_ROWS_PER_STEP)
                    })
                    .await;
                }
                // Their ages are counted in days.
                if sweep.is_multiple_of(RARE_SWEEPS) || is_confirmed {
                    if let Some(keep) = responses {
                        self.sweep_responses(keep, now).await;
                    }
                    if let Some(keep_for) = unused_keys {
                        self.sweep_keys(keep_for, now).await;
                    }
                }
            }
        };
        // A step in progress is completed: the store does not undo it.
        stop.run_until_cancelled(sweeps).await;
    }

    /// Compares the wall clock with the last trusted time: records may have been written by a clock that was not trusted
    /// yet. A database of an earlier version has no such time, but the newest record. Without either, or if they cannot be
    /// read, the clock is trusted.
    async fn start_time(&self) -> TrustedTime {
        let stored = self.store.retention_time().await.ok().flatten();
        let unconfirmed = stored.and_then(|stored| stored.unconfirmed);
        let known = match stored {
            Some(stored) => Some(stored.trusted),
            None => self.newest_record().await,
        };
        let (wall, monotonic) = (self.clock.now(), self.clock.monotonic());
        let (time, event) = TrustedTime::start(wall, monotonic, known, unconfirmed);
        if let Some(Event::Jumped(ahead)) = event {
            let seconds = ahead.as_secs();
            tracing::info!(
                event = "clock_unconfirmed",
                seconds,
                "the last trusted time is more than an hour away from the clock: retention continues from it until the \
                 gateway has run for an hour, in one run or in several"
            );
        }
        time
    }

    async fn newest_record(&self) -> Option<Timestamp> {
        let newest = self.store.requests_before(&RequestFilter::default(), None, 1).await.ok()?;
        Some(newest.first()?.1.started_at)
    }

    async fn store_time(&self, time: RetentionTime) {
        if let Err(error) = self.store.set_retention_time(time).await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "cannot store the time of retention");
        }
    }

    async fn sweep_records(&self, keep: RecordRetention, now: Timestamp) {
        let Some(cutoff) = keep.cutoff(now) else { return };
        in_steps("request records of old days", || self.store.drop_old_days(cutoff)).await;
        let step = || self.store.delete_old_requests(cutoff, MAX_ROWS_PER_STEP);
        in_steps("old request records", step).await;
    }

    async fn sweep_responses(&self, keep: ResponseRetention, now: Timestamp) {
        let keep_for = SignedDuration::try_from(keep.keep_for).unwrap_or(SignedDuration::MAX);
        let Ok(before) = now.checked_sub(keep_for) else { return };
        let step = || async move {
            let forgotten = self.store.delete_old_responses(before, MAX_RESPONSES_PER_STEP).await?;
            Ok(u64::from(forgotten))
        };
        in_steps("old responses", step).await;
    }

    /// Continues deletions that a crash interrupted, and removes what requests wrote that ended
    /// after the deletion of their account.
    async fn sweep_deleted_accounts(&self, now: Timestamp) {
        let settled_before = settled_before(now);
        let rows = in_steps("texts of deleted accounts", || {
            self.store.purge_deleted(settled_before, MAX_RESPONSES_PER_STEP)
        })
        .await;
        if rows > 0
            && let Err(error) = self.store.scrub().await
        {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "cannot clear the write-ahead log of what was deleted");
        }
    }

    async fn sweep_keys(&self, keep_for: Duration, now: Timestamp) {
        let keep_for = SignedDuration::try_from(keep_for).unwrap_or(SignedDuration::MAX);
        let Ok(before) = now.checked_sub(keep_for) else { return };
        let step = || self.store.delete_unused_keys(before, MAX_ROWS_PER_STEP);
        in_steps("revoked keys that were never used", step).await;
    }

    async fn sweep_calls(&self, now: Timestamp) {
        let Ok(before) = now.checked_sub(IDEMPOTENCY_RETENTION) else { return };
        in_steps("old idempotency keys", || self.store.delete_old_calls(before, MAX_ROWS_PER_STEP))
            .await;
    }
}

/// Prepares the store for the records of the next days. Should be called before the first record is written; without
/// it, records go to the default partition. Sweeps repeat it.
pub async fn prepare_days(store: &dyn Store, keep: RecordRetention) {
    if let Err(error) = store.prepare_days(keep.keep_for).await {
        let error: &dyn std::error::Error = &error;
        tracing::warn!(error, "cannot divide the request log by day; retrying with the next sweep");
    }
}

/// Logs what an observation of the clocks has found.
fn report(event: Option<Event>) {
    match event {
        Some(Event::Jumped(ahead)) => tracing::warn!(
            event = "clock_jumped",
            seconds = ahead.as_secs(),
            "the wall clock jumped; retention does not use the new time until it was in force for an hour"
        ),
        Some(Event::Confirmed) => tracing::info!(
            event = "clock_confirmed",
            "the time was in force for an hour; retention uses it"
        ),
        Some(Event::Advanced(to)) => tracing::info!(
            event = "clock_confirmed",
            %to,
            "the clock has been past this time for an hour, in several runs of the gateway; retention continues from it"
        ),
        None => {}
    }
}

/// Deletes step by step until nothing is left to delete. Logs the total and returns it.
async fn in_steps<F>(what: &str, mut step: impl FnMut() -> F) -> u64
where
    F: Future<Output = Result<u64, StoreError>>,
{
    let mut total = 0;
    loop {
        match step().await {
            Ok(0) => break,
            Ok(deleted) => total += deleted,
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "cannot delete {what}; retrying with the next sweep");
                break;
            }
        }
        tokio::time::sleep(STEP_PAUSE).await;
    }
    if total > 0 {
        tracing::info!(deleted = total, "deleted {what}");
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::id::{AccountId, RequestId};
    use domain::response::StoredResponse;
    use store::sqlite::SqliteStore;
    use store::{Requests as _, Responses as _};
    use uuid::Uuid;

    const ACCOUNT: AccountId = AccountId(Uuid::from_u128(0xa11ce));
    const NOW: i64 = 24 * 60 * 60;

    /// A clock that stopped at a second after 1970.
    struct StoppedClock(i64);

    impl Clock for StoppedClock {
        fn now(&self) -> Timestamp {
            Timestamp::from_second(self.0).unwrap()
        }

        fn monotonic(&self) -> Duration {
            Duration::ZERO
        }
    }

    fn response(number: u128, created_at: i64) -> StoredResponse {
        StoredResponse {
            id: RequestId(Uuid::from_u128(number)),
            account: ACCOUNT,
            previous: None,
            created_at: Timestamp::from_second(created_at).unwrap(),
            input: "[]".into(),
            object: "{}".into(),
            items: Vec::new(),
        }
    }

    #[tokio::test]
    async fn all_expired_responses_are_deleted_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(&dir.path().join("gateway.db")).unwrap());
        let expired = u128::from(2 * MAX_RESPONSES_PER_STEP + 1);
        let mut responses: Vec<_> = (1..=expired).map(|number| response(number, 60)).collect();
        responses.push(response(expired + 1, NOW - 60));
        store.keep_responses(responses, u64::MAX).await.unwrap();
        let keep = ResponseRetention { keep_for: Duration::from_hours(1), account_bytes: u64::MAX };
        let task = RetentionTask {
            settings: Arc::default(),
            claims: None,
            store: store.clone(),
            clock: Arc::new(StoppedClock(NOW)),
        };
        task.sweep_responses(keep, task.clock.now()).await;
        for (number, is_kept) in [(1, false), (expired, false), (expired + 1, true)] {
            let id = RequestId(Uuid::from_u128(number));
            let found = store.find_response(ACCOUNT, id).await.unwrap();
            assert_eq!(found.is_some(), is_kept, "{number}");
        }
    }

    #[tokio::test]
    async fn a_restart_does_not_confirm_a_clock_that_was_ahead() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(&dir.path().join("gateway.db")).unwrap());
        let start = async |now: i64| {
            let task = RetentionTask {
                settings: Arc::default(),
                claims: None,
                store: store.clone(),
                clock: Arc::new(StoppedClock(now)),
            };
            let mut time = task.start_time().await;
            let trusted = time.observe(task.clock.now(), task.clock.monotonic()).0;
            let unconfirmed = time.unconfirmed();
            task.store_time(RetentionTime { trusted, unconfirmed }).await;
            trusted.as_second()
        };
        assert_eq!(start(NOW).await, NOW, "nothing is known");
        let ahead = NOW + 400 * 24 * 60 * 60;
        // It serves a request, and is restarted within the hour.
        assert_eq!(start(ahead).await, NOW);
        let record = record_at(ahead);
        store.commit(Arc::new(vec![record])).await.unwrap();
        assert_eq!(start(ahead + 60).await, NOW, "whatever the newest record says");
        assert_eq!(start(NOW + 60).await, NOW + 60, "the clock was set right");
    }

    /// Returns the record of a request that arrived at `second`.
    fn record_at(second: i64) -> domain::record::RequestRecord {
        domain::record::RequestRecord {
            id: RequestId(Uuid::from_u128(1)),
            account: ACCOUNT,
            key: domain::id::KeyId::new("k"),
            endpoint: domain::endpoint::Endpoint::ChatCompletions,
            model: None,
            deployment: None,
            stream: false,
            status: domain::record::RequestStatus::Completed,
            http_status: Some(200),
            error_code: None,
            usage: None,
            basis: domain::usage::UsageBasis::None,
            cost: None,
            overrun: domain::money::Nanos::ZERO,
            price_version: None,
            started_at: Timestamp::from_second(second).unwrap(),
            duration: Duration::ZERO,
            ttft: None,
            notes: Vec::new(),
            idempotency: None,
            count: std::num::NonZeroU32::MIN,
            trace: None,
        }
    }
}
