//! Tracks the requests of a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The requests of one connection. Only counters, so nothing else depends on their memory ordering.
#[derive(Debug, Default)]
pub struct Activity {
    started: AtomicU64,
    ended: AtomicU64,
    is_multiplexed: AtomicBool,
    /// The bytes that were read in the current poll of the connection.
    read_in_poll: AtomicUsize,
    /// Whether the newest request has a large body of known length.
    has_large_body: AtomicBool,
    /// Whether the connection is to check whether its client has hung up.
    must_check_hang_up: AtomicBool,
}

/// A request in progress. Dropping it ends the request.
#[derive(Debug)]
pub struct ActivityGuard(Arc<Activity>);

impl Activity {
    /// Counts a request that is in progress until the guard is dropped.
    pub fn begin(self: &Arc<Self>) -> ActivityGuard {
        self.started.fetch_add(1, Ordering::Relaxed);
        ActivityGuard(self.clone())
    }

    /// Records that the connection is multiplexed.
    pub fn set_multiplexed(&self) {
        self.is_multiplexed.store(true, Ordering::Relaxed);
    }

    /// Returns whether the connection is known to be multiplexed.
    pub fn is_multiplexed(&self) -> bool {
        self.is_multiplexed.load(Ordering::Relaxed)
    }

    /// Records that a poll of the connection begins.
    pub fn begin_poll(&self) {
        self.read_in_poll.store(0, Ordering::Relaxed);
    }

    /// Counts bytes that were read.
    pub fn count_read(&self, bytes: usize) {
        self.read_in_poll.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the number of bytes that were read in the current poll of the connection.
    pub fn read_in_poll(&self) -> usize {
        self.read_in_poll.load(Ordering::Relaxed)
    }

    /// Records whether the newest request has a large body of known length.
    pub fn set_large_body(&self, has_large_body: bool) {
        self.has_large_body.store(has_large_body, Ordering::Relaxed);
    }

    /// Returns whether the newest request has a large body of known length.
    pub fn has_large_body(&self) -> bool {
        self.has_large_body.load(Ordering::Relaxed)
    }

    /// Has the connection check with its next flush whether its client has hung up.
    pub fn check_hang_up(&self) {
        self.must_check_hang_up.store(true, Ordering::Relaxed);
    }

    /// Returns whether such a check is due, once for each call of [`check_hang_up`](Self::check_hang_up).
    pub fn take_hang_up_check(&self) -> bool {
        self.must_check_hang_up.load(Ordering::Relaxed)
            && self.must_check_hang_up.swap(false, Ordering::Relaxed)
    }

    /// Returns whether a request has arrived.
    pub fn has_begun(&self) -> bool {
        self.started() > 0
    }

    /// Returns the number of requests that have arrived.
    pub fn started(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    /// Returns whether no request is in progress.
    pub fn is_idle(&self) -> bool {
        self.ended.load(Ordering::Relaxed) == self.started()
    }
}

impl Drop for ActivityGuard {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}
