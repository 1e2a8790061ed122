//! Exports spans, metrics and log records to an OpenTelemetry collector over OTLP.
//!
//! Everything is made off the way of requests: spans from the records of ended requests, in the recorder's task; log
//! records from the events of the log and, if requests are logged, from their records; metrics by the code that answers a
//! scrape; the text of spans on a blocking thread. [`Exporter`] has a bounded queue for spans and one for log records,
//! which are encoded before they wait: an export only adds what is around them. While the collector is slow or cannot be
//! reached, what exceeds them is dropped and counted in [`ExportStatus`]. Nothing waits for the collector, except the end
//! of the process for a few seconds.
//!
//! Spans and log records have ids, names of the catalogue, numbers and labels, and no text of a request or an answer unless the
//! key has opted in.

mod attributes;
mod collector;
mod exporter;
mod logs;
mod protobuf;
mod queue;
mod span_text;
mod spans;
mod status;

pub use collector::{Collector, ExportError, Protocol};
pub use exporter::{CollectMetrics, Exporter, Settings};
pub use status::{ExportStatus, SignalCounts, SignalHealth};

/// What can be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Metrics.
    Metrics,
    /// Log records.
    Logs,
}

impl Signal {
    /// Every signal.
    pub const ALL: [Self; 3] = [Self::Traces, Self::Metrics, Self::Logs];

    /// Returns the name in settings, metrics and the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
            Self::Logs => "logs",
        }
    }
}
