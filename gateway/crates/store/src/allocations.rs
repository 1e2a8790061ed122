//! Parts of shared pools that the store has moved to this gateway.

use async_trait::async_trait;

use super::StoreError;
use domain::allocation::{Allocation, AllocationRequest, Pool, Recall};

/// Moves amounts between shared pools and this gateway. Only a store that several gateways can use
/// has them.
///
/// Invariant: a [`commit`](super::Requests::commit) takes charges and tokens from the allocations of
/// this gateway, in the transaction that writes them. Hence an allocation is at least what the
/// gateway has in memory, plus what it has used and not yet committed.
///
/// A process numbers its operations, beginning with 1, and runs one at a time. It repeats one that
/// failed under the same number until it succeeds: the store executes each number once.
#[async_trait]
pub trait Allocations: Send + Sync {
    /// Moves a part of each pool to this gateway, as [`grant`](domain::allocation::grant) decides.
    /// Returns one allocation per request, in their order. No pool may occur twice.
    async fn allocate(
        &self,
        operation: u64,
        requests: &[AllocationRequest],
    ) -> Result<Vec<Allocation>, StoreError>;
    /// Gives back amounts that this gateway no longer has in memory, in units of each pool.
    async fn give_back(&self, operation: u64, amounts: &[(Pool, i64)]) -> Result<(), StoreError>;
    /// Sets what this process has of each pool, in units of the pool, although less may be available: after a
    /// failover the store may not know what requests use.
    async fn set_allocated(
        &self,
        operation: u64,
        amounts: &[(Pool, i64)],
    ) -> Result<(), StoreError>;
    /// Gives back everything that this gateway, or an earlier process with its data directory, has.
    /// All its records must have been committed. Waits for its transactions under way, also those that
    /// were abandoned. What was used of a limit per minute remains
    /// allocated until it no longer counts.
    async fn give_back_all(&self) -> Result<(), StoreError>;
    /// Returns the amounts that this gateway has of `pools`, in their order.
    async fn allocated(&self, pools: &[Pool]) -> Result<Vec<i64>, StoreError>;
    /// Returns what the committed records leave of `pools`, allocated amounts included, in their order. The second
    /// part of each is the limit that bounds it, as in [`AllocationRequest::limit`].
    async fn unused(&self, pools: &[(Pool, Option<i64>)]) -> Result<Vec<i64>, StoreError>;
    /// Asks gateways to give back what they do not need.
    async fn recall(&self, recalls: &[Recall]) -> Result<(), StoreError>;
}
