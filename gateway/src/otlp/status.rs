//! What became of the exports: counts, and the last error.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::collector::Refused;
use super::{ExportError, Signal};
use crate::clock::Clock;

/// The state of the export to one collector.
pub struct ExportStatus {
    /// The address of the collector.
    address: String,
    clock: Arc<dyn Clock>,
    /// In the order of [`Signal::ALL`].
    signals: [SignalStatus; Signal::ALL.len()],
}

#[derive(Default)]
struct SignalStatus {
    exported: AtomicU64,
    dropped: AtomicU64,
    failures: AtomicU64,
    health: Mutex<SignalHealth>,
}

/// The counts of a signal since the start: spans, data points or log records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalCounts {
    /// What the collector has accepted.
    pub exported: u64,
    /// What there was no room for, or the collector refused.
    pub dropped: u64,
    /// Exports that failed, including those that were repeated.
    pub failures: u64,
}

/// Whether the exports of a signal work.
#[derive(Clone, Debug, Default)]
pub struct SignalHealth {
    /// The time of the last export that was accepted.
    pub last_success: Option<Timestamp>,
    /// The last error, and its time.
    pub last_error: Option<(Timestamp, String)>,
    /// Whether the last export failed.
    pub is_failing: bool,
    /// Whether the collector refused a part of the last export that it accepted.
    pub is_refused_in_part: bool,
}

impl ExportStatus {
    pub(super) fn new(address: String, clock: Arc<dyn Clock>) -> Self {
        Self { address, clock, signals: Default::default() }
    }

    /// Returns the address of the collector.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the counts of a signal.
    pub fn counts(&self, signal: Signal) -> SignalCounts {
        let SignalStatus { exported, dropped, failures, .. } = self.signal(signal);
        let [exported, dropped, failures] =
            [exported, dropped, failures].map(|count| count.load(Ordering::Relaxed));
        SignalCounts { exported, dropped, failures }
    }

    /// Returns whether the exports of a signal work.
    pub fn health(&self, signal: Signal) -> SignalHealth {
        self.signal(signal).health().clone()
    }

    /// Counts what was dropped.
    pub(super) fn add_dropped(&self, signal: Signal, count: usize) {
        self.signal(signal).dropped.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Records an export of `count` items, of which the collector refused some. Of refusals in a row, the first one is
    /// logged: that event is exported itself, and would be refused and logged again without end.
    pub(super) fn record_success(&self, signal: Signal, count: usize, refused: &Refused) {
        let Refused { count: refused, message } = refused;
        let status = self.signal(signal);
        status.exported.fetch_add(count.saturating_sub(*refused) as u64, Ordering::Relaxed);
        self.add_dropped(signal, *refused);
        let mut health = status.health();
        health.last_success = Some(self.clock.now());
        let has_recovered = std::mem::take(&mut health.is_failing);
        let was_refused = std::mem::replace(&mut health.is_refused_in_part, *refused > 0);
        drop(health);
        let signal = signal.as_str();
        if *refused > 0 && !was_refused {
            tracing::warn!(
                event = "otlp_refused",
                signal,
                refused,
                message,
                "the collector refused a part of an export; further refusals are only counted"
            );
        }
        if has_recovered {
            tracing::info!(
                event = "otlp_export_recovered",
                signal,
                "the collector accepts telemetry again"
            );
        }
    }

    /// Records an export that failed.
    pub(super) fn record_failure(&self, signal: Signal, error: &ExportError) {
        let status = self.signal(signal);
        status.failures.fetch_add(1, Ordering::Relaxed);
        let mut health = status.health();
        health.last_error = Some((self.clock.now(), error.to_string()));
        if !std::mem::replace(&mut health.is_failing, true) {
            drop(health);
            let signal = signal.as_str();
            tracing::warn!(event = "otlp_export_failing", signal, collector = self.address, %error, "the collector does not accept telemetry; what exceeds the queue is dropped");
        }
    }

    fn signal(&self, signal: Signal) -> &SignalStatus {
        &self.signals[signal as usize]
    }
}

impl SignalStatus {
    fn health(&self) -> MutexGuard<'_, SignalHealth> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;
    use crate::clock::SystemClock;
    use crate::telemetry::LogEvents;

    #[test]
    fn of_refusals_in_a_row_the_first_is_logged() {
        let events = LogEvents::default();
        let names = Arc::<Mutex<Vec<String>>>::default();
        let sink = names.clone();
        events.connect(move |event| sink.lock().unwrap().push(event.name));
        let status = ExportStatus::new(String::new(), Arc::new(SystemClock::new()));
        let record = |refused| {
            let refused = Refused { count: refused, message: "too old".to_owned() };
            status.record_success(Signal::Logs, 5, &refused);
            std::mem::take(&mut *names.lock().unwrap())
        };
        tracing::subscriber::with_default(tracing_subscriber::registry().with(events), || {
            assert_eq!(record(2), ["otlp_refused"]);
            assert!(record(5).is_empty() && record(1).is_empty() && record(0).is_empty());
            assert_eq!(record(1), ["otlp_refused"]);
        });
        let expected = SignalCounts { exported: 16, dropped: 9, failures: 0 };
        assert_eq!(status.counts(Signal::Logs), expected);
    }
}
