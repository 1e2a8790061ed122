//! The connections to one upstream, of all workers together: how many there are, and how long it took to open them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::pool::Idle;
use domain::histogram::Histogram;

/// The bounds for the times to open a connection, in seconds.
const CONNECTS: &[f64] = &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// The statistics. They begin anew when the catalogue entry changes; connections of the former entry count until then.
pub(super) struct PoolStats {
    open: AtomicUsize,
    /// The idle connections of each worker.
    pools: Mutex<Vec<Weak<Idle>>>,
    /// The times to open a connection, in seconds. Locked once for each connection.
    connects: Mutex<Histogram>,
}

/// An open connection, which is counted until this is dropped.
pub(super) struct OpenConnection(Arc<PoolStats>);

/// The connections to one upstream.
#[derive(Clone, Debug)]
pub struct PoolStatus {
    /// Those that wait for a request.
    pub idle: usize,
    /// Those that have a request, and the ones of HTTP/2.
    pub in_use: usize,
    /// The times that it took to open one, with TLS and through a proxy, in seconds. Failures are not counted.
    pub connects: Histogram,
}

// === impl PoolStats ===

impl Default for PoolStats {
    fn default() -> Self {
        let connects = Mutex::new(Histogram::new(CONNECTS));
        Self { open: AtomicUsize::new(0), pools: Mutex::default(), connects }
    }
}

impl PoolStats {
    /// Adds the idle connections of a worker.
    pub(super) fn add_pool(&self, idle: &Arc<Idle>) {
        let mut pools = lock(&self.pools);
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(idle));
    }

    /// Counts a connection that was opened in `elapsed`.
    pub(super) fn record_opened(self: &Arc<Self>, elapsed: Duration) -> OpenConnection {
        lock(&self.connects).observe(elapsed.as_secs_f64());
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenConnection(self.clone())
    }

    /// Returns the connections.
    pub(super) fn status(&self) -> PoolStatus {
        let pools: Vec<_> = lock(&self.pools).iter().filter_map(Weak::upgrade).collect();
        let idle = pools.iter().map(|pool| pool.count()).sum();
        let in_use = self.open.load(Ordering::Relaxed).saturating_sub(idle);
        PoolStatus { idle, in_use, connects: lock(&self.connects).clone() }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
