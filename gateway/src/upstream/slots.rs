//! The bound on the connections to an upstream.
//!
//! A request takes a slot before it takes or opens a connection, and has it until its answer has ended. A
//! connection that is idle in the pool of one worker is closed if another worker would exceed the bound.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::error::UpstreamError;
use super::pool::Idle;
use domain::id::UpstreamName;
use domain::upstream::{ConnectionBound, Upstream};

/// The slots of all upstreams with a bound, which all workers share. They outlive changes of a catalogue entry that
/// leave its bound as it is.
#[derive(Default)]
pub struct SlotsTable(Mutex<BTreeMap<(UpstreamName, ConnectionBound), Weak<Slots>>>);

/// The slots of one upstream.
pub(super) struct Slots {
    free: Semaphore,
    places_to_wait: Semaphore,
    /// The idle connections of each worker.
    pools: Mutex<Vec<Weak<Idle>>>,
}

/// A slot that is in use. Dropping it frees it.
pub(super) struct Slot(Arc<Slots>);

// === impl SlotsTable ===

impl SlotsTable {
    /// Returns the slots of `upstream`; `None` if it has no bound.
    pub(super) fn find(&self, upstream: &Upstream) -> Option<Arc<Slots>> {
        let bound = upstream.connection_bound?;
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.retain(|_, slots| slots.strong_count() > 0);
        let entry = table.entry((upstream.name.clone(), bound)).or_default();
        let slots = entry.upgrade().unwrap_or_else(|| Arc::new(Slots::new(bound)));
        *entry = Arc::downgrade(&slots);
        Some(slots)
    }
}

// === impl Slots ===

impl Slots {
    fn new(bound: ConnectionBound) -> Self {
        Self {
            free: Semaphore::new(bound.max_connections as usize),
            places_to_wait: Semaphore::new(bound.max_waiting as usize),
            pools: Mutex::default(),
        }
    }

    /// Adds the idle connections of a worker.
    pub(super) fn add_pool(&self, idle: &Arc<Idle>) {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(idle));
    }

    /// Takes a slot; waits for one up to `longest_wait`.
    ///
    /// # Errors
    /// [`UpstreamError::Overloaded`] if none became free, or too many requests wait already.
    pub(super) async fn take(
        self: &Arc<Self>,
        longest_wait: Duration,
    ) -> Result<Slot, UpstreamError> {
        if let Ok(permit) = self.free.try_acquire() {
            permit.forget();
            return Ok(Slot(self.clone()));
        }
        let _place = self.places_to_wait.try_acquire().map_err(|_| UpstreamError::Overloaded)?;
        // Boxed because it is rare: the future of every request would have to hold it.
        match Box::pin(timeout(longest_wait, self.free.acquire())).await {
            Ok(Ok(permit)) => permit.forget(),
            Ok(Err(_)) | Err(_) => return Err(UpstreamError::Overloaded),
        }
        Ok(Slot(self.clone()))
    }

    /// Closes idle connections until one can be opened for a slot that is in use. Connections that are in use are
    /// counted by their slots, so that none is missed while it moves to a pool or from it.
    pub(super) fn make_room(&self) {
        let pools: Vec<_> = {
            let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
            pools.iter().filter_map(Weak::upgrade).collect()
        };
        let idle: usize = pools.iter().map(|pool| pool.count()).sum();
        let mut excess = idle.saturating_sub(self.free.available_permits());
        for pool in pools {
            while excess > 0 && pool.drop_oldest() {
                excess -= 1;
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.free.add_permits(1);
    }
}
