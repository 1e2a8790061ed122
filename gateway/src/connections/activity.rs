//! Whether a connection is used.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The requests of one connection. Only counts, so that nothing else depends on their memory ordering.
#[derive(Debug, Default)]
pub struct Activity {
    started: AtomicU64,
    ended: AtomicU64,
    is_multiplexed: AtomicBool,
}

/// A request under way. Dropping it ends the request.
#[derive(Debug)]
pub struct ActivityGuard(Arc<Activity>);

impl Activity {
    /// Notes that a request has come; it is under way until the guard is dropped.
    pub fn begin(self: &Arc<Self>) -> ActivityGuard {
        self.started.fetch_add(1, Ordering::Relaxed);
        ActivityGuard(self.clone())
    }

    /// Notes that the connection carries several requests at a time.
    pub fn set_multiplexed(&self) {
        self.is_multiplexed.store(true, Ordering::Relaxed);
    }

    /// Whether the connection carries several requests at a time, as far as is known.
    pub fn is_multiplexed(&self) -> bool {
        self.is_multiplexed.load(Ordering::Relaxed)
    }

    /// Whether any request has come.
    pub fn has_begun(&self) -> bool {
        self.started() > 0
    }

    /// Returns how many requests have come.
    pub fn started(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    /// Whether no request is under way.
    pub fn is_idle(&self) -> bool {
        self.ended.load(Ordering::Relaxed) == self.started()
    }
}

impl Drop for ActivityGuard {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}
