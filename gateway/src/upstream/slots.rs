//! The bound on the connections to an upstream.
//!
//! A request takes a slot before it takes or opens a connection, and has it until its answer has ended; then a request
//! that waits gets it. A connection that is idle in the pool of one worker is closed if another worker would exceed the
//! bound.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::error::UpstreamError;
use super::pool::Idle;
use super::wait_queue::{Ticket, WaitQueue};
use domain::id::{AccountId, UpstreamName};
use domain::upstream::{ConnectionBound, Upstream};

/// The slots of all upstreams with a bound, which all workers share. They outlive changes of a catalogue entry that
/// leave its bound as it is.
#[derive(Default)]
pub struct SlotsTable(Mutex<BTreeMap<(UpstreamName, ConnectionBound), Weak<Slots>>>);

/// The slots of one upstream.
pub(super) struct Slots {
    state: Mutex<SlotsState>,
    /// The idle connections of each worker.
    pools: Mutex<Vec<Weak<Idle>>>,
}

/// Invariant: no request waits while a slot is free.
struct SlotsState {
    free: usize,
    queue: WaitQueue<oneshot::Sender<Slot>>,
}

/// A slot that is in use. Dropping it passes it to a request that waits, or frees it.
pub(super) struct Slot(Arc<Slots>);

/// A place in the queue. Dropping it frees the place.
struct WaitingPlace<'a> {
    slots: &'a Slots,
    account: Option<AccountId>,
    ticket: Ticket,
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
}

// === impl Slots ===

impl Slots {
    fn new(bound: ConnectionBound) -> Self {
        let queue = WaitQueue::new(bound.max_waiting as usize);
        let state = Mutex::new(SlotsState { free: bound.max_connections as usize, queue });
        Self { state, pools: Mutex::default() }
    }

    /// Adds the idle connections of a worker.
    pub(super) fn add_pool(&self, idle: &Arc<Idle>) {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(idle));
    }

    /// Takes a slot for a request of `account`. Waits for at most `max_wait`.
    ///
    /// # Errors
    /// [`UpstreamError::Overloaded`] if it got none in time, or had to leave its place to a request of an account with
    /// fewer.
    pub(super) async fn take(
        self: &Arc<Self>,
        account: Option<AccountId>,
        max_wait: Duration,
    ) -> Result<Slot, UpstreamError> {
        let (ticket, receiver) = {
            let mut state = self.state();
            if let Some(free) = state.free.checked_sub(1) {
                state.free = free;
                return Ok(Slot(self.clone()));
            }
            let (sender, receiver) = oneshot::channel();
            let ticket = state.queue.push(account, sender).ok_or(UpstreamError::Overloaded)?;
            (ticket, receiver)
        };
        let _place = WaitingPlace { slots: self, account, ticket };
        // Boxed because it is rare: the future of every request would have to hold it.
        match Box::pin(timeout(max_wait, receiver)).await {
            Ok(Ok(slot)) => Ok(slot),
            Ok(Err(_)) | Err(_) => Err(UpstreamError::Overloaded),
        }
    }

    fn state(&self) -> MutexGuard<'_, SlotsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes idle connections until one can be opened for a slot that is in use. Connections that are in use are
    /// counted by their slots, so that none is missed while it moves to a pool or from it.
    pub(super) fn make_room(&self) {
        let pools: Vec<_> = {
            let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
            pools.iter().filter_map(Weak::upgrade).collect()
        };
        let idle: usize = pools.iter().map(|pool| pool.count()).sum();
        let mut excess = idle.saturating_sub(self.state().free);
        for pool in pools {
            while excess > 0 && pool.drop_oldest() {
                excess -= 1;
            }
        }
    }
}

// === impl Slot ===

impl Drop for Slot {
    fn drop(&mut self) {
        let next = {
            let mut state = self.0.state();
            let next = state.queue.pop();
            state.free += usize::from(next.is_none());
            next
        };
        if let Some(next) = next {
            // If the request has just left, the slot comes back and is dropped again.
            _ = next.send(Self(self.0.clone()));
        }
    }
}

// === impl WaitingPlace ===

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        self.slots.state().queue.remove(self.account, self.ticket);
    }
}
