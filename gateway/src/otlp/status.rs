//! What became of the exports: counts, and the last error.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

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

    /// Records an export of `count` items, of which the collector refused some.
    pub(super) fn record_success(&self, signal: Signal, count: usize, refused: usize) {
        let status = self.signal(signal);
        status.exported.fetch_add(count.saturating_sub(refused) as u64, Ordering::Relaxed);
        self.add_dropped(signal, refused);
        let mut health = status.health();
        health.last_success = Some(self.clock.now());
        if std::mem::take(&mut health.is_failing) {
            drop(health);
            let signal = signal.as_str();
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
