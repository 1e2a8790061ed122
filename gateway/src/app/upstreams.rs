//! The clients of the upstreams, their credentials, and the tasks that observe whether upstreams answer.

use std::sync::Arc;

use simulator::Simulator;
use tokio_util::task::TaskTracker;

use super::accounting::Accounting;
use super::storage::Storage;
use super::{Startup, simulator as simulated};
use crate::journal_barrier::{FlushJournal, JournalBarrier};
use crate::secrets::Credentials;
use crate::secrets::seal::Sealer;
use crate::upstream::{
    EnvironmentProxies, HealthChecks, SimulatorDialer, SlotsTable, StatsTable, UpstreamClients,
};
use domain::upstream::Upstream;

/// The upstreams as all workers see them.
pub(super) struct Upstreams {
    pub(super) credentials: Arc<Credentials>,
    /// The clients of the main thread, which send probes, health checks and diagnoses.
    pub(super) diagnostic_clients: Arc<UpstreamClients>,
    shared: SharedParts,
}

/// What the clients of all workers share; each worker has its own connections.
struct SharedParts {
    flush_journal: FlushJournal,
    request_tasks: TaskTracker,
    stats: Arc<StatsTable>,
    slots: Arc<SlotsTable>,
    dialer: SimulatorDialer,
    proxies: Option<EnvironmentProxies>,
}

impl Upstreams {
    /// Resolves the credentials of the catalogue, and starts probes and health checks.
    pub(super) async fn start(
        startup: &Startup<'_>,
        storage: &Storage,
        accounting: &Accounting,
        sealer: Arc<Sealer>,
        simulator: Simulator,
    ) -> Self {
        let (background, clock) = (&startup.lifecycle.background, &storage.clock);
        let directory = &accounting.directory;
        let credentials = Arc::new(Credentials::new(sealer));
        credentials.refresh(directory.catalogue().upstreams.values().cloned()).await;

        let ledger = accounting.ledger.clone();
        let (stats, due_probes) = StatsTable::new();
        let shared = SharedParts {
            flush_journal: Arc::new(move || Ok(ledger.flush_journal()?)),
            request_tasks: startup.lifecycle.request_tasks.clone(),
            stats: Arc::new(stats),
            slots: Arc::default(),
            dialer: simulated::dialer(simulator, TaskTracker::new()),
            proxies: startup.config.upstream_proxies.clone(),
        };
        let (diagnostic_clients, _) = shared.clients();

        let known = credentials.clone();
        let secrets = move |upstream: &Upstream| known.resolved(upstream);
        let probing = due_probes.run(diagnostic_clients.clone(), secrets.clone(), clock.clone());
        background.spawn_until_stop(probing);
        let clients = diagnostic_clients.clone();
        let checks = HealthChecks { clients, secrets, clock: clock.clone() };
        let (checked, changes) = (directory.clone(), directory.catalogue_changes());
        let upstreams = move || checked.catalogue().upstreams.values().cloned().collect();
        background.spawn_until_stop(checks.run(upstreams, changes));
        Self { credentials, diagnostic_clients, shared }
    }

    /// Returns the clients of another worker, and the barrier of its connections.
    pub(super) fn worker_clients(&self) -> (Arc<UpstreamClients>, JournalBarrier) {
        self.shared.clients()
    }
}

impl SharedParts {
    fn clients(&self) -> (Arc<UpstreamClients>, JournalBarrier) {
        let Self { flush_journal, request_tasks, stats, slots, dialer, proxies } = self;
        let journal_barrier = JournalBarrier::new(flush_journal.clone(), request_tasks.clone());
        let clients = UpstreamClients::new(
            dialer.clone(),
            proxies.clone(),
            journal_barrier.clone(),
            stats.clone(),
            slots.clone(),
        );
        (Arc::new(clients), journal_barrier)
    }
}
