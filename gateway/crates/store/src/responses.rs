//! Persistence of the responses that later requests may continue.

use std::collections::HashSet;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::StoreError;
use domain::id::{AccountId, RequestId};
use domain::response::{FoundItems, StoredResponse, Turn};

/// Stored responses that later requests may reference. Each method only accesses responses of the
/// given account, except [`Self::delete_old_responses`].
#[async_trait]
pub trait Responses: Send + Sync {
    /// Stores responses; existing ones are left unchanged. Then deletes whole chains of each
    /// account until it fits into `account_bytes`, beginning with the chain that was not continued
    /// for the longest time. The chain of the newest response is the last to lose any, its oldest
    /// responses first; the newest response itself always stays.
    async fn keep_responses(
        &self,
        responses: Vec<StoredResponse>,
        account_bytes: u64,
    ) -> Result<(), StoreError>;
    /// Returns one response.
    async fn find_response(
        &self,
        account: AccountId,
        id: RequestId,
    ) -> Result<Option<StoredResponse>, StoreError>;
    /// Returns the items of a response and its existing predecessors, oldest first. Stops at the
    /// response whose items exceed `max_bytes`.
    async fn response_chain(
        &self,
        account: AccountId,
        last: RequestId,
        max_bytes: u64,
    ) -> Result<Vec<Turn>, StoreError>;
    /// Returns the existing items among `ids`; if several responses contain an item, the newest
    /// counts. Reads the newest responses first and stops at the response that exceeds `max_bytes`.
    /// The newest response is the one with the greatest id, because the ids of requests are
    /// `UUIDv7`, which begin with the time. Each id is looked up separately; the caller must bound
    /// their number.
    async fn find_items(
        &self,
        account: AccountId,
        ids: HashSet<String>,
        max_bytes: u64,
    ) -> Result<FoundItems, StoreError>;
    /// Returns up to `limit` responses of an account with greater ids than `after`, in the order of
    /// their ids, without the ids of their items.
    async fn responses_after(
        &self,
        account: AccountId,
        after: Option<RequestId>,
        limit: u32,
    ) -> Result<Vec<StoredResponse>, StoreError>;
    /// Deletes a response; [`StoreError::NotFound`] if there is none.
    async fn remove_response(&self, account: AccountId, id: RequestId) -> Result<(), StoreError>;
    /// Deletes up to `limit` responses of chains that were not continued since `before`. Returns
    /// the number of deleted responses; if it equals `limit`, there may be more.
    async fn delete_old_responses(&self, before: Timestamp, limit: u32) -> Result<u32, StoreError>;
}
