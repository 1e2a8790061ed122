//! The part of a shared pool that this gateway has, and the queue of pools whose part is too small.
//!
//! Requests use what is in memory and never wait for the store themselves. One that lacks something adds the pool
//! to [`Shortages`] and tries again; `fleet::allocator` moves amounts between the store and the pools in the queue.

use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use domain::allocation::{Allocation, AllocationRequest, Pool};

/// The part of a shared pool that is in memory.
pub trait LocalPool: Send + Sync {
    /// Returns what this gateway lacks, and forgets it; `None` if the pool no longer exists.
    fn take_request(&self) -> Option<AllocationRequest>;
    /// Adds what was granted, and changes to `phase`.
    fn add(&self, allocation: Allocation, phase: PoolPhase);
    /// Lets requests ask for more again after the pool was exhausted.
    fn reopen(&self);
    /// Removes what no request needs at the monotonic time `now`, and returns the amount: if another gateway lacks
    /// `needed`, a part of it, and otherwise what is not likely to be needed soon.
    fn take_unused(&self, needed: Option<i64>, now: Duration) -> i64;
    /// Reduces the part at the monotonic time `now` to what requests use, because the store may have lost what it had
    /// granted. Returns the change that the store must make.
    fn reduce_to_used(&self, now: Duration) -> Correction;
    /// Returns a number that changes with the use of the pool.
    fn activity(&self, now: Duration) -> u64;
    /// Returns whether this gateway has nothing of the pool.
    fn is_empty(&self) -> bool;
}

/// A change of what the store has allocated to this gateway, in units of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Correction {
    /// This amount is given back. The store subtracts what was used with the records.
    GiveBack(i64),
    /// The allocation becomes this amount, which requests use, even if the pool no longer has it.
    Set(i64),
}

/// Whether more of a pool can be requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PoolPhase {
    /// More can be requested.
    Open,
    /// More was requested.
    Requested,
    /// No more can be obtained for now, so that requests are decided by what there is.
    Exhausted,
}

/// The pools of which this gateway lacks something.
#[derive(Default)]
pub struct Shortages {
    queue: Mutex<Vec<Arc<dyn LocalPool>>>,
    added: Notify,
}

/// What requests know about the rest of a shared pool. All amounts are in units of the pool.
#[derive(Debug)]
pub(crate) struct PoolState {
    phase: AtomicU8,
    needed: AtomicI64,
    /// The amount that was available in the store after the last allocation.
    available: AtomicI64,
    /// The amount that other gateways had at the last allocation.
    elsewhere: AtomicI64,
    /// The local amount below which more is requested ahead of need.
    low_water: AtomicI64,
}

const OPEN: u8 = PoolPhase::Open as u8;
const REQUESTED: u8 = PoolPhase::Requested as u8;
const EXHAUSTED: u8 = PoolPhase::Exhausted as u8;

// === impl Shortages ===

impl fmt::Debug for Shortages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shortages").finish_non_exhaustive()
    }
}

impl Shortages {
    /// Adds a pool. It must not be in the queue: see [`PoolState::request`].
    pub(crate) fn push(&self, pool: Arc<dyn LocalPool>) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push(pool);
        self.added.notify_one();
    }

    /// Waits for pools and takes all of them.
    pub(crate) async fn take(&self) -> Vec<Arc<dyn LocalPool>> {
        loop {
            let added = self.added.notified();
            let taken =
                std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner));
            if !taken.is_empty() {
                return taken;
            }
            added.await;
        }
    }
}

// === impl PoolState ===

impl Default for PoolState {
    fn default() -> Self {
        let zero = || AtomicI64::new(0);
        Self {
            phase: AtomicU8::new(OPEN),
            needed: zero(),
            available: zero(),
            elsewhere: zero(),
            low_water: zero(),
        }
    }
}

impl PoolState {
    /// Records that a request lacks `needed`. Returns `None` if no more can be obtained for now, and otherwise
    /// whether the pool must be added to the queue.
    pub(crate) fn request(&self, needed: i64) -> Option<bool> {
        if self.phase.load(Ordering::Relaxed) == EXHAUSTED {
            return None;
        }
        self.needed.fetch_max(needed, Ordering::Relaxed);
        Some(self.enter_queue())
    }

    /// Returns whether the pool must be added to the queue because only `unused` is left, although no request
    /// lacks anything.
    pub(crate) fn request_ahead(&self, unused: i64) -> bool {
        unused < self.low_water.load(Ordering::Relaxed) && self.enter_queue()
    }

    /// Returns the request for `pool`, and forgets what is needed.
    pub(crate) fn take_request(&self, pool: Pool, limit: Option<i64>) -> AllocationRequest {
        AllocationRequest { pool, limit, needed: self.needed.swap(0, Ordering::Relaxed) }
    }

    /// Records an allocation after which `unused` is in memory.
    pub(crate) fn add(&self, allocation: Allocation, unused: i64, phase: PoolPhase) {
        self.available.store(allocation.available, Ordering::Relaxed);
        self.elsewhere.store(allocation.elsewhere, Ordering::Relaxed);
        // Without anything to obtain, asking ahead would be in vain.
        let low_water = if allocation.available > 0 { unused / 2 } else { 0 };
        self.low_water.store(low_water, Ordering::Relaxed);
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// Lets requests ask for more again.
    pub(crate) fn reopen(&self) {
        _ = self.phase.compare_exchange(EXHAUSTED, OPEN, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns whether more may be obtained.
    pub(crate) fn is_open(&self) -> bool {
        self.phase.load(Ordering::Relaxed) != EXHAUSTED
    }

    /// Returns what the pool had outside of this gateway at the last allocation.
    pub(crate) fn outside(&self) -> i64 {
        self.available().saturating_add(self.elsewhere.load(Ordering::Relaxed))
    }

    /// Returns what was available in the store after the last allocation.
    pub(crate) fn available(&self) -> i64 {
        self.available.load(Ordering::Relaxed)
    }

    fn enter_queue(&self) -> bool {
        self.phase.compare_exchange(OPEN, REQUESTED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}
