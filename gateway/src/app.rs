//! Builds the object graph, runs it, and shuts it down in order.
//!
//! This is the only file that chooses concrete types, and it owns the trackers that all tasks run on.

mod backend;
mod background;
mod health;
mod migrate;
mod operator_token;
mod recovery;
mod reports;
mod restore;
mod seams;
mod simulator;
mod take_over;
mod upgrade;
mod webhooks;

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result};
use arc_swap::ArcSwap;
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::backend::Backend;
pub use self::backend::check;
use self::background::{drop_removed_clients, purge_captures, reload_on_hangup};
pub use self::migrate::migrate;
pub use self::operator_token::enable_operator_token;
use self::recovery::{recover_journal, replays, resume_spending};
use self::reports::{Reports, RequestReports};
pub use self::restore::restore;
pub use self::seams::Seams;
pub use self::simulator::run_simulator;
pub use self::take_over::take_over;
use crate::admin;
use crate::backups::BackupTask;
use crate::broadcast::Broadcast;
use crate::cancellation::Cancellations;
use crate::capture::Captures;
use crate::catalogue;
use crate::clock::Clock;
use crate::config::{Config, LiveSettings, StoreConfig};
use crate::connections::{Acceptor, ConnectionSlots, descriptors};
use crate::control::bootstrap::{self, Seed};
use crate::control::traffic::Traffic;
use crate::control::{ApiAddress, Control, Parts};
use crate::data_dir::{self, JOURNAL};
use crate::directory::Directory;
use crate::fleet::{
    Allocator, Claims, Follower, Heartbeats, Load, SharedAnswers, SharedClock, StoreContact,
    publish_commits,
};
use crate::http::handler::{EdgeState, Handler};
use crate::http::listen::{Port, Stop};
use crate::http::receive::BodyReceiver;
use crate::http::worker::{Worker, WorkerContext};
use crate::journal_barrier::{FlushJournal, JournalBarrier};
use crate::ledger::Ledger;
use crate::ledger::journal::Journal;
use crate::limits::Limiter;
pub use crate::listeners::{AdminListener, InheritedSockets, Listeners};
use crate::memory_budget::MemoryBudget;
use crate::metrics::{self, Exporter, Scrapes};
use crate::pipeline::AppState;
use crate::pipeline::count::Counter;
use crate::retention::{RetentionSettings, RetentionTask};
use crate::secrets::Credentials;
use crate::service_manager;
use crate::shared_pool::Shortages;
use crate::state::State;
use crate::take_over::Offer;
use crate::telemetry::AccessLog;
use crate::tls::ServerTls;
use crate::upstream::{HealthChecks, SlotsTable, StatsTable, UpstreamClients};
use crate::workers::Workers;
use domain::durability::Durability;
use domain::upstream::Upstream;
use store::fleet::Fenced;
use store::{Allocations, IdempotencyClaims, Schema, TrafficReports};

/// The number of recalls by other gateways that may wait.
const MAX_WAITING_RECALLS: usize = 4_096;

/// The schemas that this program migrates databases to.
pub const SCHEMAS: [Schema; 2] = [store::sqlite::SCHEMA, store::postgres::SCHEMA];

