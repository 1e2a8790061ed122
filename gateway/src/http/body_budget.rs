//! Memory for request bodies and stored responses: a budget of the whole process, and a share of it for each account.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use domain::id::AccountId;

/// How long a body waits for memory.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(5);
/// An account gets at most this part of the budget, so that one alone cannot use it up.
const ACCOUNT_DIVISOR: usize = 4;

/// The memory that request bodies may take, in bytes.
pub(super) struct BodyBudget {
    state: Mutex<State>,
    /// Notified whenever memory is given back.
    released: Notify,
    /// What one account may hold.
    account_limit: usize,
}

struct State {
    available: usize,
    /// What each account holds. Accounts that hold nothing are not in here.
    held: HashMap<AccountId, usize>,
}

/// Memory that one body holds. Dropping it gives the memory back.
pub(super) struct BodyMemoryGuard {
    budget: Arc<BodyBudget>,
    account: AccountId,
    bytes: usize,
}

/// There was no memory for a body in time.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BudgetExhaustedError;

// === impl BodyBudget ===

impl BodyBudget {
    /// A budget of `bytes`. An account may hold a quarter of it, and one body of `max_body_bytes` in any case.
    pub(super) fn new(bytes: usize, max_body_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State { available: bytes, held: HashMap::new() }),
            released: Notify::new(),
            account_limit: (bytes / ACCOUNT_DIVISOR).max(max_body_bytes),
        })
    }

    /// Returns a guard for a body of `account`, which holds nothing yet.
    pub(super) fn guard(self: &Arc<Self>, account: AccountId) -> BodyMemoryGuard {
        BodyMemoryGuard { budget: self.clone(), account, bytes: 0 }
    }

    /// Returns what one account may hold.
    pub(super) const fn account_limit(&self) -> usize {
        self.account_limit
    }

    fn try_take(&self, account: AccountId, bytes: usize) -> bool {
        let mut state = self.state();
        let held = state.held.get(&account).copied().unwrap_or_default();
        if bytes > state.available || held.saturating_add(bytes) > self.account_limit {
            return false;
        }
        state.available -= bytes;
        state.held.insert(account, held + bytes);
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl BodyMemoryGuard ===

impl BodyMemoryGuard {
    /// Makes the guard hold `bytes`, if it holds less. Waits for memory that others hold.
    ///
    /// # Errors
    /// None was given back in time. What the guard held before, it holds still.
    ///
    /// # Cancel safety
    /// A guard whose growth is cancelled holds what it held before.
    pub(super) async fn grow_to(&mut self, bytes: usize) -> Result<(), BudgetExhaustedError> {
        if self.try_grow_to(bytes) {
            return Ok(());
        }
        let waiting = self.wait_for(bytes - self.bytes);
        tokio::time::timeout(MEMORY_TIMEOUT, waiting).await.map_err(|_| BudgetExhaustedError)?;
        self.bytes = bytes;
        Ok(())
    }

    /// Makes the guard hold `bytes`, if it holds less and there is memory now. Returns whether it holds them.
    pub(super) fn try_grow_to(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        if more > 0 {
            if !self.budget.try_take(self.account, more) {
                return false;
            }
            self.bytes = bytes;
        }
        true
    }

    async fn wait_for(&self, more: usize) {
        loop {
            let released = self.budget.released.notified();
            tokio::pin!(released);
            // registered before the try, so that what is released after it wakes us
            released.as_mut().enable();
            if self.budget.try_take(self.account, more) {
                return;
            }
            released.await;
        }
    }
}

impl Drop for BodyMemoryGuard {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut state = self.budget.state();
        state.available += self.bytes;
        if let Some(held) = state.held.get_mut(&self.account) {
            *held = held.saturating_sub(self.bytes);
            if *held == 0 {
                state.held.remove(&self.account);
            }
        }
        drop(state);
        self.budget.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join;
    use uuid::Uuid;

    use super::*;

    const ALICE: AccountId = AccountId(Uuid::from_u128(1));
    const BOB: AccountId = AccountId(Uuid::from_u128(2));

    #[tokio::test(start_paused = true)]
    async fn one_account_does_not_use_up_the_budget_of_all() {
        let budget = BodyBudget::new(100, 10);
        let mut first = budget.guard(ALICE);
        first.grow_to(20).await.unwrap();
        let mut second = budget.guard(ALICE);
        assert_eq!(second.grow_to(6).await, Err(BudgetExhaustedError), "a quarter is 25");
        second.grow_to(5).await.unwrap();
        budget.guard(BOB).grow_to(25).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_of_the_greatest_length_fits_however_small_the_budget() {
        let budget = BodyBudget::new(100, 100);
        budget.guard(ALICE).grow_to(100).await.unwrap();
        assert_eq!(budget.guard(ALICE).grow_to(101).await, Err(BudgetExhaustedError));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_waits_for_memory_that_is_given_back() {
        let budget = BodyBudget::new(100, 100);
        let mut holder = budget.guard(ALICE);
        holder.grow_to(60).await.unwrap();
        let mut waiting = budget.guard(BOB);
        waiting.grow_to(30).await.unwrap();
        let (grown, ()) = join(waiting.grow_to(50), async {
            tokio::time::sleep(MEMORY_TIMEOUT / 2).await;
            drop(holder);
        })
        .await;
        assert_eq!(grown, Ok(()));
        drop(waiting);
        budget.guard(ALICE).grow_to(100).await.unwrap();
        assert!(budget.state().held.is_empty());
    }
}
