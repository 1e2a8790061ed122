//! A semaphore whose requests wait in a [`FairQueue`], so that accounts take turns.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::fair_queue::{FairQueue, Pushed, Ticket};
use domain::id::AccountId;

/// A semaphore that is fair between accounts.
pub(crate) struct FairSemaphore(Mutex<State>);

/// Invariant: no request waits while a permit is available.
struct State {
    available: usize,
    queue: FairQueue<oneshot::Sender<FairPermit>>,
}

/// A permit that is in use. Dropping it passes it to a request that waits, or makes it available.
pub(crate) struct FairPermit(Arc<FairSemaphore>);

/// The queue is full: a request got no place, or had to leave it to one of an account with fewer.
#[derive(Debug)]
pub(crate) struct QueueFullError;

/// A place in the queue. Dropping it frees the place.
struct WaitingPlace<'a> {
    semaphore: &'a FairSemaphore,
    account: Option<AccountId>,
    ticket: Ticket,
}

// === impl FairSemaphore ===

impl FairSemaphore {
    /// Creates a semaphore with this number of permits, and a queue with places for `max_waiting` requests.
    pub(crate) fn new(permits: usize, max_waiting: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { available: permits, queue: FairQueue::new(max_waiting) })))
    }

    /// Acquires a permit if one is available.
    pub(crate) fn try_acquire(self: &Arc<Self>) -> Option<FairPermit> {
        self.state().try_acquire().then(|| FairPermit(self.clone()))
    }

    /// Acquires a permit for a request of `account`. Waits until one is available.
    ///
    /// # Errors
    /// There is no place in the queue.
    ///
    /// # Cancel safety
    /// If cancelled, no permit was acquired.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        account: Option<AccountId>,
    ) -> Result<FairPermit, QueueFullError> {
        self.enqueue(account)?.await
    }

    /// Takes a place in the queue for a request of `account`. Returns the wait for a permit, which fails if the place has
    /// to be left.
    ///
    /// # Errors
    /// There is no place.
    pub(crate) fn enqueue(
        self: &Arc<Self>,
        account: Option<AccountId>,
    ) -> Result<impl Future<Output = Result<FairPermit, QueueFullError>> + Send, QueueFullError>
    {
        let (sender, receiver) = oneshot::channel();
        let place = {
            let mut state = self.state();
            if state.try_acquire() {
                // The receiver is not gone.
                _ = sender.send(FairPermit(self.clone()));
                None
            } else {
                // A request that loses its place to this one sees that its sender is dropped.
                let pushed = state.queue.push(account, sender);
                let Pushed { ticket, displaced: _ } = pushed.map_err(|_| QueueFullError)?;
                Some(WaitingPlace { semaphore: self, account, ticket })
            }
        };
        Ok(async move {
            let _place = place;
            receiver.await.map_err(|_| QueueFullError)
        })
    }

    /// Returns the number of permits that are available.
    pub(crate) fn available_permits(&self) -> usize {
        self.state().available
    }

    /// Returns the number of requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.state().queue.waiting()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn try_acquire(&mut self) -> bool {
        let left = self.available.checked_sub(1);
        self.available = left.unwrap_or_default();
        left.is_some()
    }
}

// === impl FairPermit ===

impl Drop for FairPermit {
    fn drop(&mut self) {
        let next = {
            let mut state = self.0.state();
            let next = state.queue.pop();
            state.available += usize::from(next.is_none());
            next
        };
        if let Some(next) = next {
            // If the request has just left, the permit comes back and is dropped again.
            _ = next.send(Self(self.0.clone()));
        }
    }
}

// === impl WaitingPlace ===

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        self.semaphore.state().queue.remove(self.account, self.ticket);
    }
}
