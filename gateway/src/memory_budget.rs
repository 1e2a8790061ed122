//! A memory budget with a share for each account. The process has one for request bodies and stored responses, and
//! one for long answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;

use domain::id::AccountId;

/// How long a body or an answer waits for memory.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(5);
/// An account gets at most this fraction of the budget, so that one account cannot use it up.
const ACCOUNT_DIVISOR: usize = 4;

/// The memory that bodies or answers may take, in bytes.
pub struct MemoryBudget {
    state: Mutex<State>,
    /// Notified whenever memory is released.
    released: Notify,
    /// The share of one account, in bytes.
    account_limit: usize,
}

struct State {
    available: usize,
    /// The memory held by each account; accounts that hold none are absent.
    held: HashMap<AccountId, usize>,
}

/// Memory held by one body or answer. Dropping it releases the memory.
pub struct MemoryGuard {
    budget: Arc<MemoryBudget>,
    account: AccountId,
    bytes: usize,
}

/// Bytes and the memory that they hold until their last user drops them.
struct CountedBytes<B> {
    bytes: B,
    _memory: MemoryGuard,
}

/// No memory became available in time, or an account never gets as much.
#[derive(Debug, PartialEq, Eq)]
pub struct BudgetExhaustedError;

// === impl MemoryBudget ===

impl MemoryBudget {
    /// Creates a budget of `bytes`. An account may hold a quarter of it, and at least one body of
    /// `max_body_bytes`.
    pub fn new(bytes: usize, max_body_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State { available: bytes, held: HashMap::new() }),
            released: Notify::new(),
            account_limit: (bytes / ACCOUNT_DIVISOR).max(max_body_bytes),
        })
    }

    /// Returns a guard for a body of `account` that holds no memory yet.
    pub fn guard(self: &Arc<Self>, account: AccountId) -> MemoryGuard {
        MemoryGuard { budget: self.clone(), account, bytes: 0 }
    }

    /// Returns the share of one account, in bytes.
    pub const fn account_limit(&self) -> usize {
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

// === impl MemoryGuard ===

impl MemoryGuard {
    /// Grows the guard to `bytes`, if it holds less. Waits for memory that others hold.
    ///
    /// # Errors
    /// No memory became available in time, or `bytes` exceed the account's share. The guard holds what it held
    /// before.
    ///
    /// # Cancel safety
    /// If cancelled, the guard holds what it held before.
    pub async fn grow_to(&mut self, bytes: usize) -> Result<(), BudgetExhaustedError> {
        if self.try_grow_to(bytes) {
            return Ok(());
        }
        if bytes > self.budget.account_limit {
            return Err(BudgetExhaustedError);
        }
        let waiting = self.wait_for(bytes - self.bytes);
        tokio::time::timeout(MEMORY_TIMEOUT, waiting).await.map_err(|_| BudgetExhaustedError)?;
        self.bytes = bytes;
        Ok(())
    }

    /// Grows the guard to `bytes` if there is enough memory now. Returns whether it holds `bytes`.
    pub fn try_grow_to(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        if more > 0 {
            if !self.budget.try_take(self.account, more) {
                return false;
            }
            self.bytes = bytes;
        }
        true
    }

    /// Returns `bytes`, which hold the memory of the guard until they are dropped.
    pub fn attach<B: AsRef<[u8]> + Send + 'static>(self, bytes: B) -> Bytes {
        Bytes::from_owner(CountedBytes { bytes, _memory: self })
    }

    async fn wait_for(&self, more: usize) {
        loop {
            let released = self.budget.released.notified();
            tokio::pin!(released);
            // Registered before the attempt, so that a later release is not missed.
            released.as_mut().enable();
            if self.budget.try_take(self.account, more) {
                return;
            }
            released.await;
        }
    }
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for CountedBytes<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl Drop for MemoryGuard {
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
        let budget = MemoryBudget::new(100, 10);
        let mut first = budget.guard(ALICE);
        first.grow_to(20).await.unwrap();
        let mut second = budget.guard(ALICE);
        assert_eq!(second.grow_to(6).await, Err(BudgetExhaustedError), "a quarter is 25");
        second.grow_to(5).await.unwrap();
        budget.guard(BOB).grow_to(25).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_of_the_greatest_length_fits_however_small_the_budget() {
        let budget = MemoryBudget::new(100, 100);
        budget.guard(ALICE).grow_to(100).await.unwrap();
        assert_eq!(budget.guard(ALICE).grow_to(101).await, Err(BudgetExhaustedError));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_waits_for_memory_that_is_given_back() {
        let budget = MemoryBudget::new(100, 100);
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
