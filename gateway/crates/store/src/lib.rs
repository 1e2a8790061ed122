//! The storage traits, and their backends with SQLite and PostgreSQL.
//!
//! A method that changes something is atomic: it stores all its changes, with their audit entries,
//! or none. A method that reads sees one consistent state. The deletions of old data and
//! [`StoreMaintenance::check_integrity`] read and write separately. Callers create ids and times;
//! stores implement no business rules. `conformance.rs` is the test suite that every backend must
//! pass. Only [`sqlite`] and [`postgres`] depend on database drivers; they share `codec.rs`, `codes.rs`,
//! `objects.rs`, `records.rs`, `predicates.rs` and `summary.rs`, which know no SQL dialect.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;

use domain::account::{Account, Session};
use domain::audit::AuditEntry;
use domain::change::ChangeSeq;
use domain::expression::Term;
use domain::id::{AccountId, KeyId, ModelId, RequestId, SessionId, UpstreamName};
use domain::idempotency::Answered;
use domain::key::Key;
use domain::ledger::Entry;
use domain::model::Model;
use domain::money::Nanos;
use domain::person::Person;
use domain::plan::Plan;
use domain::record::{RequestRecord, RequestStatus};
use domain::response::{FoundItems, StoredResponse, Turn};
use domain::upstream::Upstream;

pub mod account_lifecycle;
pub mod alerts;
pub mod allocations;
pub mod audit;
pub mod claims;
mod codec;
mod codes;
mod condition;
#[cfg(test)]
mod conformance;
pub mod consumption;
mod error;
pub mod fleet;
pub mod invites;
pub mod ledger;
pub mod maintenance;
pub mod migration;
mod objects;
pub mod operator_token;
pub mod password_resets;
pub mod people;
pub mod postgres;
mod predicates;
mod records;
mod schema;
pub mod sqlite;
mod summary;
pub mod traffic;

pub use consumption::ConsumptionTotals;
pub use error::{DiskFault, StoreError};
pub use fleet::{Changes, Nodes, SealKeys};
pub use invites::Invites;
pub use ledger::LedgerEntries;
pub use maintenance::{
    RetentionCutoff, RetentionTime, StoreCopy, StoreMaintenance, UnconfirmedTime,
};
pub use schema::{Schema, Upgrade};

pub use account_lifecycle::AccountLifecycle;
pub use alerts::Alerts;
pub use allocations::Allocations;
pub use audit::{AuditFilter, AuditLog};
pub use claims::IdempotencyClaims;
pub use operator_token::OperatorTokens;
pub use password_resets::PasswordResets;
pub use people::{FoundSession, People};
pub use traffic::TrafficReports;

/// A consistent snapshot of the state that the gateway keeps in memory.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// All accounts.
    pub accounts: Vec<Account>,
    /// All people of accounts, removed ones included.
    pub people: Vec<Person>,
    /// The balance of each account that has ledger entries.
    pub balances: Vec<(AccountId, Nanos)>,
    /// All plans.
    pub plans: Vec<Plan>,
    /// All keys that are not revoked.
    pub keys: Vec<Key>,
    /// All models.
    pub models: Vec<Model>,
    /// All upstreams.
    pub upstreams: Vec<Upstream>,
    /// The newest change of accounts, keys or the catalogue that is contained.
    pub changes: ChangeSeq,
}

/// The whole store. A method with an `audit` parameter adds that entry in the transaction of its
/// change.
pub trait Store:
    Identities
    + Invites
    + AccountLifecycle
    + PasswordResets
    + People
    + OperatorTokens
    + Catalogue
    + Requests
    + Responses
    + AuditLog
    + LedgerEntries
    + ConsumptionTotals
    + StoreMaintenance
    + Nodes
    + Changes
    + SealKeys
    + Alerts
{
}
impl<
    T: Identities
        + Invites
        + AccountLifecycle
        + PasswordResets
        + People
        + OperatorTokens
        + Catalogue
        + Requests
        + Responses
        + AuditLog
        + LedgerEntries
        + ConsumptionTotals
        + StoreMaintenance
        + Nodes
        + Changes
        + SealKeys
        + Alerts,
> Store for T
{
}

/// Accounts, sessions and keys.
#[async_trait]
pub trait Identities: Send + Sync {
    /// Returns the state that the gateway keeps in memory.
    async fn load(&self) -> Result<Snapshot, StoreError>;

