//! Collects the metrics of a process: of ended requests, and the state that a scrape reads.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::encoder::Encoder;
use super::points::Points;
use super::requests::RequestMetrics;
use super::scrapes::Scrapes;
use super::stalls::WorkerStalls;
use super::text::{Format, Text};
use super::upstreams;
use crate::clock::Clock;
use crate::connections::ConnectionSlots;
use crate::directory::Directory;
use crate::ledger::Ledger;
use crate::memory_budget::MemoryBudget;
use crate::otlp::{ExportStatus, Signal, SignalCounts};
use crate::upstream::UpstreamClients;
use crate::webhooks::Webhooks;
use otlp_proto::metrics::v1::Metric;
use store::{Schema, StoreMaintenance};

/// How long a scrape waits for the size of the database.
const SIZE_TIMEOUT: Duration = Duration::from_secs(1);

/// What a scrape reads.
pub struct Sources {
    /// Learns of each scrape; `None` if there is no port.
    pub scrapes: Option<Arc<Scrapes>>,
    /// The export over OTLP; `None` if there is none.
    pub export: Option<Arc<ExportStatus>>,
    /// The ended requests.
    pub requests: Arc<RequestMetrics>,
    /// Balances and records.
    pub ledger: Arc<Ledger>,
    /// The catalogue.
    pub directory: Arc<Directory>,
    /// The statistics of upstreams.
    pub upstream_clients: Arc<UpstreamClients>,
    /// The connections of the API.
    pub connections: ConnectionSlots,
    /// The memory for request bodies.
    pub body_memory: Arc<MemoryBudget>,
    /// The memory for copies of long requests and for long answers.
    pub working_memory: Arc<MemoryBudget>,
    /// The endpoints of webhooks; `None` for none.
    pub webhooks: Option<Arc<Webhooks>>,
    /// The schema of the database.
    pub schema: Schema,
    /// The directory of the journal.
    pub journal_dir: PathBuf,
    /// The database.
    pub store: Arc<dyn StoreMaintenance>,
    /// The delays of workers.
    pub worker_stalls: Arc<WorkerStalls>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// When the process started.
    pub started_at: Timestamp,
}

/// Writes all metrics.
pub struct Exporter(Sources);

impl Exporter {
    /// Creates an exporter.
    pub fn new(sources: Sources) -> Self {
        Self(sources)
    }

    /// Returns all metrics as text. Waits until the requests that have ended are counted; not longer than a second,
    /// and not for a failing store.
    pub async fn scrape(self: &Arc<Self>, format: Format) -> String {
        if let Some(scrapes) = &self.0.scrapes {
            scrapes.record(self.0.clock.now());
        }
        let encode = move |exporter: &Self, database_bytes| {
            let mut text = Text::new(format);
            exporter.encode(&mut Encoder::new(&mut text), database_bytes);
            text.finish()
        };
        self.encoded(encode).await
    }

    /// Returns all metrics for a collector. Waits like [`scrape`](Self::scrape).
    pub async fn collect(self: &Arc<Self>) -> Vec<Metric> {
        let encode = move |exporter: &Self, database_bytes| {
            let Sources { clock, started_at, .. } = &exporter.0;
            let mut points = Points::new(*started_at, clock.now());
            exporter.encode(&mut Encoder::new(&mut points), database_bytes);
            points.finish()
        };
        self.encoded(encode).await
    }

