//! Claims of idempotency keys among the gateways of one database.

use std::time::Duration;

use async_trait::async_trait;

use super::StoreError;
use domain::id::RequestId;
use domain::idempotency::{AnswerLookup, Claim, ClaimOutcome, StoredAnswer};

/// Lets one gateway serve a request with an idempotency key. Only a store that several gateways can
/// use has claims.
///
/// A claim is in force while its request is in progress and for a `window` after the request was
/// answered completely, which [`commit`](super::Requests::commit) records. The claim of a request in
/// progress ends early if its gateway was removed, or is silent for longer than its patience. A claim
/// does not exclude another one of the same process, which ensures itself that a key has one request
/// in progress.
#[async_trait]
pub trait IdempotencyClaims: Send + Sync {
    /// Makes each claim unless another one is in force. Returns the outcomes in their order. No
    /// digest may occur twice.
    async fn claim(
        &self,
        claims: &[Claim],
        window: Duration,
    ) -> Result<Vec<ClaimOutcome>, StoreError>;
    /// Stores the answers to claimed requests, until the claims are no longer in force. Claims that do not exist are
    /// skipped.
    async fn store_answers(&self, answers: &[(Claim, StoredAnswer)]) -> Result<(), StoreError>;
    /// Returns the answer to the request `first`, which has the claim of `claim`'s key.
    async fn find_answer(
        &self,
        claim: &Claim,
        first: RequestId,
    ) -> Result<AnswerLookup, StoreError>;
    /// Deletes claims whose requests ended without a complete answer. Claims that do not exist are
    /// skipped.
    async fn release_claims(&self, claims: &[Claim]) -> Result<(), StoreError>;
    /// Deletes the claims of requests that an earlier process with this data directory did not
    /// answer. All its records must have been committed.
    async fn release_earlier_claims(&self) -> Result<(), StoreError>;
    /// Deletes up to `limit` claims that are no longer in force. Returns their number.
    async fn delete_old_claims(&self, window: Duration, limit: usize) -> Result<u64, StoreError>;
}
