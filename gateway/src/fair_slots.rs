//! A bounded number of slots, for which requests wait in a [`FairQueue`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::fair_queue::{FairQueue, Pushed, Ticket};
use domain::id::AccountId;

/// The slots.
pub(crate) struct FairSlots(Mutex<State>);

/// Invariant: no request waits while a slot is free.
struct State {
    free: usize,
    queue: FairQueue<oneshot::Sender<Slot>>,
}

/// A slot that is in use. Dropping it passes it to a request that waits, or frees it.
pub(crate) struct Slot(Arc<FairSlots>);

/// A request had no place in the queue, or had to leave it to one of an account with fewer.
#[derive(Debug)]
pub(crate) struct NoPlaceError;

/// A place in the queue. Dropping it frees the place.
struct WaitingPlace<'a> {
    slots: &'a FairSlots,
    account: Option<AccountId>,
    ticket: Ticket,
}

// === impl FairSlots ===

impl FairSlots {
    /// Creates `free` slots, and a queue with places for `max_waiting` requests.
    pub(crate) fn new(free: usize, max_waiting: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { free, queue: FairQueue::new(max_waiting) })))
    }

    /// Takes a slot that is free.
    pub(crate) fn try_take(self: &Arc<Self>) -> Option<Slot> {
        self.state().try_take().then(|| Slot(self.clone()))
    }

    /// Takes a slot for a request of `account`. Waits until one is free.
    ///
    /// # Errors
    /// There is no place in the queue.
    ///
    /// # Cancel safety
    /// If cancelled, no slot was taken.
    pub(crate) async fn take(
        self: &Arc<Self>,
        account: Option<AccountId>,
    ) -> Result<Slot, NoPlaceError> {
        let (ticket, receiver) = {
            let mut state = self.state();
            if state.try_take() {
                return Ok(Slot(self.clone()));
            }
            let (sender, receiver) = oneshot::channel();
            // A request that loses its place to this one sees that its sender is dropped.
            let pushed = state.queue.push(account, sender);
            let Pushed { ticket, displaced: _ } = pushed.map_err(|_| NoPlaceError)?;
            (ticket, receiver)
        };
        let _place = WaitingPlace { slots: self, account, ticket };
        receiver.await.map_err(|_| NoPlaceError)
    }

    /// Returns the number of free slots.
    pub(crate) fn free(&self) -> usize {
        self.state().free
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
    fn try_take(&mut self) -> bool {
        let left = self.free.checked_sub(1);
        self.free = left.unwrap_or_default();
        left.is_some()
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
