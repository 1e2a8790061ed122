//! What requests are charged to and limited by: the ledger, the limits, and the accounts, keys and prices in memory.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result};
use tokio::sync::mpsc;

use super::Startup;
use super::recovery::RecoveredState;
use super::reports::Reports;
use super::storage::{SharedStore, Storage};
use crate::control::traffic::Traffic;
use crate::directory::Directory;
use crate::fleet::{Allocator, Load, publish_commits};
use crate::ledger::Ledger;
use crate::limits::Limiter;
use crate::shared_pool::Shortages;
use domain::allocation::Recall;
use domain::consumption::Consumption;
use domain::key::Key;

/// The number of recalls by other gateways that may wait.
const MAX_WAITING_RECALLS: usize = 4_096;

/// The state that requests are charged to and limited by.
pub(super) struct Accounting {
    pub(super) ledger: Arc<Ledger>,
    pub(super) limiter: Arc<Limiter>,
    pub(super) directory: Arc<Directory>,
    /// The traffic of the last hour, fed by the recorder.
    pub(super) traffic: Arc<Traffic>,
    /// Receives what other gateways lack; closed if there are none.
    pub(super) recalls: mpsc::Sender<Recall>,
}

impl Accounting {
    /// Builds the state from `recovered`, and starts the recorder, whose records `reports` observes.
    ///
    /// # Errors
    /// The store failed.
    pub(super) async fn start(
        startup: &Startup<'_>,
        storage: &Storage,
        recovered: RecoveredState,
        reports: &Reports,
    ) -> Result<Self> {
        let (background, clock) = (&startup.lifecycle.background, &storage.clock);
        let RecoveredState { journal, snapshot, newest } = recovered;
        let (ledger, recorder) =
            Ledger::new(storage.store.clone(), journal, &snapshot.balances, newest);
        let (recalls, recalled) = mpsc::channel(MAX_WAITING_RECALLS);
        let now = clock.now();
        let (ledger, limiter) = if let Some(SharedStore { database, heartbeats }) = &storage.shared
        {
            // Shared limits and caps are obtained in parts, from what the database knows at that time.
            let shortages = Arc::<Shortages>::default();
            let limiter = Limiter::sharing(shortages.clone());
            let ledger = ledger.sharing(shortages.clone());
            let allocator = Allocator::new(database.clone(), shortages, clock.clone());
            let failovers = heartbeats.failovers();
            background.spawn_until_stop(allocator.run(recalled, failovers));
            (ledger, limiter)
        } else {
            let used = storage.store.consumption(now).await;
            let used = used.context("reading what was used")?;
            resume_spending(&ledger, &snapshot.keys, &used);
            (ledger, Limiter::resume(&used, now))
        };
        let (ledger, limiter) = (Arc::new(ledger), Arc::new(limiter));
        let directory = Arc::new(Directory::new(snapshot));
        let traffic = Arc::<Traffic>::default();
        let observer = reports.observer(&directory, &traffic, clock);
        background.spawn(|stop| recorder.observed(observer).run(stop));
        if let Some(SharedStore { heartbeats, .. }) = &storage.shared {
            let (reporting, ended_requests) = (ledger.clone(), reports.ended_requests());
            heartbeats.set_load(move || Load {
                in_flight: reporting.in_flight_requests(|_| ()).len() as u64,
                ended_requests: ended_requests.load(Ordering::Relaxed),
                waiting_records: reporting.waiting_records(),
            });
            background.spawn_until_stop(publish_commits(ledger.clone(), heartbeats.newest()));
        }
        let merging = ledger.clone();
        background.spawn(|stop| async move { merging.record_merged_until(stop).await });
        Ok(Self { ledger, limiter, directory, traffic, recalls })
    }
}

/// Sets what keys have spent.
fn resume_spending(ledger: &Ledger, keys: &[Key], used: &Consumption) {
    let spent: HashMap<_, _> = used.spent.iter().map(|(key, spent)| (key, *spent)).collect();
    for key in keys {
        ledger.resume_spending(key, spent.get(&key.origin).copied().unwrap_or_default());
    }
}
