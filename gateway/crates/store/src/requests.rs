//! Persistence of request records and their charges: the log, and sums over it.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{Cursor, StoreError};
use domain::audit::AuditEntry;
use domain::expression::Term;
use domain::id::{AccountId, KeyId, ModelId, RequestId};
use domain::idempotency::Answered;
use domain::ledger::Entry;
use domain::money::Nanos;
use domain::record::{RequestRecord, RequestStatus};

/// Request records and the ledger.
#[async_trait]
pub trait Requests: Send + Sync {
    /// Writes a batch of ended requests with their [entries](RequestRecord::entries), account by
    /// account. Existing requests are skipped, so that a batch can be sent again. Returns the
    /// cursor of the newest record.
    async fn commit(&self, batch: Arc<Vec<RequestRecord>>) -> Result<Cursor, StoreError>;
    /// Writes one ledger entry.
    async fn add_entry(&self, entry: &Entry, audit: &AuditEntry) -> Result<(), StoreError>;
    /// Returns the sum of an account's ledger entries.
    async fn balance(&self, account: AccountId) -> Result<Nanos, StoreError>;

    /// Returns one record.
    async fn find_request(&self, id: RequestId) -> Result<Option<RequestRecord>, StoreError>;
    /// Returns up to `limit` records before `before` (from the end if `None`), newest first.
    async fn requests_before(
        &self,
        filter: &RequestFilter,
        before: Option<Cursor>,
        limit: usize,
    ) -> Result<Vec<(Cursor, RequestRecord)>, StoreError>;
    /// Returns up to `limit` records after `after`, oldest first.
    async fn requests_after(
        &self,
        filter: &RequestFilter,
        after: Cursor,
        limit: usize,
    ) -> Result<Vec<(Cursor, RequestRecord)>, StoreError>;
    /// Returns the number of records after `after` and up to `until`.
    async fn count_requests(
        &self,
        filter: &RequestFilter,
        after: Cursor,
        until: Cursor,
    ) -> Result<u64, StoreError>;
    /// Returns the requests with an idempotency digest that ended at `since` or later, in the order
    /// of their ends; at most the newest `limit`.
    async fn answered_since(
        &self,
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<Answered>, StoreError>;
    /// Returns the cursor of the newest record; zero if there is none.
    async fn newest(&self) -> Result<Cursor, StoreError>;
    /// Returns sums over the selected requests, including those whose records were deleted.
    ///
    /// Sums exist by hour, so an hour from which records were deleted cannot be divided: it counts
    /// completely in every range that overlaps it. All other hours are divided exactly. If a
    /// [`Term`] concerns a field without sums, such as the endpoint, only records that the log
    /// still has are included.
    async fn summarize(&self, filter: &RequestFilter, by: TimeUnit) -> Result<Summary, StoreError>;
}

/// Selects requests; each field narrows the selection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestFilter {
    /// Requests of this account.
    pub account: Option<AccountId>,
    /// Requests of this key.
    pub key: Option<KeyId>,
    /// Requests of this model.
    pub model: Option<ModelId>,
    /// Requests with this status.
    pub status: Option<RequestStatus>,
    /// Requests that arrived at or after this time.
    pub since: Option<Timestamp>,
    /// Requests that arrived before this time.
    pub until: Option<Timestamp>,
    /// Requests that satisfy all of these terms.
    pub terms: Vec<Term>,
}

/// The unit of time by which a [`Summary`] is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// A day in UTC.
    Day,
    /// An hour. There is a sum for each model and hour in memory, so the range should not be long.
    Hour,
    /// A minute, from the log only: requests whose records were deleted are not counted.
    Minute,
}

/// Sums over requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The total.
    pub totals: Totals,
    /// By model, the most expensive first.
    pub by_model: Vec<(Option<ModelId>, Totals)>,
    /// By day in UTC (`2026-11-20`), oldest first.
    pub by_day: Vec<(String, Totals)>,
    /// By the start of the hour, oldest first; empty if divided by [`TimeUnit::Day`].
    pub by_hour: Vec<(Timestamp, Totals)>,
    /// By the start of the minute, oldest first; empty unless divided by [`TimeUnit::Minute`].
    pub by_minute: Vec<(Timestamp, Totals)>,
    /// By the start of the unit of time and by model, oldest first.
    pub by_model_and_time: Vec<(Timestamp, Option<ModelId>, Totals)>,
    /// By key, the most expensive first, at most [`MAX_LISTED_KEYS`].
    pub by_key: Vec<KeySum>,
}

/// The maximum number of keys in a [`Summary`].
pub const MAX_LISTED_KEYS: usize = 1_000;

/// The sum of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySum {
    /// The key.
    pub key: KeyId,
    /// The key's label; `None` if the key does not exist.
    pub label: Option<String>,
    /// The account of the requests.
    pub account: AccountId,
    /// The sum.
    pub totals: Totals,
}

/// A sum over requests. Unknown counts are not included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The number of requests.
    pub requests: u64,
    /// The number of requests that failed, were refused or were interrupted.
    pub errors: u64,
    /// Input tokens.
    pub input: u64,
    /// Cached input tokens.
    pub cached: u64,
    /// Output tokens.
    pub output: u64,
    /// Reasoning tokens.
    pub reasoning: u64,
    /// The total cost.
    pub cost: Nanos,
}
