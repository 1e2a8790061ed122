//! What must outlive the process, as the questions that the product asks.
//!
//! Each method is one transaction. Callers make ids and times; a store keeps what it is given and
//! knows no rule. `story.rs` plays one story against every backend; only [`sqlite`] names a database.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;

use domain::account::{Account, Invite, Session};
use domain::audit::AuditEntry;
use domain::expression::Term;
use domain::id::{AccountId, KeyId, ModelId, RequestId, SessionId, UpstreamName};
use domain::idempotency::Answered;
use domain::key::Key;
use domain::ledger::Entry;
use domain::model::Model;
use domain::money::Nanos;
use domain::plan::Plan;
use domain::record::{RequestRecord, RequestStatus};
use domain::response::{FoundItems, StoredResponse, Turn};
use domain::upstream::Upstream;

pub mod audit;
pub mod books;
pub mod consumption;
pub mod sqlite;
#[cfg(test)]
mod story;
pub mod upkeep;

pub use books::Books;
pub use consumption::Consumed;
pub use upkeep::{RetentionCutoff, StoreCopy, Upkeep};

pub use audit::{AuditFilter, AuditLog};

/// Why the store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// What the call names does not exist.
    #[error("not found")]
    NotFound,
    /// What the call adds exists, or what it removes is in use; the text says which.
    #[error("{0}")]
    Conflict(String),
    /// The database did not answer, or not well.
    #[error("the store is unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The disk does not take what is to be written, or does not give what was.
    #[error("{fault}")]
    Disk {
        /// What is the matter with it.
        fault: DiskFault,
        /// What the operating system or the database says.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The disk is not as it should be.
    #[error("the store at `{path}` cannot be opened")]
    Unopened {
        /// The database file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// What is the matter with a disk. `Display` is for operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskFault {
    /// There is no room, or a quota is used up.
    #[error("there is no room on the gateway's disk")]
    Full,
    /// It is mounted read-only, or we may not write to the file.
    #[error("the gateway's disk is read-only")]
    ReadOnly,
    /// It fails to read or write.
    #[error(
        "the gateway's disk fails to read or write (it may be full, at a limit on file sizes, or broken)"
    )]
    Failing,
}

impl DiskFault {
    /// Returns what an operating system's error says of the disk; `None` if nothing.
    pub fn of(error: &std::io::Error) -> Option<Self> {
        use std::io::ErrorKind;
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Some(Self::Full),
            ErrorKind::ReadOnlyFilesystem => Some(Self::ReadOnly),
            ErrorKind::FileTooLarge => Some(Self::Failing),
            _ => None,
        }
    }
}

impl From<std::io::Error> for StoreError {
    fn from(error: std::io::Error) -> Self {
        match DiskFault::of(&error) {
            Some(fault) => Self::Disk { fault, source: error.into() },
            None => Self::Unavailable(error.into()),
        }
    }
}

/// All that the gateway keeps in memory, as of one moment.
#[derive(Debug, Default)]
pub struct Everything {
    /// All accounts.
    pub accounts: Vec<Account>,
    /// The balance of every account that has ledger entries.
    pub balances: Vec<(AccountId, Nanos)>,
    /// All plans.
    pub plans: Vec<Plan>,
    /// All keys that were not revoked.
    pub keys: Vec<Key>,
    /// All models.
    pub models: Vec<Model>,
    /// All upstreams.
    pub upstreams: Vec<Upstream>,
}

/// The whole store. A method that takes an `audit` adds that entry in the transaction of its change.
pub trait Store:
    Identities + Catalogue + Requests + Responses + AuditLog + Books + Consumed + Upkeep
{
}
impl<T: Identities + Catalogue + Requests + Responses + AuditLog + Books + Consumed + Upkeep> Store
    for T
{
}

/// Accounts, sessions, invites and keys.
#[async_trait]
pub trait Identities: Send + Sync {
    /// Returns what the gateway keeps in memory.
    async fn load(&self) -> Result<Everything, StoreError>;

