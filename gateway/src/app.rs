//! Builds the object graph, runs it, and shuts it down in order.
//!
//! [`run`] reads as the phases of a start and of a shutdown. Each phase of the start is a file, which returns what it
//! made; `lifecycle` has the trackers that all tasks run on. Only this module chooses concrete types.

mod accounting;
mod adoption;
mod backend;
mod background;
mod control;
mod edge;
mod hand_over;
mod health;
mod history;
mod lifecycle;
mod migrate;
mod monitoring;
mod operator_token;
mod recovery;
mod reports;
mod restore;
mod seams;
mod simulator;
mod storage;
mod take_over;
mod upgrade;
mod upstreams;
mod webhooks;

use std::sync::Arc;

use anyhow::{Context, Result};
use tokio_util::sync::CancellationToken;

use self::accounting::Accounting;
pub use self::backend::check;
use self::background::report_state;
use self::edge::{ApiWorkers, Edge};
use self::history::History;
use self::lifecycle::Lifecycle;
pub use self::migrate::migrate;
use self::monitoring::Monitoring;
pub use self::operator_token::enable_operator_token;
use self::recovery::{Recovery, Secrets, recover};
use self::reports::Reports;
pub use self::restore::restore;
pub use self::seams::Seams;
pub use self::simulator::run_simulator;
use self::storage::Storage;
use self::take_over::DataDirLock;
pub use self::take_over::take_over;
use self::upstreams::Upstreams;
use crate::admin;
use crate::clock::Entropy;
use crate::config::Config;
pub use crate::listeners::{AdminListener, InheritedSockets, Listeners};
use crate::tls::ServerTls;
use store::Schema;

/// The schemas that this program migrates databases to.
pub const SCHEMAS: [Schema; 2] = [store::sqlite::SCHEMA, store::postgres::SCHEMA];

/// What all phases of a start use.
struct Startup<'a> {
    config: &'a Config,
    entropy: Arc<dyn Entropy>,
    /// The TLS of the listeners; `None` for plaintext.
    tls: Option<Arc<ServerTls>>,
    lifecycle: Lifecycle,
}

/// What the API, the admin plane and the reports about them are built from.
struct Core<'a> {
    startup: Startup<'a>,
    storage: Storage,
    reports: Reports,
    secrets: Secrets,
    accounting: Accounting,
    history: History,
    upstreams: Upstreams,
    edge: Edge,
}

/// Runs a gateway until `shutdown`, then finishes its requests, writes their records and closes the store. If another
/// process takes over, the store may be closed first, and the last records stay in the journal that it leaves.
///
/// # Errors
/// The data directory, the store or a listener is not usable.
pub async fn run(
    config: &Config,
    mut listeners: Listeners,
    seams: Seams,
    shutdown: CancellationToken,
) -> Result<()> {
    let lifecycle = Lifecycle::new(shutdown);
    let started_at = seams.clock.now();
    let (http_address, admin_address) = (listeners.http.local_addr()?, listeners.admin.address()?);
    let read_tls = |files| ServerTls::read(files, config.admin_client_ca.clone());
    let tls = config.tls.clone().map(read_tls).transpose()?.map(Arc::new);
    let startup =
        Startup { config, entropy: seams.entropy, tls: tls.clone(), lifecycle: lifecycle.clone() };

    let data_dir_lock = DataDirLock::acquire(&config.data_dir).await?;
    let storage = Storage::open(&startup, http_address, seams.clock).await?;
    let has_listener = listeners.metrics.is_some();
    let reports = Reports::new(&startup, has_listener, seams.log, &storage.clock);
    let Recovery { state, draining, secrets } = recover(&startup, &storage).await?;
    let accounting = Accounting::start(&startup, &storage, state, &reports).await?;
    let history = History::start(&startup, &storage).await?;
    let sealer = secrets.sealer.clone();
    let upstreams =
        Upstreams::start(&startup, &storage, &accounting, sealer, seams.simulator).await;
    let edge = Edge::new(&startup, &storage);
    let core = Core { startup, storage, reports, secrets, accounting, history, upstreams, edge };
    adoption::start(&core, draining);
    let monitoring = Monitoring::start(&core, listeners.metrics.take(), started_at)?;
    let control = control::start(&core, &monitoring, http_address)?;
    let mut workers = ApiWorkers::start(&core, seams.worker_runtime)?;
    let successor = data_dir_lock.offer(config, &listeners, &lifecycle);

    tracing::info!(event = "serving", http = %http_address, admin = %admin_address, data_dir = %config.data_dir.display(), workers = config.workers, "serving");
    report_state(&lifecycle);
    let proxies = Arc::new(config.edge.proxies.clone());
    let http = workers.serve(&core, listeners.http, proxies.clone(), &successor);
    // Boxed: this future would have to hold it.
    let mut requests = Box::pin(async {
        http.await;
        // What connections have left behind.
        lifecycle.request_tasks.close();
        lifecycle.request_tasks.wait().await;
    });
    let settings = admin::Settings {
        tls,
        client_idle: config.client_idle,
        timeouts: config.edge.timeouts,
        proxies,
    };
    let shutdown = &lifecycle.shutdown;
    let admin = Box::pin(admin::serve(control, listeners.admin, settings, shutdown.clone()));
    let is_due = hand_over::is_due(&successor, &lifecycle.draining);
    // A hand-over waits for nothing that idle clients of the admin plane could delay.
    let mut have_ended = false;
    let serving = async {
        let requests = async {
            (&mut requests).await;
            have_ended = true;
        };
        let admin = async {
            let outcome = admin.await;
            // The admin plane ends by itself only if it has failed.
            shutdown.cancel();
            outcome
        };
        tokio::join!(requests, admin).1
    };
    let served = tokio::select! {
        biased;
        served = serving => served,
        () = is_due => Ok(()),
    };
    let requests = (!have_ended).then_some(requests);
    let data_dir_lock = hand_over::close(&core, data_dir_lock, requests).await;
    workers.stop().await;
    tracing::info!(event = "stopped", "stopped");
    // The next process need not wait for the collector.
    drop(data_dir_lock);
    monitoring.export.stop().await;
    core.storage.ensure_not_fenced()?;
    served.context("serving the admin plane")
}

impl Core<'_> {
    /// Ends the tasks that write to the store, and closes it. All requests must have ended.
    async fn close(&self) {
        let ledger = &self.accounting.ledger;
        let Lifecycle { change_tasks, background, .. } = &self.startup.lifecycle;
        change_tasks.close();
        change_tasks.wait().await;
        ledger.record_merged();
        background.stop().await;
        if let Some(responses) = self.history.responses.as_ref().filter(|_| ledger.is_handed_over())
        {
            // They ended after a hand-over that failed.
            responses.write_rest().await;
        }
        self.storage.leave(ledger.waiting_records()).await;
        self.storage.close().await;
    }
}
