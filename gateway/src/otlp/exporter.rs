//! Takes spans and log records in, and exports them and the metrics until the gateway stops.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::attributes::Envelope;
use super::collector::{Collector, Refused};
use super::queue::Queue;
use super::span_text::SpanText;
use super::status::ExportStatus;
use super::{Signal, logs, spans};
use crate::clock::Clock;
use crate::directory::{Catalogue, Directory};
use crate::telemetry::LogEvent;
use domain::record::RequestRecord;
use domain::traced_content::TracedContent;
use otlp_proto::metrics::v1::Metric;
use otlp_proto::metrics::v1::metric::Data;

/// The number of spans that may wait. A request has about five, of up to 2 kB each.
const MAX_WAITING_SPANS: usize = 16_384;
const MAX_WAITING_LOG_RECORDS: usize = 8_192;
/// The number of spans in an export. With 2 kB each and all texts of prompts and answers that may wait, they stay below
/// the 4 MiB that a collector takes at once by default.
const SPAN_BATCH: usize = 512;
/// The number of log records in an export.
const LOG_BATCH: usize = 2_048;
/// The pause before a failed export is repeated; it doubles up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// How long the end of the process waits for the last exports.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// Returns all metrics.
pub type CollectMetrics = Box<dyn Fn() -> BoxFuture<'static, Vec<Metric>> + Send + Sync>;

/// What is exported, and the collector that gets it.
pub struct Settings {
    /// The collector.
    pub collector: Collector,
    /// What is exported.
    pub signals: Vec<Signal>,
    /// The time between two exports of the metrics.
    pub metrics_interval: Duration,
    /// Attributes of the resource.
    pub resource: Vec<(String, String)>,
    /// The id of this process.
    pub instance: Uuid,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

/// A span that waits for the collector.
struct WaitingSpan {
    /// Encoded, without text of a prompt or an answer.
    span: Vec<u8>,
    /// The text, if it has any.
    content: Option<TracedContent>,
}

/// Exports telemetry to one collector.
pub struct Exporter {
    collector: Collector,
    signals: Vec<Signal>,
    metrics_interval: Duration,
    envelope: Envelope,
    clock: Arc<dyn Clock>,
    spans: Queue<WaitingSpan>,
    /// Encoded.
    log_records: Queue<Vec<u8>>,
    status: Arc<ExportStatus>,
}

impl Exporter {
    /// Creates an exporter. [`run`](Self::run) must be called.
    pub fn new(settings: Settings) -> Self {
        let Settings {
            collector,
            signals,
            metrics_interval,
            resource: configured,
            instance,
            clock,
        } = settings;
        let status = Arc::new(ExportStatus::new(collector.address(), clock.clone()));
        Self {
            collector,
            signals,
            metrics_interval,
            envelope: Envelope::new(instance, &configured),
            clock,
            spans: Queue::new(MAX_WAITING_SPANS, SPAN_BATCH),
            log_records: Queue::new(MAX_WAITING_LOG_RECORDS, LOG_BATCH),
            status,
        }
    }

    /// Returns the state of the export.
    pub fn status(&self) -> Arc<ExportStatus> {
        self.status.clone()
    }

    /// Returns the collector.
    pub fn collector(&self) -> Collector {
        self.collector.clone()
    }

    /// Returns whether a signal is exported.
    pub fn exports(&self, signal: Signal) -> bool {
        self.signals.contains(&signal)
    }

    /// Queues the spans of the requests among `records` that are traced. Names of models are those of the `catalogue`.
    pub fn observe(&self, records: &[RequestRecord], catalogue: &Catalogue) {
        let traced = || records.iter().filter_map(|it| Some((it, it.trace.as_deref()?)));
        if traced().next().is_none() {
            return;
        }
        let spans = traced().flat_map(|(record, trace)| {
            let model = record.model.as_ref().and_then(|it| catalogue.find_model(it.as_str()));
            let mut content = trace.content.as_ref().and_then(|content| content.take());
            let spans = spans::of(record, trace, model.map(|model| model.id.as_str())).into_iter();
            spans.map(move |span| WaitingSpan { span, content: content.take() })
        });
        // Made before the queue is locked.
        let spans: Vec<_> = spans.collect();
        self.status.add_dropped(Signal::Traces, self.spans.push(spans));
    }