    /// Adds an account with its password hash and its first credit, if any (trial credit is told by
    /// [`Self::trial_given`]), and uses up `invite`. [`StoreError::Conflict`] if the name is taken (names
    /// are compared without case); [`StoreError::NotFound`] if the invite does not hold at the account's `created_at`.
    async fn add_account(
        &self,
        account: &Account,
        password_hash: &str,
        credit: Option<&Entry>,
        invite: Option<[u8; 32]>,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;
    /// Returns how much trial credit was given on the day of `at` (in UTC).
    async fn trial_given(&self, at: Timestamp) -> Result<Nanos, StoreError>;
    /// Writes an account's status and plan. [`StoreError::NotFound`] if there is no such account.
    async fn put_account(&self, account: &Account, audit: &AuditEntry) -> Result<(), StoreError>;
    /// Gives an account another password hash and forgets its sessions but for `keep`. Returns how
    /// many. [`StoreError::NotFound`] if there is no such account.
    async fn set_password(
        &self,
        account: AccountId,
        password_hash: &str,
        keep: [u8; 32],
        audit: &AuditEntry,
    ) -> Result<u64, StoreError>;
    /// Returns an account's id and password hash by its name.
    async fn find_password_hash(
        &self,
        name: &str,
    ) -> Result<Option<(AccountId, String)>, StoreError>;
    /// Adds an invite.
    async fn add_invite(&self, invite: &Invite, audit: &AuditEntry) -> Result<(), StoreError>;

    /// Adds a session, and forgets those that ended before its `created_at`.
    /// [`StoreError::NotFound`] if there is no such account.
    async fn add_session(&self, session: &Session, audit: &AuditEntry) -> Result<(), StoreError>;
    /// Returns a session by the digest of its token, ended or not.
    async fn find_session(&self, digest: [u8; 32]) -> Result<Option<Session>, StoreError>;
    /// Forgets a session; no error if there is none.
    async fn remove_session(&self, digest: [u8; 32]) -> Result<(), StoreError>;
    /// Returns an account's sessions, newest first, ended ones perhaps among them.
    async fn sessions(&self, account: AccountId) -> Result<Vec<Session>, StoreError>;
    /// Forgets one session of an account. [`StoreError::NotFound`] if it has no such session.
    async fn end_session(
        &self,
        account: AccountId,
        id: &SessionId,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;
    /// Forgets an account's sessions but for `keep`. Returns how many.
    async fn end_other_sessions(
        &self,
        account: AccountId,
        keep: [u8; 32],
        audit: &AuditEntry,
    ) -> Result<u64, StoreError>;

    /// Adds a key. [`StoreError::NotFound`] if there is no such account.
    async fn add_key(&self, key: &Key, audit: &AuditEntry) -> Result<(), StoreError>;
    /// Returns a key by its public id.
    async fn find_key(&self, id: &KeyId) -> Result<Option<Key>, StoreError>;
    /// Returns the keys of one account, or all, newest first, with the time of their last use.
    async fn keys(
        &self,
        account: Option<AccountId>,
    ) -> Result<Vec<(Key, Option<Timestamp>)>, StoreError>;
    /// Writes when `old` ends and what its successor is, and adds that. [`StoreError::NotFound`] if
    /// there is no such key, or it was revoked or rotated before.
    async fn rotate_key(
        &self,
        old: &Key,
        successor: &Key,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;
    /// Marks a key as revoked, unless it is already.
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
    /// Adds a plan or replaces the one of that name.
    async fn put_plan(&self, plan: &Plan, audit: &AuditEntry) -> Result<(), StoreError>;
    /// Adds a model or replaces the one of that id, deployments and aliases included.
    /// [`StoreError::NotFound`] if a deployment names an upstream that does not exist;
    /// [`StoreError::Conflict`] if its id or an alias already names a model.
    async fn put_model(&self, model: &Model, audit: &AuditEntry) -> Result<(), StoreError>;
    /// Removes a model; its request records stay.
    async fn remove_model(&self, id: &ModelId, audit: &AuditEntry) -> Result<(), StoreError>;
    /// Adds an upstream or replaces the one of that name.
    async fn put_upstream(&self, upstream: &Upstream, audit: &AuditEntry)
    -> Result<(), StoreError>;
    /// Removes an upstream; [`StoreError::Conflict`] while a model is deployed on it.
    async fn remove_upstream(
        &self,
        name: &UpstreamName,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;
    /// Makes all changes of `update`, with an `audit` entry each, or none. What it removes may be named by
    /// nothing that it leaves, what it adds may name what it adds.
    /// [`StoreError::NotFound`] if a deployment names an upstream that does not exist;
    /// [`StoreError::Conflict`] if a name is taken or an upstream is in use.
    async fn update_catalogue(
        &self,
        update: &CatalogueUpdate,
        audit: &[AuditEntry],
    ) -> Result<(), StoreError>;
    /// Adds `plans`, `upstreams` and `models` if this store has never had any, and remembers that
    /// it was done. Returns whether it did.
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
    /// Plans to add, or to replace those of the same name.
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
    /// Writes a batch of ended requests with their [entries](RequestRecord::entries), one account after
    /// another; a request that is already there is left out, so that a batch may be sent again. Returns the
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
    /// Returns how many records lie after `after` and up to `until`.
    async fn count_requests(
        &self,
        filter: &RequestFilter,
        after: Cursor,
        until: Cursor,
    ) -> Result<u64, StoreError>;
    /// Returns the requests with an idempotency digest that ended at `since` or later, in the order of
    /// their ends; of more than `most`, those that ended last.
    async fn answered_since(
        &self,
        since: Timestamp,
        most: usize,
    ) -> Result<Vec<Answered>, StoreError>;
    /// Returns the cursor of the newest record; zero if there is none.
    async fn newest(&self) -> Result<Cursor, StoreError>;
    /// Returns the sums over the chosen requests. Where a [`Term`] asks for what is not summed, such as
    /// the endpoint, over those that the log still holds.
    async fn summarize(&self, filter: &RequestFilter) -> Result<Summary, StoreError>;
}

/// Responses that later requests may refer to. Every question names the account that asks: a response
/// of another one does not exist.
#[async_trait]
pub trait Responses: Send + Sync {
    /// Keeps responses; those that are there already are left alone. Then forgets whole chains of each
    /// account until what it has stored fits into `account_bytes`, first the one that has not gone on for
    /// the longest time. The chain of the response just kept is the last to lose any, its oldest ones
    /// first, and that response stays, however long it is.
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
    /// Returns what a response and those that it continues add to a conversation, oldest first, as far
    /// as they are there. Stops with the one whose items make it longer than `max_bytes`.
    async fn response_chain(
        &self,
        account: AccountId,
        last: RequestId,
        max_bytes: u64,
    ) -> Result<Vec<Turn>, StoreError>;
    /// Returns those of the items `ids` that are there; of an item that several responses hold, the
    /// newest. Stops with the response that makes them longer than `max_bytes`. Each id is looked up by
    /// itself: how many there are is for the caller to bound.
    async fn find_items(
        &self,
        account: AccountId,
        ids: HashSet<String>,
        max_bytes: u64,
    ) -> Result<FoundItems, StoreError>;
    /// Forgets a response; [`StoreError::NotFound`] if there is none.
    async fn remove_response(&self, account: AccountId, id: RequestId) -> Result<(), StoreError>;
    /// Forgets chains that have not gone on since `before`, up to `most` of their responses. Returns how
    /// many those were; there may be more if it is `most`.
    async fn forget_responses(&self, before: Timestamp, most: u32) -> Result<u32, StoreError>;
}

/// A place in the request log, which only grows. Zero is before the first record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(pub i64);

/// Which requests; every field narrows the choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestFilter {
    /// Of this account.
    pub account: Option<AccountId>,
    /// Of this key.
    pub key: Option<KeyId>,
    /// Of this model.
    pub model: Option<ModelId>,
    /// That ended so.
    pub status: Option<RequestStatus>,
    /// That came in at or after this time.
    pub since: Option<Timestamp>,
    /// That came in before this time.
    pub until: Option<Timestamp>,
    /// For which all of these hold.
    pub terms: Vec<Term>,
}

/// Sums over requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Everything.
    pub totals: Totals,
    /// By model, the dearest first.
    pub by_model: Vec<(Option<ModelId>, Totals)>,
    /// By day in UTC (`2026-11-20`), oldest first.
    pub by_day: Vec<(String, Totals)>,
    /// By key, the dearest first, at most [`MAX_LISTED_KEYS`].
    pub by_key: Vec<KeySum>,
}

/// The most keys that a [`Summary`] tells apart.
pub const MAX_LISTED_KEYS: usize = 1_000;

/// The sum for one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySum {
    /// The key.
    pub key: KeyId,
    /// What its owner calls it; `None` if the store does not know the key.
    pub label: Option<String>,
    /// Whose requests these were.
    pub account: AccountId,
    /// The sum.
    pub totals: Totals,
}

/// A sum over requests; unknown counts are left out of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// How many requests.
    pub requests: u64,
    /// How many failed, were refused or interrupted.
    pub errors: u64,
    /// Input tokens.
    pub input: u64,
    /// Cached input tokens.
    pub cached: u64,
    /// Output tokens.
    pub output: u64,
    /// Reasoning tokens.
    pub reasoning: u64,
    /// What they cost.
    pub cost: Nanos,
}
