//! A memory budget with a share for each account. The process has one for request bodies and stored responses, and
//! one for what is made of them: copies of long requests, and long answers.
//!
//! The share follows the dynamic threshold of shared-memory switches (Choudhury and Hahne, 1998): an account may hold
//! half as much as is free after it took its part. One busy account gets a third of the budget, four get a sixth
//! each, and a third is still free for others: however many accounts hold as much as they can, a new one gets memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use foldhash::fast::RandomState;
use tokio::sync::Notify;

use domain::id::AccountId;

/// How long a body or an answer waits for memory.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(5);
/// An account may hold the free memory divided by this.
const FREE_DIVISOR: usize = 2;

/// The memory that bodies or answers may take, in bytes.
///
/// Invariant: what the guards hold and what is free are together `capacity`. The threshold of an account is not
/// exact: requests of the account that take memory at the same instant on several workers may exceed it.
pub struct MemoryBudget {
    capacity: usize,
    free: AtomicUsize,
    /// The memory held by each account that ever held any, in bytes.
    accounts: papaya::HashMap<AccountId, Arc<AtomicUsize>, RandomState>,
    /// Notified whenever memory is released.
    released: Notify,
    /// The longest body, in bytes. An account may hold as much if no other account holds any memory, whatever its
    /// threshold.
    max_body_bytes: usize,
}

/// Memory held by one body or answer. Dropping it releases the memory.
pub struct MemoryGuard {
    budget: Arc<MemoryBudget>,
    account: AccountId,
    /// The memory held by the account. `None` until the guard grows.
    account_held: Option<Arc<AtomicUsize>>,
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
    /// Creates a budget of `bytes`, which has room for at least one body of `max_body_bytes`.
    pub fn new(bytes: usize, max_body_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            capacity: bytes,
            free: AtomicUsize::new(bytes),
            accounts: papaya::HashMap::default(),
            released: Notify::new(),
            max_body_bytes: max_body_bytes.min(bytes),
        })
    }

    /// Returns a guard for a body of `account` that holds no memory yet.
    pub fn guard(self: &Arc<Self>, account: AccountId) -> MemoryGuard {
        MemoryGuard { budget: self.clone(), account, account_held: None, bytes: 0 }
    }

    /// Returns how much is held, in bytes.
    pub fn held(&self) -> usize {
        self.capacity.saturating_sub(self.free.load(Ordering::Relaxed))
    }

    /// Returns the most that may be held, in bytes.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the most that one account ever gets, in bytes.
    pub fn account_limit(&self) -> usize {
        (self.capacity / (FREE_DIVISOR + 1)).max(self.max_body_bytes)
    }

    /// Takes `bytes` for an account that holds `account_held`. Returns whether there was enough for it.
    fn try_take(&self, account_held: &AtomicUsize, bytes: usize) -> bool {
        let take = |free: usize| {
            let left = free.checked_sub(bytes)?;
            let held = account_held.load(Ordering::Acquire).checked_add(bytes)?;
            let is_below_threshold = held <= left / FREE_DIVISOR;
            let is_alone = held + left >= self.capacity && held <= self.max_body_bytes;
            (is_below_threshold || is_alone).then_some(left)
        };
        let is_taken = self.free.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok();
        if is_taken {
            account_held.fetch_add(bytes, Ordering::AcqRel);
        }
        is_taken
    }
}

// === impl MemoryGuard ===

impl MemoryGuard {
    /// Returns how much the guard holds, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the length of the longest body, in bytes.
    pub fn max_body_bytes(&self) -> usize {
        self.budget.max_body_bytes
    }

    /// Grows the guard to `bytes`, if it holds less. Waits for memory that others hold.
    ///
    /// # Errors
    /// No memory became available in time, or `bytes` exceed what an account ever gets. The guard holds what it held
    /// before.
    ///
    /// # Cancel safety
    /// If cancelled, the guard holds what it held before.
    pub async fn grow_to(&mut self, bytes: usize) -> Result<(), BudgetExhaustedError> {
        if self.try_grow_to(bytes) {
            return Ok(());
        }
        if bytes > self.budget.account_limit() {
            return Err(BudgetExhaustedError);
        }
        let waiting = self.wait_to_grow_to(bytes);
        tokio::time::timeout(MEMORY_TIMEOUT, waiting).await.map_err(|_| BudgetExhaustedError)
    }