/// Runs a gateway until `shutdown`, then lets requests finish, writes all records and closes the store.
///
/// # Errors
/// The data directory, the store or a listener is not usable.
pub async fn run(
    config: &Config,
    mut listeners: Listeners,
    seams: Seams,
    shutdown: CancellationToken,
) -> Result<()> {
    // Connections, the background work of requests, and writers end in this order.
    let (serving, tasks, writing) = (TaskTracker::new(), TaskTracker::new(), TaskTracker::new());
    let (cut_off, recorder_stop) = (CancellationToken::new(), CancellationToken::new());

    let read_tls = |files| ServerTls::read(files, config.admin_client_ca.clone());
    let tls = config.tls.clone().map(read_tls).transpose()?.map(Arc::new);

    data_dir::make(&config.data_dir)?;
    // Closed after the lock was released, which the next process awaits.
    let successor = Arc::<OnceLock<UnixStream>>::default();
    let lock = data_dir::lock(&config.data_dir).await?;
    let patience =
        matches!(config.store, StoreConfig::Postgres(_)).then_some(config.store_patience);
    let contact = Arc::new(StoreContact::new(patience));
    let listen = listeners.http.local_addr()?;
    let backend = Backend::open(config, listen, &*seams.clock, &*seams.entropy).await?;
    let (store, schema) = (backend.store(), backend.schema());
    let fenced = Arc::<OnceLock<Fenced>>::default();
    let shared = backend.shared();
    let heartbeats = shared.clone().map(|membership| {
        Arc::new(Heartbeats::new(membership, contact.clone(), config.store_patience))
    });
    if let Some(heartbeats) = heartbeats.clone() {
        let (fenced, ended, ending) = (fenced.clone(), shutdown.clone(), cut_off.clone());
        writing.spawn(recorder_stop.clone().run_until_cancelled_owned(async move {
            let reason = heartbeats.run().await;
            tracing::error!(event = "node_fenced", %reason, "stopping, because this process may not use the database");
            _ = fenced.set(reason);
            // Without the delay in which a shutdown still accepts requests.
            ending.cancel();
            ended.cancel();
        }));
    }
    let started_at = seams.clock.now();
    let clock: Arc<dyn Clock> = match shared.clone() {
        Some(database) => {
            let reading = SharedClock::read(seams.clock, database).await;
            let clock = Arc::new(reading.context("reading the clock of the database")?);
            let correcting = clock.clone().run();
            writing.spawn(recorder_stop.clone().run_until_cancelled_owned(correcting));
            clock
        }
        None => seams.clock,
    };
    let has_listener = listeners.metrics.is_some();
    let reports = Reports::new(config, has_listener, &seams.log_events, &clock, &*seams.entropy);
    let seed = if config.simulator { catalogue::simulated(clock.now()) } else { Seed::default() };
    let journal_dir = config.data_dir.join(JOURNAL);
    let opening = || format!("opening the journal in `{}`", journal_dir.display());
    let recovered = recover_journal(&journal_dir, &*store).await?;
    let journal = Journal::create(&journal_dir, &recovered).with_context(opening)?;
    let journal = match config.durability {
        Durability::Process => journal,
        Durability::Power => journal.with_sync().context("starting to sync the journal")?,
    };
    let allocations = shared.clone().map(|store| store as Arc<dyn Allocations>);
    let replayed = recovered.commit(&*store, allocations.as_deref()).await;
    replayed.context("replaying the journal")?;
    if let Some(allocations) = &allocations {
        // What an earlier process had; its records are stored now.
        allocations.give_back_all().await.context("giving back shared balances and limits")?;
    }
    // Without replay, idempotency keys are ignored.
    let claims = shared.clone().filter(|_| !config.idempotency.is_zero());
    let claims = claims.map(|store| store as Arc<dyn IdempotencyClaims>);
    if let Some(claims) = &claims {
        claims.release_earlier_claims().await.context("releasing claims of idempotency keys")?;
    }
    let dir = &config.data_dir;
    let prepared =
        bootstrap::prepare(dir, &config.seal_key, &*store, &*clock, &seams.entropy, &seed).await;
    if prepared.is_err() {
        // A node that has never served must not look as if it was killed.
        backend.close().await;
    }
    let prepared = prepared?;

    let (ledger, recorder) =
        Ledger::new(store.clone(), journal, &prepared.snapshot.balances, prepared.newest);
    let shortages = Arc::<Shortages>::default();
    let ledger = if allocations.is_some() { ledger.sharing(shortages.clone()) } else { ledger };
    let now = clock.now();
    // Shared limits and caps are obtained in parts, from what the database knows at that time.
    let used = match &allocations {
        Some(_) => None,
        None => Some(store.consumption(now).await.context("reading what was used")?),
    };
    if let Some(used) = &used {
        resume_spending(&ledger, &prepared.snapshot.keys, used);
    }
    let directory = Arc::new(Directory::new(prepared.snapshot));
    let traffic = Arc::<Traffic>::default();
    let observer =
        reports.observer(AccessLog::new(config.access_log), &directory, &traffic, &clock);
    let recorder = recorder.observed(observer);
    writing.spawn(recorder.run(recorder_stop.clone()));
    let ledger = Arc::new(ledger);
    if let Some(heartbeats) = &heartbeats {
        let (reporting, ended_requests) = (ledger.clone(), reports.ended_requests());
        heartbeats.set_load(move || Load {
            in_flight: reporting.under_way(|_| ()).len() as u64,
            ended_requests: ended_requests.load(Ordering::Relaxed),
            waiting_records: reporting.waiting_records(),
        });
        let publishing = publish_commits(ledger.clone(), heartbeats.newest());
        writing.spawn(recorder_stop.clone().run_until_cancelled_owned(publishing));
    }
    let (merging, stop) = (ledger.clone(), recorder_stop.clone());
    writing.spawn(async move { merging.record_merged_until(stop).await });
    let retention_settings = Arc::new(ArcSwap::from_pointee(RetentionSettings {
        records: config.records,
        responses: config.responses.retention,
        unused_keys: config.unused_keys,
    }));
    let response_store = config.responses.retention.map(|_| {
        // As for limits and balances, only a database that gateways share has others.
        let clock_of_shared = allocations.is_some().then(|| clock.clone());
        let (state, task) = State::new(store.clone(), retention_settings.clone(), clock_of_shared);
        writing.spawn(task.run(recorder_stop.clone()));
        state
    });
    let retention = RetentionTask {
        settings: retention_settings.clone(),
        claims: claims.clone().map(|claims| (claims, config.idempotency)),
        store: store.clone(),
        clock: clock.clone(),
    };
    writing.spawn(retention.run(recorder_stop.clone()));
    let backups = config.backups.clone().map(|settings| {
        let (task, status) = BackupTask::new(settings, store.clone(), clock.clone());
        writing.spawn(task.run(recorder_stop.clone()));
        status
    });
    let sealer = Arc::new(prepared.sealer);
    let credentials = Arc::new(Credentials::new(sealer.clone()));
    credentials.refresh(directory.catalogue().upstreams.values().cloned()).await;

    let shared_answers = claims.clone().filter(|_| config.responses.retention.is_some());
    let shared_answers = shared_answers.map(|store| {
        let (answers, task) = SharedAnswers::new(store);
        writing.spawn(task.run(recorder_stop.clone()));
        answers
    });
    let claims = claims.map(|claims| {
        let (claims, task) = Claims::new(claims, config.idempotency);
        writing.spawn(task.run(recorder_stop.clone()));
        claims
    });
    let replays = replays(config, &*store, &clock, claims, shared_answers).await?;
    let (recalls, recalled) = mpsc::channel(MAX_WAITING_RECALLS);
    let limiter = match &used {
        Some(used) => Limiter::resume(used, now),
        None => Limiter::sharing(shortages.clone()),
    };
    let limiter = Arc::new(limiter);
    if let (Some(allocations), Some(heartbeats)) = (&allocations, &heartbeats) {
        let allocator = Allocator::new(allocations.clone(), shortages, clock.clone());
        let allocating = allocator.run(recalled, heartbeats.failovers());
        writing.spawn(recorder_stop.clone().run_until_cancelled_owned(allocating));
    }
    let journalled = ledger.clone();
    let flush_journal: FlushJournal = Arc::new(move || Ok(journalled.flush_journal()?));
    let (upstream_stats, due_probes) = StatsTable::new();
    let upstream_stats = Arc::new(upstream_stats);
    let upstream_slots = Arc::<SlotsTable>::default();
    let dialer = simulator::dialer(seams.simulator, serving.clone());
    // Each worker has its own connections to upstreams.
    let upstream_clients = || {
        let journal_barrier = JournalBarrier::new(flush_journal.clone(), tasks.clone());
        let (stats, slots) = (upstream_stats.clone(), upstream_slots.clone());
        let (dialer, proxies) = (dialer.clone(), config.upstream_proxies.clone());
        let clients = UpstreamClients::new(dialer, proxies, journal_barrier.clone(), stats, slots);
        (Arc::new(clients), journal_barrier)
    };
    let (diagnostic_clients, _) = upstream_clients();
    let known = credentials.clone();
    let credential = move |upstream: &Upstream| known.resolved(upstream);
    let probing = due_probes.run(diagnostic_clients.clone(), credential.clone(), clock.clone());
    writing.spawn(recorder_stop.clone().run_until_cancelled_owned(probing));
    let checks = HealthChecks {
        clients: diagnostic_clients.clone(),
        secrets: credential,
        clock: clock.clone(),
    };
    let (checked, changes) = (directory.clone(), directory.catalogue_changes());
    let upstreams = move || checked.catalogue().upstreams.values().cloned().collect();
    let checking = checks.run(upstreams, changes);
    writing.spawn(recorder_stop.clone().run_until_cancelled_owned(checking));

    let (http_address, admin_address) = (listen, listeners.admin.address()?);
    // Bodies that are received slowly must not keep answers from their clients.
    let [body_memory, working_memory] =
        [(); 2].map(|()| MemoryBudget::new(config.body_memory_bytes, config.max_body_bytes));
    let slots = ConnectionSlots::new(descriptors::api_limits(
        config.connections,
        descriptors::limit(),
        config.workers.get(),
    ));
    let webhooks = webhooks::start(
        config,
        webhooks::Sources {
            store: store.clone(),
            ledger: ledger.clone(),
            directory: directory.clone(),
            upstream_clients: diagnostic_clients.clone(),
            clock: clock.clone(),
            entropy: seams.entropy.clone(),
        },
        &writing,
        &recorder_stop,
    )?;
    let metrics_address = listeners.metrics.as_ref().map(TcpListener::local_addr).transpose()?;
    let scrapes = metrics_address.map(|address| Arc::new(Scrapes::new(address)));
    let mut metrics_exporter = None;
    if let Some(RequestReports { requests, worker_stalls }) = reports.requests() {
        let exporter = Arc::new(Exporter::new(metrics::Sources {
            scrapes: scrapes.clone(),
            export: reports.telemetry().map(|exporter| exporter.status()),
            requests,
            ledger: ledger.clone(),
            directory: directory.clone(),
            upstream_clients: diagnostic_clients.clone(),
            connections: slots.clone(),
            body_memory: body_memory.clone(),
            working_memory: working_memory.clone(),
            webhooks: webhooks.clone(),
            schema,
            journal_dir,
            store: store.clone(),
            worker_stalls,
            clock: clock.clone(),
            started_at,
        }));
        if let (Some(listener), Some(address)) = (listeners.metrics.take(), metrics_address) {
            tracing::info!(listen = %address, "serving metrics");
            writing.spawn(metrics::serve(listener, exporter.clone(), recorder_stop.clone()));
        }
        metrics_exporter = Some(exporter);
    }
    let exporting = reports.export(metrics_exporter);
    let broadcast = Arc::<Broadcast>::default();
    let cancellations = Arc::new(Cancellations::new(broadcast.clone()));
    let captures = Arc::<Captures>::default();
    let purging = purge_captures(captures.clone(), clock.clone());
    writing.spawn(recorder_stop.clone().run_until_cancelled_owned(purging));
    let app = AppState {
        directory: directory.clone(),
        contact,
        ledger: ledger.clone(),
        limiter: limiter.clone(),
        upstream_clients: diagnostic_clients.clone(),
        credentials: credentials.clone(),
        response_store,
        replays,
        trace_sampler: config.otlp.as_ref().and_then(|otlp| otlp.trace_sampler),
        counter: Counter::default(),
        responses_policy: config.responses.policy,
        sealer,
        captures: captures.clone(),
        max_chain_bytes: config.max_body_bytes as u64,
        working_memory,
        clock: clock.clone(),
        entropy: seams.entropy.clone(),
        tasks: tasks.clone(),
        cut_off: cut_off.clone(),
        cancellations: cancellations.clone(),
    };
    let bodies = BodyReceiver::new(config.max_body_bytes, body_memory, config.edge.body_pace);
    let edge =
        Arc::new(EdgeState::new(bodies, config.cors.clone(), health::verbose(schema), broadcast));
    let (live_edge, live_retention) = (edge.clone(), retention_settings);
    let apply_settings = Arc::new(move |settings: &LiveSettings| {
        live_edge.set_cors(settings.cors.clone());
        live_retention.store(Arc::new(settings.retention));
    });
    let control = Arc::new(Control::new(Parts {
        store,
        schema,
        backups,
        scrapes,
        telemetry: reports.telemetry().cloned(),
        webhooks,
        captures,
        allocations: allocations.clone(),
        directory: directory.clone(),
        ledger: ledger.clone(),
        cancellations,
        credentials,
        clock,
        entropy: seams.entropy.clone(),
        registration: config.registration,
        registrations_per_hour: config.registrations_per_hour,
        trial_daily: config.trial_daily,
        operator_token: prepared.operator_token,
        tasks: tasks.clone(),
        data_dir: config.data_dir.clone(),
        seal_key: config.seal_key.clone(),
        tls: tls.clone(),
        settings_in_use: config.in_use.as_deref().cloned(),
        apply_settings,
        api: ApiAddress { public_url: config.public_url.clone(), listen: http_address },
        upstream_clients: diagnostic_clients,
        limiter,
        traffic,
        traffic_reports: shared.clone().map(|store| store as Arc<dyn TrafficReports>),
    }));

    writing.spawn(control.clone().report_traffic_until(recorder_stop.clone()));
    if let Some(notifications) = shared {
        let (control, entropy) = (control.clone(), seams.entropy);
        let follower = Follower { notifications, control, recalls, entropy };
        writing.spawn(recorder_stop.clone().run_until_cancelled_owned(follower.run()));
    }
    if let Some(tls) = tls.clone() {
        writing.spawn(recorder_stop.clone().run_until_cancelled_owned(tls.follow()));
    }
    let reloading = reload_on_hangup(control.clone())?;
    writing.spawn(recorder_stop.clone().run_until_cancelled_owned(reloading));
    let (reporting, stop) = (control.clone(), recorder_stop.clone());
    writing.spawn(async move { reporting.report_refused_until(stop).await });

    let abort = CancellationToken::new();
    let mut workers = Workers::new(seams.worker_runtime);
    let mut queues = Vec::new();
    let mut all_clients = vec![app.upstream_clients.clone()];
    for _ in 0..config.workers.get() {
        let (upstream_clients, journal_barrier) = upstream_clients();
        all_clients.push(upstream_clients.clone());
        let app = Arc::new(AppState { upstream_clients, ..app.clone() });
        let (queue, worker) = Worker::new(WorkerContext {
            tls: tls.clone(),
            handler: Arc::new(Handler::new(app, edge.clone())),
            journal_barrier,
            tasks: tasks.clone(),
            client_idle: config.client_idle,
            timeouts: config.edge.timeouts,
            limits: config.edge.limits,
        });
        let serving = worker.run(abort.clone());
        let started = match reports.requests() {
            Some(RequestReports { worker_stalls: stalls, .. }) => {
                workers.start(async move { stalls.measure_while(serving).await })
            }
            None => workers.start(serving),
        };
        started.context("starting a worker")?;
        queues.push(queue);
    }
    drop(app);
    let dropping = drop_removed_clients(directory, all_clients);
    writing.spawn(recorder_stop.clone().run_until_cancelled_owned(dropping));
    let handed_over = CancellationToken::new();
    match Offer::new(&config.data_dir, &listeners, config.drain) {
        Ok(offer) => {
            let taking = take_over::hand_over(
                offer,
                successor.clone(),
                handed_over.clone(),
                shutdown.clone(),
            );
            writing.spawn(taking);
        }
        Err(error) => {
            tracing::warn!(event = "take_over_unavailable", %error, "another process cannot take over from this one");
        }
    }
    tracing::info!(event = "serving", http = %http_address, admin = %admin_address, data_dir = %config.data_dir.display(), workers = config.workers, "serving");
    service_manager::ready();
    let feeding = service_manager::feed_watchdog();
    writing.spawn(recorder_stop.clone().run_until_cancelled_owned(feeding));
    let stopping = shutdown.clone();
    writing.spawn(async move {
        stopping.cancelled().await;
        service_manager::stopping();
    });
    let proxies = Arc::new(config.edge.proxies.clone());
    let port = Port {
        acceptor: Acceptor::new(listeners.http, "api", slots).with_proxies(proxies.clone()),
        workers: queues,
        running: workers.running().clone(),
        edge,
    };
    let (drain, drain_delay) = (config.drain, config.drain_delay);
    let stop = Stop { shutdown: shutdown.clone(), handed_over, drain_delay, drain, cut_off, abort };
    // Boxed: this future would have to hold each of them.
    let http = Box::pin(port.serve(stop));
    let settings = admin::Settings {
        tls,
        client_idle: config.client_idle,
        timeouts: config.edge.timeouts,
        proxies,
    };
    let admin = Box::pin(admin::serve(control, listeners.admin, settings, shutdown.clone()));
    let ((), served) = tokio::join!(http, async {
        let outcome = admin.await;
        // The admin plane ends by itself only if it has failed.
        shutdown.cancel();
        outcome
    });

    tasks.close();
    tasks.wait().await;
    ledger.record_merged();
    recorder_stop.cancel();
    writing.close();
    writing.wait().await;
    backend.leave(ledger.waiting_records()).await;
    backend.close().await;
    workers.stop().await;
    tracing::info!(event = "stopped", "stopped");
    // The next process need not wait for the collector.
    drop(lock);
    drop(successor);
    exporting.stop().await;
    fenced.get().map_or(Ok(()), |reason| Err(*reason))?;
    served.context("serving the admin plane")
}