    /// Queues an event of the log.
    pub fn log(&self, event: &LogEvent) {
        let record = logs::of_event(event, self.clock.now());
        self.status.add_dropped(Signal::Logs, self.log_records.push([record]));
    }

    /// Queues the lines of these requests in the log, which have the time `at`, if the log is exported.
    pub fn log_requests(&self, records: &[&RequestRecord], at: Timestamp) {
        if self.exports(Signal::Logs) && !records.is_empty() {
            let records = logs::of_requests(records, at);
            self.status.add_dropped(Signal::Logs, self.log_records.push(records));
        }
    }

    /// Exports until `stop` is cancelled, and then what is queued, for a few seconds. The keys are in `directory`.
    pub async fn run(
        self: Arc<Self>,
        metrics: Option<CollectMetrics>,
        directory: Arc<Directory>,
        stop: CancellationToken,
    ) {
        let spans = self.export_spans(&directory, &stop);
        let log_records = self.export_log_records(&stop);
        let metrics = async {
            if let Some(metrics) = metrics {
                self.export_metrics(&metrics, &stop).await;
            }
        };
        let exporting = async { tokio::join!(spans, log_records, metrics) };
        let dropped = |signal| self.status.counts(signal).dropped;
        let ending = async {
            stop.cancelled().await;
            tokio::time::sleep(END_TIMEOUT).await;
            [Signal::Traces, Signal::Logs].map(dropped)
        };
        tokio::select! {
            _ = exporting => {}
            [spans, log_records] = ending => {
                // The exports in progress have ended and counted what they had taken.
                self.status.add_dropped(Signal::Traces, self.spans.waiting());
                self.status.add_dropped(Signal::Logs, self.log_records.waiting());
                let spans = dropped(Signal::Traces) - spans;
                let log_records = dropped(Signal::Logs) - log_records;
                tracing::warn!(event = "otlp_not_exported", spans, log_records, "the gateway stops without exporting the rest");
            }
        }
    }

    async fn export_spans(&self, directory: &Directory, stop: &CancellationToken) {
        while let Some(waiting) = self.spans.next(stop).await {
            let (spans, contents): (Vec<_>, Vec<_>) =
                waiting.into_iter().map(|it| (it.span, it.content)).unzip();
            let items = self.in_flight(Signal::Traces, spans.len());
            let texts = SpanText::of_all(contents).await;
            let export = || {
                let exported = |text: &&SpanText| {
                    directory.find_key(&text.key).is_some_and(|key| key.trace_content)
                };
                let texts = texts.iter().map(|text| text.as_ref().filter(exported));
                let texts = texts.map(|text| text.map_or(&[][..], |text| &text.attributes));
                let encoded: Vec<_> =
                    spans.iter().zip(texts).map(|(span, text)| [&**span, text]).collect();
                self.envelope.export(&encoded)
            };
            self.deliver(items, export, stop).await;
        }
    }

    async fn export_log_records(&self, stop: &CancellationToken) {
        while let Some(log_records) = self.log_records.next(stop).await {
            let items = self.in_flight(Signal::Logs, log_records.len());
            let encoded: Vec<_> = log_records.iter().map(|record| [&**record, &[]]).collect();
            let export = self.envelope.export(&encoded);
            self.deliver(items, || export.clone(), stop).await;
        }
    }

    /// Exports the metrics at each interval and once at the end. A failed export is not repeated: the next one has the
    /// counters since the start, too.
    async fn export_metrics(&self, collect: &CollectMetrics, stop: &CancellationToken) {
        let mut is_stopped = false;
        while !is_stopped {
            let pause = tokio::time::sleep(self.metrics_interval);
            is_stopped = stop.run_until_cancelled(pause).await.is_none();
            let metrics = collect().await;
            let count = metrics.iter().map(data_points).sum();
            let metrics: Vec<_> = metrics.iter().map(prost::Message::encode_to_vec).collect();
            let items = self.in_flight(Signal::Metrics, count);
            let encoded: Vec<_> = metrics.iter().map(|metric| [&**metric, &[]]).collect();
            let export = self.envelope.export(&encoded);
            match self.collector.export(Signal::Metrics, export).await {
                Ok(refused) => items.delivered(&refused),
                Err(error) => self.status.record_failure(Signal::Metrics, &error),
            }
        }
    }

