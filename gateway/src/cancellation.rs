//! Cancels single requests in progress by their id.
//!
//! A request checks whether it is cancelled when it is polled, which costs one atomic load while none is. A
//! [`Broadcast`] wakes all of them, because a list of requests with their wakers would cost each of them more than
//! the rare wake-up of all.

use std::collections::HashSet;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::broadcast::Broadcast;
use domain::id::RequestId;

/// The requests that are to end now.
#[derive(Debug)]
pub struct Cancellations {
    ids: Mutex<HashSet<RequestId>>,
    /// The number of `ids`, to be read without the lock.
    count: AtomicUsize,
    broadcast: Arc<Broadcast>,
}

/// Cancels a request while it exists.
#[must_use]
pub struct Cancelling {
    cancellations: Arc<Cancellations>,
    id: RequestId,
}

// === impl Cancellations ===

impl Cancellations {
    /// Creates an empty set, whose requests are woken by `broadcast`.
    pub fn new(broadcast: Arc<Broadcast>) -> Self {
        Self { ids: Mutex::default(), count: AtomicUsize::new(0), broadcast }
    }

    /// Cancels a request for as long as the result exists.
    pub fn cancel(self: &Arc<Self>, id: RequestId) -> Cancelling {
        self.change(|ids| _ = ids.insert(id));
        self.broadcast.wake();
        Cancelling { cancellations: self.clone(), id }
    }

    /// Returns whether a request is cancelled. It must be asked with each poll of the request's task, and the task must
    /// watch the broadcast.
    pub fn is_cancelled(&self, id: RequestId) -> bool {
        self.count.load(Ordering::Acquire) > 0 && self.lock().contains(&id)
    }

    /// Waits until a request is cancelled.
    pub async fn cancelled(&self, id: RequestId) {
        let mut watch = self.broadcast.watch();
        while !self.is_cancelled(id) {
            poll_fn(|context| watch.poll_woken(context)).await;
        }
    }

    fn change(&self, change: impl FnOnce(&mut HashSet<RequestId>)) {
        let mut ids = self.lock();
        change(&mut ids);
        self.count.store(ids.len(), Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Cancelling {
    fn drop(&mut self) {
        self.cancellations.change(|ids| _ = ids.remove(&self.id));
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::task::TaskTracker;

    use super::*;

    fn id(number: u128) -> RequestId {
        RequestId(uuid::Uuid::from_u128(number))
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_request_is_woken_and_others_go_on() {
        let cancellations = Arc::new(Cancellations::new(Arc::default()));
        let tasks = TaskTracker::new();
        let wait = |number| {
            let cancellations = cancellations.clone();
            tasks.spawn(async move { cancellations.cancelled(id(number)).await })
        };
        let (first, mut second) = (wait(1), wait(2));
        tokio::task::yield_now().await;
        let cancelling = cancellations.cancel(id(1));
        first.await.unwrap();
        drop(cancelling);
        assert!(!cancellations.is_cancelled(id(1)), "it ends with its guard");
        let limit = std::time::Duration::from_hours(1);
        assert!(tokio::time::timeout(limit, &mut second).await.is_err());
        // A watcher that was woken for another request is woken again.
        let _cancelling = cancellations.cancel(id(2));
        second.await.unwrap();
    }
}
