//! What operators observe a gateway by: its metrics and their port, the export over OTLP, and webhooks.

use std::sync::Arc;

use anyhow::Result;
use jiff::Timestamp;
use tokio::net::TcpListener;

use super::reports::{Export, RequestReports};
use super::{Core, webhooks};
use crate::data_dir::JOURNAL;
use crate::metrics::{self, Exporter, Scrapes};
use crate::webhooks::Webhooks;

/// The running reports about a gateway.
pub(super) struct Monitoring {
    /// The endpoints of webhooks; `None` for none.
    pub(super) webhooks: Option<Arc<Webhooks>>,
    /// The scrapes of the metrics; `None` if they are not served.
    pub(super) scrapes: Option<Arc<Scrapes>>,
    pub(super) export: Export,
}

impl Monitoring {
    /// Starts webhooks, the port of the metrics on `listener`, and the export. The process has `started_at` this time.
    ///
    /// # Errors
    /// The URL of a webhook or the listener is not usable.
    pub(super) fn start(
        core: &Core<'_>,
        listener: Option<TcpListener>,
        started_at: Timestamp,
    ) -> Result<Self> {
        let Core { startup, storage, accounting, upstreams, edge, reports, .. } = core;
        let background = &startup.lifecycle.background;
        let webhooks = webhooks::start(
            startup.config,
            webhooks::Sources {
                store: storage.store.clone(),
                ledger: accounting.ledger.clone(),
                directory: accounting.directory.clone(),
                upstream_clients: upstreams.diagnostic_clients.clone(),
                clock: storage.clock.clone(),
                entropy: startup.entropy.clone(),
            },
            background,
        )?;
        let address = listener.as_ref().map(TcpListener::local_addr).transpose()?;
        let scrapes = address.map(|address| Arc::new(Scrapes::new(address)));
        let exporter = reports.requests().map(|RequestReports { requests, worker_stalls }| {
            Arc::new(Exporter::new(metrics::Sources {
                scrapes: scrapes.clone(),
                export: reports.telemetry().map(|exporter| exporter.status()),
                requests,
                ledger: accounting.ledger.clone(),
                directory: accounting.directory.clone(),
                upstream_clients: upstreams.diagnostic_clients.clone(),
                connections: edge.slots.clone(),
                body_memory: edge.body_memory.clone(),
                working_memory: edge.working_memory.clone(),
                webhooks: webhooks.clone(),
                schema: storage.schema,
                journal_dir: startup.config.data_dir.join(JOURNAL),
                store: storage.store.clone(),
                worker_stalls,
                clock: storage.clock.clone(),
                started_at,
            }))
        });
        if let (Some(listener), Some(address), Some(exporter)) = (listener, address, &exporter) {
            tracing::info!(listen = %address, "serving metrics");
            background.spawn(|stop| metrics::serve(listener, exporter.clone(), stop));
        }
        let export = reports.export(exporter, &accounting.directory);
        Ok(Self { webhooks, scrapes, export })
    }
}
