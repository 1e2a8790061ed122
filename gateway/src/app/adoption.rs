//! Accounts for the requests that a replaced process finishes, and stores their records as they end.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use arc_swap::ArcSwap;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Core;
use super::recovery::read_journal;
use crate::clock::Clock;
use crate::directory::Directory;
use crate::hand_over::{DrainingDir, DrainingLock, OpenRequests};
use crate::ledger::journal::{Journal, without_stored};
use crate::ledger::{Ledger, Reservation};
use crate::limits::{LimitedSubjects, Limiter, Moment, Permit};
use crate::pipeline::replay::{KeyedRequest, Replays};
use crate::retention::RetentionSettings;
use domain::id::{AccountId, KeyId, ModelId, RequestId};
use domain::key::Key;
use domain::limit::Limits;
use domain::record::RequestRecord;
use domain::response::StoredResponse;
use store::Store;

/// The pause between two readings of what the process has written.
const INTERVAL: Duration = Duration::from_millis(500);
/// Limits that never refuse: the replaced process has admitted these requests already.
const OBSERVE_ONLY: Limits =
    Limits { rpm: None, tpm: None, concurrency: None, monthly_tokens: None, observe: true };

/// The requests of a replaced process.
struct Adoption {
    dir: DrainingDir,
    context: AdoptionContext,
    /// What the process may spend.
    reserved: Reservation,
    /// The concurrency slots of its requests.
    permits: HashMap<RequestId, Permit>,
    /// Its requests with an idempotency key that have not ended.
    keyed: HashMap<RequestId, KeyedRequest>,
    /// The requests that were charged, or are in the store already.
    recorded: HashSet<RequestId>,
    /// The responses that were stored.
    stored: HashSet<RequestId>,
}

/// The parts of the gateway that account for adopted requests.
struct AdoptionContext {
    ledger: Arc<Ledger>,
    limiter: Arc<Limiter>,
    directory: Arc<Directory>,
    replays: Option<Arc<Replays>>,
    store: Arc<dyn Store>,
    retention: Arc<ArcSwap<RetentionSettings>>,
    clock: Arc<dyn Clock>,
}

/// What a process has written.
struct Written {
    records: Vec<RequestRecord>,
    responses: Vec<StoredResponse>,
    /// Whether a part of its journal cannot be read; known once it has ended.
    has_damage: bool,
}

/// Accounts for the requests of the processes that use `draining`, and waits for the ends of these processes in the
/// background. Must be called before requests are served.
pub(super) fn start(core: &Core<'_>, draining: Vec<DrainingDir>) {
    for dir in draining {
        let adoption = Adoption::begin(core, dir);
        core.startup.lifecycle.background.spawn(|stop| adoption.run(stop));
    }
}

// === impl Adoption ===

impl Adoption {
    fn begin(core: &Core<'_>, dir: DrainingDir) -> Self {
        let Core { storage, accounting, history, .. } = core;
        let context = AdoptionContext {
            ledger: accounting.ledger.clone(),
            limiter: accounting.limiter.clone(),
            directory: accounting.directory.clone(),
            replays: history.replays.clone(),
            store: storage.store.clone(),
            retention: history.retention.clone(),
            clock: storage.clock.clone(),
        };
        let open = dir.open_requests().unwrap_or_else(|error| {
            let path = dir.path().display();
            // Clients must not wait for it. What the process spends beyond the balances is the operator's loss.
            tracing::error!(event = "adoption_failed", %error, dir = %path, "what another process still uses is not known, and not reserved");
            OpenRequests::default()
        });
        let reserved = context.ledger.reserve(&open.retained_funds());
        let subjects: Vec<_> =
            open.requests.iter().map(|it| (RequestId(it.id), it.subjects())).collect();
        let ids = subjects.iter().map(|(_, (_, key, _))| key.clone()).collect();
        let keys = context.directory.find_keys(&ids);
        let permit = |(id, (account, key, model)): (_, (AccountId, KeyId, Option<ModelId>))| {
            let origin = keys.get(&key).map_or(&key, |key| &key.origin);
            Some((id, context.admit(account, &model?, origin)?))
        };
        let permits = subjects.into_iter().filter_map(permit).collect();
        let keyed = context.replays.iter().flat_map(|it| it.insert_adopted(open.keyed_requests()));
        let keyed = keyed.map(|keyed| (keyed.request, keyed)).collect();
        tracing::info!(event = "requests_adopted", requests = open.requests.len(), dir = %dir.path().display(), "another process finishes requests, which are charged as they end");
        let (recorded, stored) = (HashSet::new(), HashSet::new());
        Self { dir, context, reserved, permits, keyed, recorded, stored }
    }

