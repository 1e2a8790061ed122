//! What the store keeps of ended requests, and for how long: responses, the answers to idempotency keys, and backups.

use std::sync::Arc;

use anyhow::{Context, Result};
use arc_swap::ArcSwap;
use jiff::Timestamp;

use super::Startup;
use super::storage::Storage;
use crate::backups::{BackupStatus, BackupTask};
use crate::fleet::{Claims, SharedAnswers};
use crate::pipeline::replay::{MAX_ENTRIES, Replays};
use crate::response_store::ResponseStore;
use crate::retention::{RetentionSettings, RetentionTask};

/// What the store keeps of ended requests.
pub(super) struct History {
    /// The stored responses; `None` if responses are not stored.
    pub(super) responses: Option<Arc<ResponseStore>>,
    /// The answers to idempotency keys; `None` if these are ignored.
    pub(super) replays: Option<Arc<Replays>>,
    /// The state of scheduled backups; `None` without them.
    pub(super) backups: Option<Arc<BackupStatus>>,
    /// What is deleted when.
    pub(super) retention: Arc<ArcSwap<RetentionSettings>>,
}

impl History {
    /// Reads what earlier processes have answered, and starts the tasks that write, delete and copy.
    ///
    /// # Errors
    /// The store failed.
    pub(super) async fn start(startup: &Startup<'_>, storage: &Storage) -> Result<Self> {
        let (config, background) = (startup.config, &startup.lifecycle.background);
        let Storage { store, clock, .. } = storage;
        let retention = Arc::new(ArcSwap::from_pointee(RetentionSettings {
            records: config.records,
            responses: config.responses.retention,
            unused_keys: config.unused_keys,
        }));
        let responses = config.responses.retention.map(|_| {
            // As for limits and balances, only a database that gateways share has others.
            let clock_of_shared = storage.shared.is_some().then(|| clock.clone());
            let (responses, task) =
                ResponseStore::new(store.clone(), retention.clone(), clock_of_shared);
            background.spawn(|stop| task.run(stop));
            responses
        });
        let claims = storage.idempotency_claims.clone();
        let deleting = RetentionTask {
            settings: retention.clone(),
            claims: claims.map(|claims| (claims, config.idempotency)),
            store: store.clone(),
            clock: clock.clone(),
        };
        background.spawn(|stop| deleting.run(stop));
        let backups = config.backups.clone().map(|settings| {
            let (task, status) = BackupTask::new(settings, store.clone(), clock.clone());
            background.spawn(|stop| task.run(stop));
            status
        });
        let replays = if config.idempotency.is_zero() {
            None
        } else {
            Some(start_replays(startup, storage).await?)
        };
        Ok(Self { responses, replays, backups, retention })
    }
}

/// Creates the replay table from the requests that an earlier process answered.
async fn start_replays(startup: &Startup<'_>, storage: &Storage) -> Result<Arc<Replays>> {
    let (config, background) = (startup.config, &startup.lifecycle.background);
    let (window, clock) = (config.idempotency, &storage.clock);
    let claims = storage.idempotency_claims.clone();
    let shared_answers = claims.clone().filter(|_| config.responses.retention.is_some());
    let shared_answers = shared_answers.map(|store| {
        let (answers, task) = SharedAnswers::new(store);
        background.spawn(|stop| task.run(stop));
        answers
    });
    let claims = claims.map(|store| {
        let (claims, task) = Claims::new(store, window);
        background.spawn(|stop| task.run(stop));
        claims
    });
    let since = clock.now().checked_sub(window).unwrap_or(Timestamp::MIN);
    let answered = storage.store.answered_since(since, MAX_ENTRIES).await;
    let answered = answered.context("reading what was answered before")?;
    Ok(Replays::new(window, &answered, clock.clone(), claims, shared_answers))
}
