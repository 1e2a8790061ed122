//! Wakes the tasks of all connections and requests at once, for a shutdown or a cancellation.
//!
//! A task registers once and then pays one atomic load per poll. What it is woken for is stored elsewhere, before the
//! wake-up.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tokio::task::coop::{Unconstrained, unconstrained};

/// Wakes all tasks that watch it, again and again.
#[derive(Debug, Default)]
pub struct Broadcast {
    /// The number of wake-ups; checked with each poll.
    version: AtomicU64,
    /// Notified by the next wake-up, and then replaced: a waiter that is not woken needs not register again.
    next: Mutex<Arc<Notify>>,
}

/// Wakes a task with each wake-up of a [`Broadcast`]. It must always be polled with the same waker, which is registered
/// once for each wake-up: registering takes a lock that all workers share. It has no cooperative budget, because the
/// waker of a task whose budget is used up would not be registered.
pub struct BroadcastWatch {
    broadcast: Arc<Broadcast>,
    /// The last version that was returned.
    seen: u64,
    /// The registration for the wake-up after `seen`.
    next: Option<Pin<Box<Unconstrained<OwnedNotified>>>>,
}

// === impl Broadcast ===

impl Broadcast {
    /// Wakes all watching tasks. What they are to see must be stored before.
    pub fn wake(&self) {
        let waiting = {
            let mut next = self.lock();
            self.version.fetch_add(1, Ordering::Release);
            std::mem::take(&mut *next)
        };
        waiting.notify_waiters();
    }

    /// Watches the broadcast. The watch is ready at once if there was a wake-up before.
    pub fn watch(self: &Arc<Self>) -> BroadcastWatch {
        BroadcastWatch { broadcast: self.clone(), seen: 0, next: None }
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Notify>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl BroadcastWatch ===

impl BroadcastWatch {
    /// Ready once for all wake-ups since the last time.
    pub fn poll_woken(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let version = self.broadcast.version();
            if version != self.seen {
                self.seen = version;
                self.next = None;
                return Poll::Ready(());
            }
            if self.next.is_some() {
                return Poll::Pending;
            }
            let next = self.broadcast.lock().clone();
            let mut next = Box::pin(unconstrained(next.notified_owned()));
            // The version is read again, because the wake-up may have been before the registration.
            _ = next.as_mut().poll(context);
            self.next = Some(next);
        }
    }
}
