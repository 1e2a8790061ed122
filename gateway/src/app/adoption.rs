//! Accounts for the requests that a replaced process finishes, and stores their records when it has ended.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use arc_swap::ArcSwap;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Core;
use super::recovery::read_journal;
use crate::clock::Clock;
use crate::directory::Directory;
use crate::hand_over::{EndingDir, EndingLock};
use crate::ledger::{Ledger, Reservation};
use crate::limits::{LimitedSubjects, Limiter, Moment, Permit};
use crate::pipeline::replay::{InProgress, Replays};
use crate::retention::RetentionSettings;
use domain::id::{AccountId, KeyId, ModelId, RequestId};
use domain::idempotency::IdempotencyDigest;
use domain::limit::Limits;
use domain::record::RequestRecord;
use store::Store;

/// How often it is checked whether the process has ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The pause after a failure of the store or of the journal.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The limits have admitted the requests already.
const ADMITTED: Limits =
    Limits { rpm: None, tpm: None, concurrency: None, monthly_tokens: None, observe: true };

/// The requests of a replaced process.
struct Adoption {
    dir: EndingDir,
    accounts: Accounts,
    /// What the process may spend.
    reserved: Reservation,
    /// The concurrency slots of its requests.
    permits: HashMap<RequestId, Permit>,
    /// Its requests with an idempotency key.
    in_progress: Vec<InProgress>,
    /// The keys of those that were answered completely.
    answered: HashSet<IdempotencyDigest>,
}

/// What requests are charged to, counted by and found in.
#[derive(Clone)]
struct Accounts {
    ledger: Arc<Ledger>,
    limiter: Arc<Limiter>,
    directory: Arc<Directory>,
    replays: Option<Arc<Replays>>,
    store: Arc<dyn Store>,
    retention: Arc<ArcSwap<RetentionSettings>>,
    clock: Arc<dyn Clock>,
}

/// Accounts for the requests of the processes that use `ending`, and waits for the ends of these processes in the
/// background. Must be called before requests are served.
///
/// # Errors
/// What a process has left cannot be read.
pub(super) fn start(core: &Core<'_>, ending: Vec<EndingDir>) -> Result<()> {
    for dir in ending {
        let reading = || format!("reading `{}`", dir.path().display());
        let adoption = Adoption::begin(core, dir.clone()).with_context(reading)?;
        core.startup.lifecycle.background.spawn(|stop| adoption.run(stop));
    }
    Ok(())
}

// === impl Adoption ===

impl Adoption {
    fn begin(core: &Core<'_>, dir: EndingDir) -> Result<Self> {
        let Core { storage, accounting, history, .. } = core;
        let accounts = Accounts {
            ledger: accounting.ledger.clone(),
            limiter: accounting.limiter.clone(),
            directory: accounting.directory.clone(),
            replays: history.replays.clone(),
            store: storage.store.clone(),
            retention: history.retention.clone(),
            clock: storage.clock.clone(),
        };
        let open = dir.open_requests()?;
        let reserved = accounts.ledger.reserve(&open.retained_funds());
        let subjects: Vec<_> =
            open.requests.iter().map(|it| (RequestId(it.id), it.subjects())).collect();
        let keys = subjects.iter().map(|(_, (_, key, _))| key.clone()).collect();
        let origins = accounts.directory.key_origins(&keys);
        let permit = |(id, (account, key, model)): (_, (AccountId, KeyId, Option<ModelId>))| {
            let origin = origins.get(&key).unwrap_or(&key);
            Some((id, accounts.admit(account, &model?, origin)?))
        };
        let permits = subjects.into_iter().filter_map(permit).collect();
        let in_progress = open.in_progress();
        if let Some(replays) = &accounts.replays {
            replays.resume(&in_progress);
        }
        tracing::info!(event = "requests_adopted", requests = open.requests.len(), dir = %dir.path().display(), "another process finishes requests, which are charged when it has ended");
        let answered = HashSet::new();
        Ok(Self { dir, accounts, reserved, permits, in_progress, answered })
    }