    /// Grows the guard to `bytes` if there is enough memory now. Returns whether it holds `bytes`.
    pub fn try_grow_to(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        if more > 0 {
            let account_held = self.account_held.get_or_insert_with(|| {
                self.budget.accounts.pin().get_or_insert_with(self.account, Arc::default).clone()
            });
            if !self.budget.try_take(account_held, more) {
                return false;
            }
            self.bytes = bytes;
        }
        true
    }

    /// Moves up to `bytes` of the memory into another guard of the same account, which is returned.
    #[must_use]
    pub fn split_off(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        let Self { budget, account, account_held, .. } = self;
        Self {
            budget: budget.clone(),
            account: *account,
            account_held: account_held.clone(),
            bytes,
        }
    }

    /// Returns `bytes`, which hold the memory of the guard until they are dropped.
    pub fn attach<B: AsRef<[u8]> + Send + 'static>(self, bytes: B) -> Bytes {
        Bytes::from_owner(CountedBytes { bytes, _memory: self })
    }

    async fn wait_to_grow_to(&mut self, bytes: usize) {
        let budget = self.budget.clone();
        loop {
            let released = budget.released.notified();
            tokio::pin!(released);
            // Registered before the attempt, so that a later release is not missed.
            released.as_mut().enable();
            if self.try_grow_to(bytes) {
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
        let Some(account_held) = self.account_held.as_ref().filter(|_| self.bytes > 0) else {
            return;
        };
        // The account first: a taker that sees the free memory must not see it as held.
        account_held.fetch_sub(self.bytes, Ordering::AcqRel);
        self.budget.free.fetch_add(self.bytes, Ordering::AcqRel);
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

    /// Grows guards of `account` one by one until there is no memory for another. Returns them, and what they hold.
    fn fill(budget: &Arc<MemoryBudget>, account: AccountId) -> (Vec<MemoryGuard>, usize) {
        let next = || {
            let mut guard = budget.guard(account);
            guard.try_grow_to(1).then_some(guard)
        };
        let guards: Vec<_> = std::iter::from_fn(next).collect();
        let held = guards.iter().map(MemoryGuard::bytes).sum();
        (guards, held)
    }

    #[tokio::test(start_paused = true)]
    async fn one_account_does_not_use_up_the_budget_of_all() {
        let budget = MemoryBudget::new(90, 10);
        let mut first = budget.guard(ALICE);
        first.grow_to(20).await.unwrap();
        let mut second = budget.guard(ALICE);
        assert_eq!(second.grow_to(11).await, Err(BudgetExhaustedError), "a third is 30");
        second.grow_to(10).await.unwrap();
        budget.guard(BOB).grow_to(20).await.unwrap();
    }

    #[test]
    fn a_guard_that_was_split_releases_what_is_left_in_it() {
        let budget = MemoryBudget::new(90, 10);
        let mut whole = budget.guard(ALICE);
        assert!(whole.try_grow_to(30));
        let part = whole.split_off(20);
        assert_eq!((whole.bytes(), part.bytes()), (10, 20));
        drop(part);
        assert_eq!(fill(&budget, ALICE).1, 20, "the rest is still held");
        let rest = whole.split_off(11);
        assert_eq!((whole.bytes(), rest.bytes()), (0, 10));
        drop((whole, rest));
        assert_eq!(fill(&budget, ALICE).1, 30);
    }

    /// Regression test: an account could hold a quarter of the budget, and so four accounts all of it.
    #[test]
    fn any_number_of_accounts_that_hold_all_they_can_leaves_room_for_another() {
        let budget = MemoryBudget::new(1_200, 100);
        let mut guards = Vec::new();
        for account in 1..=12 {
            let (held_by_account, held) = fill(&budget, AccountId(Uuid::from_u128(account)));
            guards.extend(held_by_account);
            assert!(held > 0, "account {account} gets no memory");
        }
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
        waiting.grow_to(10).await.unwrap();
        let (grown, ()) = join(waiting.grow_to(50), async {
            tokio::time::sleep(MEMORY_TIMEOUT / 2).await;
            drop(holder);
        })
        .await;
        assert_eq!(grown, Ok(()));
        drop(waiting);
        budget.guard(ALICE).grow_to(100).await.unwrap();
    }
}