    /// Adds an account with its password hash and its first credits ([`Self::trial_given`] sums
    /// trial credit), and uses up `invite`. [`StoreError::Conflict`] if the name is taken
    /// (names are compared without case); [`StoreError::NotFound`] if the invite is not valid at
    /// the account's `created_at`.
    async fn add_account(
        &self,
        account: &Account,
        password_hash: &str,
        credits: &[Entry],
        invite: Option<[u8; 32]>,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;
    /// Returns the trial credit given on the day of `at` (in UTC).
    async fn trial_given(&self, at: Timestamp) -> Result<Nanos, StoreError>;
    /// Replaces the role, the status and the plan of an account by those of `account`; its other
    /// fields are not written. The caller must serialize changes of accounts, because it writes all
    /// three from its copy. [`StoreError::NotFound`] if there is no such account.
    async fn update_account(&self, account: &Account, audit: &AuditEntry)
    -> Result<(), StoreError>;
    /// Replaces the `former` password hash of an account, and deletes its sessions except `keep` and its
    /// password reset. Returns the number of deleted sessions. [`StoreError::NotFound`] if there is no
    /// such account, or its password is another one: several gateways may change it.
    async fn set_password(
        &self,
        account: AccountId,
        former: &str,
        password_hash: &str,
        keep: Option<[u8; 32]>,
        audit: &AuditEntry,
    ) -> Result<u64, StoreError>;
    /// Returns an account's id and password hash by its name.
    async fn find_password_hash(
        &self,
        name: &str,
    ) -> Result<Option<(AccountId, String)>, StoreError>;

    /// Adds a session, and deletes those that ended before its `created_at`, and the oldest of the
    /// account beyond `max_sessions`. [`StoreError::NotFound`] if there is no such account, or its
    /// password hash is not `password_hash`: a change of the password ends all sessions, so none may be
    /// opened with the former one after it.
    async fn add_session(
        &self,
        session: &Session,
        password_hash: &str,
        max_sessions: u32,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;
    /// Returns a session by the digest of its token, even if it has ended.
    async fn find_session(&self, digest: [u8; 32]) -> Result<Option<FoundSession>, StoreError>;
    /// Deletes a session, if it exists.
    async fn remove_session(&self, digest: [u8; 32]) -> Result<(), StoreError>;
    /// Returns an account's sessions, newest first; some may have ended.
    async fn sessions(&self, account: AccountId) -> Result<Vec<Session>, StoreError>;
    /// Deletes one session of an account. [`StoreError::NotFound`] if it has no such session.
    async fn end_session(
        &self,
        account: AccountId,
        id: &SessionId,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;
    /// Deletes an account's sessions except `keep`. Returns how many were deleted.
    async fn end_other_sessions(
        &self,
        account: AccountId,
        keep: Option<[u8; 32]>,
        audit: &AuditEntry,
    ) -> Result<u64, StoreError>;

    /// Adds a key. [`StoreError::NotFound`] if there is no such account.
    async fn add_key(&self, key: &Key, audit: &AuditEntry) -> Result<(), StoreError>;
    /// Returns a key by its public id, with the time of its last use.
    async fn find_key(&self, id: &KeyId) -> Result<Option<(Key, Option<Timestamp>)>, StoreError>;
    /// Returns the number of an account's keys that are neither revoked nor expired at `now`. A key
    /// that another gateway adds after the count makes [`Self::add_key`] fail with [`StoreError::Stale`].
    async fn count_usable_keys(
        &self,
        account: AccountId,
        now: Timestamp,
    ) -> Result<u64, StoreError>;
    /// Returns the keys of one account, or all, newest first, with the time of their last use.
    async fn keys(
        &self,
        account: Option<AccountId>,
    ) -> Result<Vec<(Key, Option<Timestamp>)>, StoreError>;
    /// Replaces the settings of keys: label, limits, spending cap, models, translation, handling of
    /// disconnects and expiry. [`StoreError::NotFound`] if one of them does not exist or is revoked.
    async fn update_keys(&self, keys: &[Key], audit: &AuditEntry) -> Result<(), StoreError>;
    /// Sets the end and the successor of `old`, and adds the successor. [`StoreError::NotFound`] if
    /// there is no such key, or it was revoked or rotated before.
    async fn rotate_key(
        &self,
        old: &Key,
        successor: &Key,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;
    /// Revokes a key, unless it is revoked already.
    async fn revoke_key(
        &self,
        id: &KeyId,
        at: Timestamp,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;
}

/// Plans, models and upstreams.
#[async_trait]
pub trait Catalogue: Send + Sync {
    /// Adds or replaces a plan by its name.
    async fn put_plan(&self, plan: &Plan, audit: &AuditEntry) -> Result<(), StoreError>;
    /// Adds or replaces a model by its id, including deployments and aliases.
    /// [`StoreError::NotFound`] if a deployment names an upstream that does not exist;
    /// [`StoreError::Conflict`] if its id or an alias already names a model.
    async fn put_model(&self, model: &Model, audit: &AuditEntry) -> Result<(), StoreError>;
    /// Removes a model; its request records stay.
    async fn remove_model(&self, id: &ModelId, audit: &AuditEntry) -> Result<(), StoreError>;
    /// Adds or replaces an upstream by its name.
    async fn put_upstream(&self, upstream: &Upstream, audit: &AuditEntry)
    -> Result<(), StoreError>;
    /// Removes an upstream; [`StoreError::Conflict`] while a model is deployed on it.
    async fn remove_upstream(
        &self,
        name: &UpstreamName,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;
    /// Applies all changes of `update` atomically, with one `audit` entry each. At most one of
    /// these may carry a call, which would otherwise conflict with itself. Remaining objects
    /// must not name removed ones; added objects may name each other. [`StoreError::NotFound`] if a
    /// deployment names an upstream that does not exist; [`StoreError::Conflict`] if a name is
    /// taken or an upstream is in use.
    async fn update_catalogue(
        &self,
        update: &CatalogueUpdate,
        audit: &[AuditEntry],
    ) -> Result<(), StoreError>;
    /// Adds `plans`, `upstreams` and `models` if the catalogue is empty and was never seeded. Marks it
    /// as seeded even if nothing is added. Returns whether it added them.
    async fn seed(
        &self,
        plans: &[Plan],
        upstreams: &[Upstream],
        models: &[Model],
    ) -> Result<bool, StoreError>;
}

/// Changes of the catalogue that are made together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatalogueUpdate {
    /// Plans to add or replace.
    pub plans: Vec<Plan>,
    /// Upstreams to add or replace.
    pub upstreams: Vec<Upstream>,
    /// Models to add or replace.
    pub models: Vec<Model>,
    /// Models to remove.
    pub removed_models: Vec<ModelId>,
    /// Upstreams to remove.
    pub removed_upstreams: Vec<UpstreamName>,
}

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

/// A position in the request log, in the ledger or in the audit log. Each is append-only and has
/// its own positions, in ascending order. Zero is before the first row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(pub i64);

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
