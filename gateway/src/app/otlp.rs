//! Builds the export over OTLP.

use std::sync::Arc;

use futures_util::FutureExt;

use crate::clock::{Clock, Entropy};
use crate::config::OtlpConfig;
use crate::metrics;
use crate::otlp::{CollectMetrics, Exporter, Settings, Signal};
use crate::telemetry::LogEvents;

/// Creates the exporter of a process, which gets its log from `events`.
pub(super) fn exporter(
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
        events.connect(move |event| logging.log(event));
    }
    tracing::info!(collector = exporter.status().address(), "exporting telemetry");
    exporter
}

/// Returns what collects the metrics of `exporter`.
pub(super) fn collect(exporter: Arc<metrics::Exporter>) -> CollectMetrics {
    Box::new(move || {
        let exporter = exporter.clone();
        async move { exporter.collect().await }.boxed()
    })
}