    /// Counts items that have left their queue.
    fn in_flight(&self, signal: Signal, count: usize) -> ItemsInFlight<'_> {
        ItemsInFlight { status: &self.status, signal, count }
    }

    /// Exports `items`, and repeats that as long as it may help and the gateway does not stop. Before each attempt,
    /// `export` encodes them, without what may not be exported any more.
    async fn deliver(
        &self,
        items: ItemsInFlight<'_>,
        export: impl Fn() -> Bytes,
        stop: &CancellationToken,
    ) {
        let signal = items.signal;
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match self.collector.export(signal, export()).await {
                Ok(refused) => return items.delivered(&refused),
                Err(error) => error,
            };
            self.status.record_failure(signal, &error);
            if !error.is_retryable() || stop.is_cancelled() {
                return;
            }
            let wait = error.retry_after().map_or(pause, |wait| wait.clamp(pause, MAX_PAUSE));
            _ = stop.run_until_cancelled(tokio::time::sleep(wait)).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }
}

/// Items that are being exported. They count as dropped if the export ends without having delivered them, also when it
/// is cancelled.
struct ItemsInFlight<'a> {
    status: &'a ExportStatus,
    signal: Signal,
    count: usize,
}

impl ItemsInFlight<'_> {
    /// Records that the collector has answered, and refused some of them.
    fn delivered(mut self, refused: &Refused) {
        let count = std::mem::take(&mut self.count);
        self.status.record_success(self.signal, count, refused);
    }
}

impl Drop for ItemsInFlight<'_> {
    fn drop(&mut self) {
        self.status.add_dropped(self.signal, self.count);
    }
}

/// Returns the number of data points of a metric.
fn data_points(metric: &Metric) -> usize {
    match &metric.data {
        Some(Data::Gauge(gauge)) => gauge.data_points.len(),
        Some(Data::Sum(sum)) => sum.data_points.len(),
        Some(Data::Histogram(histogram)) => histogram.data_points.len(),
        Some(Data::ExponentialHistogram(_) | Data::Summary(_)) | None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::collector::Protocol;
    use super::*;
    use crate::clock::SystemClock;
    use crate::telemetry::LogLevel;

    fn exporter(address: &str) -> Exporter {
        let (address, headers) = (address.parse().unwrap(), http::HeaderMap::new());
        let collector = Collector::new(address, Protocol::HttpProtobuf, headers, None).unwrap();
        Exporter::new(Settings {
            collector,
            signals: vec![Signal::Logs],
            metrics_interval: Duration::from_secs(1),
            resource: Vec::new(),
            instance: Uuid::nil(),
            clock: Arc::new(SystemClock::new()),
        })
    }

    fn directory() -> Arc<Directory> {
        Arc::new(Directory::new(store::Snapshot::default()))
    }

    fn log(exporter: &Exporter, events: usize) {
        for _ in 0..events {
            exporter.log(&LogEvent {
                level: LogLevel::Info,
                name: "request".to_owned(),
                message: "request".to_owned(),
                fields: Vec::new(),
            });
        }
    }

    /// Regression test: neither the batch that was being exported nor what waited behind it was counted.
    #[tokio::test(start_paused = true)]
    async fn what_a_stop_leaves_unexported_is_counted_with_the_batch_in_flight() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let exporter = Arc::new(exporter(&format!("http://{}", silent.local_addr().unwrap())));
        log(&exporter, LOG_BATCH + 10);
        let stop = CancellationToken::new();
        stop.cancel();
        exporter.clone().run(None, directory(), stop).await;
        let counts = exporter.status().counts(Signal::Logs);
        assert_eq!((counts.exported, counts.dropped), (0, LOG_BATCH as u64 + 10));
    }

    #[tokio::test]
    async fn what_exceeds_a_queue_is_dropped_and_counted() {
        let exporter = exporter("http://127.0.0.1:1");
        log(&exporter, MAX_WAITING_LOG_RECORDS + 10);
        assert_eq!(exporter.status().counts(Signal::Logs).dropped, 10);
        // A collector that does not exist ends neither the process nor a stop.
        let stop = CancellationToken::new();
        stop.cancel();
        let exporter = Arc::new(exporter);
        exporter.clone().run(None, directory(), stop).await;
        let counts = exporter.status().counts(Signal::Logs);
        assert_eq!((counts.exported, counts.dropped), (0, MAX_WAITING_LOG_RECORDS as u64 + 10));
    }
}