    /// Waits until the process has ended, and stores what it has left. If `stop` is cancelled before, the next start
    /// does.
    async fn run(mut self, stop: CancellationToken) {
        let mut lock = loop {
            match self.dir.try_lock() {
                Ok(Some(lock)) => break Some(lock),
                Ok(None) => {}
                Err(error) => {
                    let dir = self.dir.path().display();
                    tracing::warn!(%error, %dir, "cannot lock the journal of a replaced process");
                }
            }
            if stop.run_until_cancelled(sleep(CHECK_INTERVAL)).await.is_none() {
                return;
            }
        };
        while let Err(error) = self.finish(&mut lock).await {
            report(&error, &self.dir);
            if stop.run_until_cancelled(sleep(RETRY_INTERVAL)).await.is_none() {
                return;
            }
        }
    }

    /// Stores what the process has left, and removes its directory. May be repeated after a failure.
    async fn finish(&mut self, lock: &mut Option<EndingLock>) -> Result<()> {
        let accounts = self.accounts.clone();
        let recovered = read_journal(self.dir.path())?;
        let has_damage = recovered.has_damage();
        let records = recovered.into_unstored(&*accounts.store).await;
        let mut records = records.context("looking for the records in the database")?;
        self.answered.extend(records.iter().filter_map(|record| record.idempotency));
        // An earlier attempt may have queued them.
        records.retain(|record| accounts.ledger.find_unwritten(record.id).is_none());
        let count = records.len();
        let keys = records.iter().map(|record| record.key.clone()).collect();
        let origins = accounts.directory.key_origins(&keys);
        let origin =
            |record: &RequestRecord| origins.get(&record.key).unwrap_or(&record.key).clone();
        for record in &records {
            self.count_tokens(record, &origin(record));
        }
        let with_origins = records.into_iter().map(|record| (origin(&record), record));
        let with_origins = with_origins.map(|(origin, record)| (record, origin)).collect();
        let adopted = accounts.ledger.adopt(with_origins, &mut self.reserved);
        adopted.context("writing the records to the journal")?;
        accounts.ledger.sync_journal().await.context("writing the records to the disk")?;
        let responses = self.dir.read_responses().context("reading the responses")?;
        if !responses.is_empty() {
            let retention = accounts.retention.load().responses;
            let bytes = retention.map_or(u64::MAX, |keep| keep.account_bytes);
            let kept = accounts.store.keep_responses(responses, bytes).await;
            kept.context("storing the responses")?;
        }
        if let Some(replays) = &accounts.replays {
            for request in self.in_progress.drain(..) {
                replays.end(request.digest, self.answered.contains(&request.digest));
            }
        }
        self.permits.clear();
        self.reserved = Reservation::default();
        let lock = lock.take().ok_or_else(|| anyhow!("the directory was removed before"))?;
        if has_damage {
            let aside = self.dir.clone().set_aside(lock).context("moving the directory")?;
            tracing::error!(dir = %aside.display(), "a part of the journal of a replaced process is damaged; it is kept");
        } else {
            self.dir.clone().remove(lock).context("removing the directory")?;
        }
        tracing::info!(
            event = "adoption_ended",
            records = count,
            "the requests of the replaced process are stored"
        );
        Ok(())
    }

    /// Ends the request of `record`, whose key has this `origin`, under the limits.
    fn count_tokens(&mut self, record: &RequestRecord, origin: &KeyId) {
        let Some(usage) = record.usage else { return };
        let (account, clock) = (record.account, self.accounts.clock.clone());
        let admit = || self.accounts.admit(account, record.model.as_ref()?, origin);
        if let Some(permit) = self.permits.remove(&record.id).or_else(admit) {
            permit.settle(usage.input.0.saturating_add(usage.output.0), || clock.monotonic());
        }
    }
}

// === impl Accounts ===

impl Accounts {
    /// Counts a request that another process has admitted.
    fn admit(&self, account: AccountId, model: &ModelId, origin: &KeyId) -> Option<Permit> {
        let subjects = LimitedSubjects {
            account: (account, &ADMITTED),
            model: (model, &ADMITTED),
            key: (origin, &ADMITTED),
        };
        let now = Moment { monotonic: self.clock.monotonic(), wall: self.clock.now() };
        self.limiter.admit(&subjects, None, now).permit.ok()
    }
}

fn report(error: &anyhow::Error, dir: &EndingDir) {
    let (error, dir): (&dyn std::error::Error, _) = (error.as_ref(), dir.path().display());
    tracing::error!(event = "adoption_failed", error, %dir, "cannot store the requests of a replaced process; retrying");
}