    async fn encoded<T: Send + 'static>(
        self: &Arc<Self>,
        encode: impl FnOnce(&Self, Option<u64>) -> T + Send + 'static,
    ) -> T {
        let Sources { ledger, .. } = &self.0;
        ledger.record_merged();
        ledger.wait_until_stored().await;
        let size = tokio::time::timeout(SIZE_TIMEOUT, self.0.store.database_bytes()).await;
        let database_bytes = size.ok().and_then(Result::ok);
        let exporter = self.clone();
        // It reads files, and many series take milliseconds.
        let encoding = tokio::task::spawn_blocking(move || encode(&exporter, database_bytes));
        encoding.await.expect("encoding does not panic")
    }

    fn encode(&self, encoder: &mut Encoder<'_>, database_bytes: Option<u64>) {
        self.0.requests.encode(encoder);
        self.encode_process(encoder);
        self.encode_ledger(encoder, database_bytes);
        let Sources { directory, upstream_clients, clock, .. } = &self.0;
        upstreams::encode(encoder, directory, upstream_clients, clock.monotonic());
        self.encode_export(encoder);
        self.encode_webhooks(encoder);
    }

    fn encode_export(&self, encoder: &mut Encoder<'_>) {
        let Some(export) = &self.0.export else { return };
        let mut family = |name, help, value: fn(&SignalCounts) -> u64| {
            let mut family = encoder.counter(name, help);
            for signal in Signal::ALL {
                family.sample(&[("signal", signal.as_str())], value(&export.counts(signal)));
            }
        };
        family(
            "tollgate_otlp_exported_total",
            "Spans, data points and log records that the collector has accepted.",
            |it| it.exported,
        );
        family(
            "tollgate_otlp_dropped_total",
            "Spans, data points and log records that were not exported.",
            |it| it.dropped,
        );
        family("tollgate_otlp_failures_total", "Exports that failed.", |it| it.failures);
    }

    fn encode_process(&self, encoder: &mut Encoder<'_>) {
        let Sources { schema, connections, body_memory, working_memory, started_at, .. } = &self.0;
        let labels = &[
            ("version", version::VERSION),
            ("commit", version::COMMIT.unwrap_or_default()),
            ("database", schema.backend),
            ("schema", &schema.version.to_string()),
        ];
        encoder
            .gauge("tollgate_build_info", "The program and its database; always 1.")
            .sample(labels, 1);
        let started_at = started_at.as_second();
        encoder
            .gauge("process_start_time_seconds", "The start, as a Unix time.")
            .sample(&[], started_at);
        encoder
            .gauge("tollgate_connections", "Open connections to the API.")
            .sample(&[], connections.in_use());
        let memory = [("bodies", body_memory), ("answers", working_memory)];
        let mut family = encoder.gauge(
            "tollgate_memory_bytes",
            "Memory held by request bodies, and by their copies and long answers (`answers`).",
        );
        for (kind, budget) in memory {
            family.sample(&[("kind", kind)], budget.held());
        }
        encoder
            .histogram(
                "tollgate_worker_delay_seconds",
                "How late timers of workers fire, measured four times a second on each.",
            )
            .buckets(&[], &self.0.worker_stalls.delays());
        let mut family =
            encoder.gauge("tollgate_memory_limit_bytes", "The most that they may hold.");
        for (kind, budget) in memory {
            family.sample(&[("kind", kind)], budget.capacity());
        }
    }

    /// `database_bytes` is `None` if the database did not answer.
    fn encode_ledger(&self, encoder: &mut Encoder<'_>, database_bytes: Option<u64>) {
        let Sources { ledger, clock, journal_dir, .. } = &self.0;
        encoder
            .gauge("tollgate_requests_in_flight", "Requests that went upstream and have not ended.")
            .sample(&[], ledger.in_flight_requests(|_| ()).len());
        let total = ledger.total_balance();
        encoder
            .gauge(
                "tollgate_balance_usd",
                "The sum of all balances; with PostgreSQL, of the parts allocated here.",
            )
            .sample(&[], total.amount);
        encoder
            .gauge("tollgate_held_usd", "The part of the balances that is held for requests.")
            .sample(&[], total.held);
        encoder
            .gauge("tollgate_ledger_writable", "Whether requests can be recorded: 1 or 0.")
            .sample(&[], u8::from(ledger.write_failure().is_none()));
        encoder
            .gauge("tollgate_records_waiting", "Records that the database does not have yet.")
            .sample(&[], ledger.waiting_records());
        let age = ledger
            .oldest_waiting()
            .map_or(0.0, |ended| clock.now().duration_since(ended).as_secs_f64().max(0.0));
        encoder
            .gauge("tollgate_records_oldest_age_seconds", "The age of the oldest of them.")
            .sample(&[], age);
        encoder
            .counter(
                "tollgate_unrecorded_requests_total",
                "Refused requests without a record, because too many waited.",
            )
            .sample(&[], ledger.unrecorded_requests());
        encoder
            .histogram(
                "tollgate_commit_duration_seconds",
                "Time until the database had a batch of records.",
            )
            .buckets(&[], &ledger.commit_times());
        encoder
            .gauge("tollgate_journal_bytes", "The size of the journal.")
            .sample(&[], directory_bytes(journal_dir));
        if let Some(bytes) = database_bytes {
            encoder
                .gauge("tollgate_database_bytes", "The size of the database, with SQLite's log.")
                .sample(&[], bytes);
        }
    }

    fn encode_webhooks(&self, encoder: &mut Encoder<'_>) {
        let Some(webhooks) = &self.0.webhooks else { return };
        let counts = webhooks.counts();
        encoder
            .counter("tollgate_webhook_deliveries_total", "Webhooks that an endpoint accepted.")
            .sample(&[], counts.delivered);
        encoder
            .counter("tollgate_webhook_failures_total", "Attempts to send a webhook that failed.")
            .sample(&[], counts.failed);
        encoder
            .counter("tollgate_webhook_drops_total", "Webhooks whose delivery was abandoned.")
            .sample(&[], counts.dropped);
        encoder
            .gauge("tollgate_webhooks_waiting", "Webhooks that wait to be sent.")
            .sample(&[], counts.waiting);
    }
}

/// Returns the size of the files in a directory, without those that are removed meanwhile.
fn directory_bytes(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|file| file.len()).sum()
}
