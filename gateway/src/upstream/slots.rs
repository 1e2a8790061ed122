//! The bound on the connections to an upstream.
//!
//! A request takes a slot before it takes or opens a connection, and has it until its answer has ended; then a request
//! that waits gets it. A connection that is idle in the pool of one worker is closed if another worker would exceed the
//! bound.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::error::UpstreamError;
use super::outbound::SendStatus;
use super::pool::Idle;
use crate::fair_semaphore::{FairPermit, FairSemaphore};
use domain::histogram::Histogram;
use domain::id::{AccountId, UpstreamName};
use domain::upstream::{ConnectionBound, Upstream};

/// The bounds for the waits of requests, in seconds, up to half an hour.
const WAITS: &[f64] =
    &[0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_200.0, 1_800.0];

/// The slots of all upstreams with a bound, which all workers share. They outlive changes of a catalogue entry that
/// leave its bound as it is.
#[derive(Default)]
pub struct SlotsTable(Mutex<BTreeMap<(UpstreamName, ConnectionBound), Weak<Slots>>>);

/// The slots of one upstream.
pub(super) struct Slots {
    connections: Arc<FairSemaphore>,
    /// The waits that have ended, in seconds.
    waits: Mutex<Histogram>,
    /// The idle connections of each worker.
    pools: Mutex<Vec<Weak<Idle>>>,
}

/// The requests that wait for a connection to an upstream.
#[derive(Clone, Debug)]
pub struct QueueStatus {
    /// The number of requests that wait.
    pub waiting: usize,
    /// The waits that have ended, in seconds.
    pub waits: Histogram,
}

/// A slot that is in use. Dropping it passes it to a request that waits, or frees it.
pub(super) struct Slot {
    _permit: FairPermit,
    /// Keeps the slots in the table while one of them is in use.
    _slots: Arc<Slots>,
}

/// The wait of a request. Dropping it ends the wait.
struct Wait<'a> {
    slots: &'a Slots,
    since: Instant,
}

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

    /// Returns the requests that wait for a connection to `upstream`; `None` if its connections are not bounded or
    /// none was needed yet.
    pub fn queue(&self, upstream: &Upstream) -> Option<QueueStatus> {
        let key = (upstream.name.clone(), upstream.connection_bound?);
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let slots = table.get(&key)?.upgrade()?;
        drop(table);
        let waits = slots.waits().clone();
        Some(QueueStatus { waiting: slots.connections.waiting(), waits })
    }
}

// === impl Slots ===

impl Slots {
    fn new(bound: ConnectionBound) -> Self {
        let ConnectionBound { max_connections, max_waiting } = bound;
        let connections = FairSemaphore::new(max_connections as usize, max_waiting as usize);
        Self { connections, waits: Mutex::new(Histogram::new(WAITS)), pools: Mutex::default() }
    }

    /// Adds the idle connections of a worker.
    pub(super) fn add_pool(&self, idle: &Arc<Idle>) {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(idle));
    }

    /// Takes a slot for a request of `account`. Waits for at most `max_wait`, which `send_status` records.
    ///
    /// # Errors
    /// [`UpstreamError::Overloaded`] if it got none in time, or had to leave its place to a request of an account with
    /// fewer.
    pub(super) async fn take(
        self: &Arc<Self>,
        account: Option<AccountId>,
        max_wait: Duration,
        send_status: &SendStatus,
    ) -> Result<Slot, UpstreamError> {
        if let Some(permit) = self.connections.try_acquire() {
            return Ok(self.slot(permit));
        }
        let waiting = self.connections.enqueue(account).map_err(|_| UpstreamError::Overloaded)?;
        let wait = Wait { slots: self, since: Instant::now() };
        // Boxed because it is rare: the future of every request would have to hold it.
        let waited = Box::pin(timeout(max_wait, waiting)).await;
        send_status.set_queued(wait.since.elapsed());
        match waited {
            Ok(Ok(permit)) => Ok(self.slot(permit)),
            Ok(Err(_)) | Err(_) => Err(UpstreamError::Overloaded),
        }
    }

    fn slot(self: &Arc<Self>, permit: FairPermit) -> Slot {
        Slot { _permit: permit, _slots: self.clone() }
    }

    fn waits(&self) -> MutexGuard<'_, Histogram> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes idle connections until one can be opened for a slot that is in use. Connections that are in use are
    /// counted by their slots, so that none is missed while it moves to a pool or from it.
    pub(super) fn make_room(&self) {
        let pools: Vec<_> = {
            let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
            pools.iter().filter_map(Weak::upgrade).collect()
        };
        let idle: usize = pools.iter().map(|pool| pool.count()).sum();
        let mut excess = idle.saturating_sub(self.connections.available_permits());
        for pool in pools {
            while excess > 0 && pool.drop_oldest() {
                excess -= 1;
            }
        }
    }
}

// === impl Wait ===

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.slots.waits().observe(self.since.elapsed().as_secs_f64());
    }
}
