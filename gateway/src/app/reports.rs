//! Builds what reports about requests: metrics, the export over OTLP, the access log, and the traffic figures.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Startup;
use crate::clock::{Clock, Entropy};
use crate::config::OtlpConfig;
use crate::control::traffic::Traffic;
use crate::directory::Directory;
use crate::metrics::{self, RequestMetrics, WorkerStalls};
use crate::otlp::{CollectMetrics, Exporter, Settings, Signal};
use crate::telemetry::{AccessLog, AccessLogSetting, Log, LogEvents, RequestLines};
use domain::record::RequestRecord;

/// What reports about requests.
pub(super) struct Reports {
    telemetry: Option<Arc<Exporter>>,
    access_log: AccessLogSetting,
    request_lines: Option<RequestLines>,
    requests: Option<RequestReports>,
    ended_requests: Arc<AtomicU64>,
}

/// What is measured if metrics are scraped or exported.
#[derive(Clone)]
pub(super) struct RequestReports {
    pub(super) requests: Arc<RequestMetrics>,
    pub(super) worker_stalls: Arc<WorkerStalls>,
}

/// The export to a collector, while it runs.
pub(super) struct Export {
    task: TaskTracker,
    stop: CancellationToken,
}

// === impl Reports ===

impl Reports {
    /// Creates the reports of a process with this log. `has_listener` is whether metrics are scraped.
    pub(super) fn new(
        startup: &Startup<'_>,
        has_listener: bool,
        log: Log,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        let Log { events, request_lines } = log;
        let Startup { config, entropy, .. } = startup;
        let telemetry = config.otlp.as_ref().map(|otlp| exporter(otlp, &events, clock, &**entropy));
        let is_exported = telemetry.as_ref().is_some_and(|it| it.exports(Signal::Metrics));
        let requests = (has_listener || is_exported).then(|| {
            let top = usize::try_from(config.metrics_accounts).unwrap_or(usize::MAX);
            let requests = Arc::new(RequestMetrics::new(top));
            RequestReports { requests, worker_stalls: Arc::default() }
        });
        let access_log = config.access_log;
        Self { telemetry, access_log, request_lines, requests, ended_requests: Arc::default() }
    }

    /// Returns what observes each batch of ended requests.
    pub(super) fn observer(
        &self,
        directory: &Arc<Directory>,
        traffic: &Arc<Traffic>,
        clock: &Arc<dyn Clock>,
    ) -> impl FnMut(&[RequestRecord]) + Send + 'static {
        let (telemetry, ended_requests) = (self.telemetry.clone(), self.ended_requests.clone());
        let metrics = self.requests().map(|it| it.requests);
        let (directory, traffic, clock) = (directory.clone(), traffic.clone(), clock.clone());
        let mut access_log = AccessLog::new(self.access_log, self.request_lines.clone());
        move |records| {
            let ended = records.iter().map(|record| u64::from(record.count.get())).sum();
            ended_requests.fetch_add(ended, Ordering::Relaxed);
            if let Some(metrics) = &metrics {
                metrics.observe(records, &directory.catalogue());
            }
            if let Some(exporter) = &telemetry {
                exporter.observe(records, &directory.catalogue());
            }
            if let Some(access_log) = &mut access_log {
                let (chosen, now) = (access_log.choose(records), clock.now());
                access_log.write(&chosen, now);
                if let Some(exporter) = &telemetry {
                    exporter.log_requests(&chosen, now);
                }
            }
            traffic.record_ended(records, clock.monotonic());
        }
    }

    /// Returns the export; `None` if nothing is exported.
    pub(super) fn telemetry(&self) -> Option<&Arc<Exporter>> {
        self.telemetry.as_ref()
    }

    /// Returns what is measured; `None` if metrics are neither scraped nor exported.
    pub(super) fn requests(&self) -> Option<RequestReports> {
        self.requests.clone()
    }

    /// Returns the number of ended requests.
    pub(super) fn ended_requests(&self) -> Arc<AtomicU64> {
        self.ended_requests.clone()
    }

    /// Starts the export, if there is one. `metrics` has the metrics, and `directory` the keys.
    pub(super) fn export(
        &self,
        metrics: Option<Arc<metrics::Exporter>>,
        directory: &Arc<Directory>,
    ) -> Export {
        let export = Export { task: TaskTracker::new(), stop: CancellationToken::new() };
        if let Some(exporter) = &self.telemetry {
            let metrics = metrics.filter(|_| exporter.exports(Signal::Metrics)).map(collect);
            export.task.spawn(exporter.clone().run(
                metrics,
                directory.clone(),
                export.stop.clone(),
            ));
        }
        export
    }
}

// === impl Export ===

impl Export {
    /// Exports what waits, for a bounded time.
    pub(super) async fn stop(self) {
        self.stop.cancel();
        self.task.close();
        self.task.wait().await;
    }
}

/// Creates the exporter of a process, which gets its log from `events`.
fn exporter(
    config: &OtlpConfig,
    events: &LogEvents,
    clock: &Arc<dyn Clock>,
    entropy: &dyn Entropy,
) -> Arc<Exporter> {
    let exporter = Arc::new(Exporter::new(Settings {
        collector: config.collector.clone(),
        signals: config.signals.clone(),
        metrics_interval: config.metrics_interval,
        resource: config.resource.clone(),
        instance: entropy.uuid(clock.now()),
        clock: clock.clone(),
    }));
    if exporter.exports(Signal::Logs) {
        let logging = exporter.clone();
        events.connect(move |event| logging.log(&event));
    }
    tracing::info!(collector = exporter.status().address(), "exporting telemetry");
    exporter
}

/// Returns what collects the metrics of `exporter`.
fn collect(exporter: Arc<metrics::Exporter>) -> CollectMetrics {
    Box::new(move || {
        let exporter = exporter.clone();
        async move { exporter.collect().await }.boxed()
    })
}