    /// Stores what the process writes until it has ended, and removes its directory. If `stop` is cancelled before, the
    /// next start continues.
    async fn run(mut self, stop: CancellationToken) {
        loop {
            match self.advance().await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => report(&error, &self.dir),
            }
            if stop.run_until_cancelled(sleep(INTERVAL)).await.is_none() {
                return;
            }
        }
    }

    /// Stores what the process has written. Returns whether it has ended, and all is stored.
    async fn advance(&mut self) -> Result<bool> {
        let lock = self.dir.try_lock().context("locking the directory")?;
        let (dir, has_ended) = (self.dir.clone(), lock.is_some());
        let reading = spawn_blocking(move || Written::read(&dir, has_ended));
        let Written { records, responses, has_damage } = reading.await??;
        self.record(records).await?;
        self.store_responses(responses).await?;
        let Some(lock) = lock else { return Ok(false) };
        self.finish(&lock, has_damage).await?;
        Ok(true)
    }

    /// Charges and queues the records that were not before.
    async fn record(&mut self, records: Vec<RequestRecord>) -> Result<()> {
        let is_new = |record: &RequestRecord| !self.recorded.contains(&record.id);
        let new: Vec<_> = records.into_iter().filter(is_new).collect();
        if new.is_empty() {
            return Ok(());
        }
        let ids: Vec<_> = new.iter().map(|record| record.id).collect();
        let unstored = without_stored(&*self.context.store, new).await;
        let unstored = unstored.context("looking for the records in the database")?;
        self.recorded.extend(ids);
        let ids = unstored.iter().map(|record| record.key.clone()).collect();
        let keys = self.context.directory.find_keys(&ids);
        for record in unstored {
            let key = keys.get(&record.key).map(|key| &**key);
            self.end(&record, key);
            self.context.ledger.adopt(record, key, &mut self.reserved);
        }
        Ok(())
    }

    /// Ends the request of `record` under the limits and for its idempotency key.
    fn end(&mut self, record: &RequestRecord, key: Option<&Key>) {
        if let (Some(replays), Some(keyed)) = (&self.context.replays, self.keyed.remove(&record.id))
        {
            replays.finish_adopted(keyed.digest, record.idempotency == Some(keyed.digest));
        }
        let (permit, usage) = (self.permits.remove(&record.id), record.usage);
        let Some(usage) = usage else { return };
        let origin = key.map_or(&record.key, |key| &key.origin);
        let admit = || self.context.admit(record.account, record.model.as_ref()?, origin);
        if let Some(permit) = permit.or_else(admit) {
            let clock = &self.context.clock;
            permit.settle(usage.input.0.saturating_add(usage.output.0), || clock.monotonic());
        }
    }

    async fn store_responses(&mut self, responses: Vec<StoredResponse>) -> Result<()> {
        let is_new = |response: &StoredResponse| !self.stored.contains(&response.id);
        let new: Vec<_> = responses.into_iter().filter(is_new).collect();
        if new.is_empty() {
            return Ok(());
        }
        let ids: Vec<_> = new.iter().map(|response| response.id).collect();
        let retention = self.context.retention.load().responses;
        let bytes = retention.map_or(u64::MAX, |keep| keep.account_bytes);
        let kept = self.context.store.keep_responses(new, bytes).await;
        kept.context("storing responses")?;
        self.stored.extend(ids);
        Ok(())
    }

    /// Releases what is left of the requests, and removes the directory once the store has all records.
    async fn finish(&mut self, lock: &DrainingLock, has_damage: bool) -> Result<()> {
        self.permits.clear();
        self.reserved = Reservation::default();
        if let Some(replays) = &self.context.replays {
            self.keyed.drain().for_each(|(_, keyed)| replays.finish_adopted(keyed.digest, false));
        }
        let ledger = &self.context.ledger;
        ledger.wait_until_stored().await;
        if self.recorded.iter().any(|id| ledger.find_unwritten(*id).is_some()) {
            bail!("the database does not take the records now");
        }
        self.dir.discard(lock, has_damage).context("removing the directory")?;
        tracing::info!(
            event = "adoption_ended",
            records = self.recorded.len(),
            "the requests of the replaced process are stored"
        );
        Ok(())
    }
}

// === impl AdoptionContext ===

impl AdoptionContext {
    /// Counts a request that another process has admitted.
    fn admit(&self, account: AccountId, model: &ModelId, origin: &KeyId) -> Option<Permit> {
        let subjects = LimitedSubjects {
            account: (account, &OBSERVE_ONLY),
            model: (model, &OBSERVE_ONLY),
            key: (origin, &OBSERVE_ONLY),
        };
        let now = Moment { monotonic: self.clock.monotonic(), wall: self.clock.now() };
        self.limiter.admit(&subjects, None, now).permit.ok()
    }
}

// === impl Written ===

impl Written {
    /// Reads what the process has written so far or, if it `has_ended`, everything, with requests that had not ended.
    fn read(dir: &DrainingDir, has_ended: bool) -> Result<Self> {
        let responses = dir.read_responses().context("reading the responses")?;
        if !has_ended {
            let records = Journal::read_closed(dir.path()).context("reading the journal")?;
            return Ok(Self { records, responses, has_damage: false });
        }
        let recovered = read_journal(dir.path())?;
        let has_damage = recovered.has_damage();
        Ok(Self { records: recovered.into_records(), responses, has_damage })
    }
}

fn report(error: &anyhow::Error, dir: &DrainingDir) {
    let (error, dir) = (format_args!("{error:#}"), dir.path().display());
    tracing::error!(event = "adoption_failed", %error, %dir, "cannot store the requests of a replaced process; retrying");
}
