//! Checks of the collector that gets telemetry.

use std::sync::Arc;

use futures_util::future::join_all;

use super::Finding;
use crate::otlp::{Exporter, Signal};

/// Exports nothing for each signal, and reports what the collector answers and what became of the exports so far.
pub(super) async fn check(exporter: Arc<Exporter>) -> Vec<Finding> {
    let signals = Signal::ALL.into_iter().filter(|signal| exporter.exports(*signal));
    join_all(signals.map(|signal| check_signal(&exporter, signal))).await
}

async fn check_signal(exporter: &Exporter, signal: Signal) -> Finding {
    let name = signal.as_str();
    if let Err(error) = exporter.collector().check(signal).await {
        let remedy = "see that a collector runs at the address, that `otlp.protocol` is the one of its port, and that it \
            has a pipeline for this signal";
        return Finding::problem(format!("{name} cannot be exported: {error}"), remedy);
    }
    let status = exporter.status();
    let (counts, health) = (status.counts(signal), status.health(signal));
    let text = format!("it takes {name}: {} exported, {} dropped", counts.exported, counts.dropped);
    if counts.dropped == 0 {
        return Finding::ok(text);
    }
    let last =
        health.last_error.map(|(at, error)| format!("; the last error, at {at:.0}: {error}"));
    let remedy = "look at the collector's log and its load; `otlp.trace_ratio` exports less";
    Finding::warning(text + &last.unwrap_or_default(), remedy)
}
