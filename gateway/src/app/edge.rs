//! The public edge: what bounds its connections and bodies, its workers, and its port.

use std::sync::Arc;

use anyhow::{Context, Result};
use tokio::net::TcpListener;

use super::background::{drop_removed_clients, purge_captures};
use super::reports::RequestReports;
use super::storage::Storage;
use super::take_over::Successor;
use super::{Core, Startup, health};
use crate::broadcast::Broadcast;
use crate::cancellation::Cancellations;
use crate::capture::Captures;
use crate::connections::{Acceptor, ConnectionSlots, TrustedProxies, descriptors};
use crate::http::BodyLimits;
use crate::http::handler::{EdgeState, Handler};
use crate::http::listen::{Port, Stop};
use crate::http::receive::BodyReceiver;
use crate::http::worker::{Worker, WorkerContext, WorkerQueue};
use crate::memory_budget::MemoryBudget;
use crate::offload::Offload;
use crate::pipeline::AppState;
use crate::pipeline::count::Counter;
use crate::workers::{WorkerRuntime, Workers};

/// The state of the edge that the admin plane and the metrics use, too.
pub(super) struct Edge {
    pub(super) state: Arc<EdgeState>,
    pub(super) slots: ConnectionSlots,
    /// The memory for request bodies.
    pub(super) body_memory: Arc<MemoryBudget>,
    /// The memory for copies of long requests and for long answers.
    pub(super) working_memory: Arc<MemoryBudget>,
    /// The requests that are to end now.
    pub(super) cancellations: Arc<Cancellations>,
    /// The captured requests.
    pub(super) captures: Arc<Captures>,
}

/// The workers of the API.
pub(super) struct ApiWorkers {
    workers: Workers,
    queues: Vec<WorkerQueue>,
}

impl Edge {
    /// Creates the state, and starts the task that forgets captured requests.
    pub(super) fn new(startup: &Startup<'_>, storage: &Storage) -> Self {
        let config = startup.config;
        // Bodies that are received slowly must not keep answers from their clients.
        let [body_memory, working_memory] =
            [(); 2].map(|()| MemoryBudget::new(config.body_memory_bytes, config.max_body_bytes));
        let limits =
            descriptors::api_limits(config.connections, descriptors::limit(), config.workers.get());
        let broadcast = Arc::<Broadcast>::default();
        let cancellations = Arc::new(Cancellations::new(broadcast.clone()));
        let captures = Arc::<Captures>::default();
        let purging = purge_captures(captures.clone(), storage.clock.clone());
        startup.lifecycle.background.spawn_until_stop(purging);
        let (pace, cors) = (config.edge.body_pace, config.cors.clone());
        let body_limits = BodyLimits {
            max_bytes: config.max_body_bytes,
            max_json_depth: config.edge.max_json_depth,
        };
        let bodies = BodyReceiver::new(body_limits, body_memory.clone(), pace);
        let state = EdgeState::new(bodies, cors, health::verbose(storage.schema), broadcast);
        Self {
            state: Arc::new(state),
            slots: ConnectionSlots::new(limits),
            body_memory,
            working_memory,
            cancellations,
            captures,
        }
    }
}

// === impl ApiWorkers ===

impl ApiWorkers {
    /// Starts the configured number of workers in `runtime`.
    ///
    /// # Errors
    /// The system has no resources for one.
    pub(super) fn start(core: &Core<'_>, runtime: WorkerRuntime) -> Result<Self> {
        let Startup { config, tls, lifecycle, .. } = &core.startup;
        let app = app_state(core);
        let (mut workers, mut queues) = (Workers::new(runtime), Vec::new());
        let mut all_clients = vec![app.upstream_clients.clone()];
        for _ in 0..config.workers.get() {
            let (upstream_clients, journal_barrier) = core.upstreams.worker_clients();
            all_clients.push(upstream_clients.clone());
            let app = Arc::new(AppState { upstream_clients, ..app.clone() });
            let (queue, worker) = Worker::new(WorkerContext {
                tls: tls.clone(),
                handler: Arc::new(Handler::new(app, core.edge.state.clone())),
                journal_barrier,
                tasks: lifecycle.request_tasks.clone(),
                client_idle: config.client_idle,
                timeouts: config.edge.timeouts,
                limits: config.edge.limits,
            });
            let serving = worker.run(lifecycle.abort.clone());
            let started = match core.reports.requests() {
                Some(RequestReports { worker_stalls: stalls, .. }) => {
                    workers.start(async move { stalls.measure_while(serving).await })
                }
                None => workers.start(serving),
            };
            started.context("starting a worker")?;
            queues.push(queue);
        }
        let directory = core.accounting.directory.clone();
        lifecycle.background.spawn_until_stop(drop_removed_clients(directory, all_clients));
        Ok(Self { workers, queues })
    }

    /// Serves the connections of `listener` until the shutdown, and then the requests in progress for as long as the
    /// configuration says. Must be called once.
    pub(super) fn serve(
        &mut self,
        core: &Core<'_>,
        listener: TcpListener,
        proxies: Arc<TrustedProxies>,
        successor: &Successor,
    ) -> impl Future<Output = ()> + use<> {
        let Startup { config, lifecycle, .. } = &core.startup;
        let acceptor = Acceptor::new(listener, "api", core.edge.slots.clone());
        let port = Port {
            acceptor: acceptor.with_proxies(proxies),
            workers: std::mem::take(&mut self.queues),
            running: self.workers.running().clone(),
            edge: core.edge.state.clone(),
        };
        port.serve(Stop {
            shutdown: lifecycle.shutdown.clone(),
            sockets_taken: successor.accepts.clone(),
            draining: lifecycle.draining.clone(),
            drain_delay: config.drain_delay,
            drain: config.drain,
            cut_off: lifecycle.cut_off.clone(),
            abort: lifecycle.abort.clone(),
        })
    }

    /// Ends the threads. The caller has waited for all tasks that must not be lost.
    pub(super) async fn stop(self) {
        self.workers.stop().await;
    }
}

/// Returns the state of requests, with the upstream clients of the main thread.
fn app_state(core: &Core<'_>) -> AppState {
    let Core { startup, storage, accounting, history, upstreams, edge, .. } = core;
    let config = startup.config;
    let tasks = &startup.lifecycle.request_tasks;
    AppState {
        directory: accounting.directory.clone(),
        contact: storage.contact.clone(),
        ledger: accounting.ledger.clone(),
        limiter: accounting.limiter.clone(),
        upstream_clients: upstreams.diagnostic_clients.clone(),
        credentials: upstreams.credentials.clone(),
        response_store: history.responses.clone(),
        replays: history.replays.clone(),
        trace_sampler: config.otlp.as_ref().and_then(|otlp| otlp.trace_sampler),
        counter: Counter::default(),
        responses_policy: config.responses.policy,
        sealer: core.secrets.sealer.clone(),
        captures: edge.captures.clone(),
        max_chain_bytes: config.max_body_bytes as u64,
        working_memory: edge.working_memory.clone(),
        offload: Arc::new(Offload::new(config.workers.get(), tasks.clone())),
        clock: storage.clock.clone(),
        entropy: startup.entropy.clone(),
        tasks: tasks.clone(),
        cut_off: startup.lifecycle.cut_off.clone(),
        cancellations: edge.cancellations.clone(),
    }
}
