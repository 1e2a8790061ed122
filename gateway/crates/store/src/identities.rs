//! Persistence of accounts, their sessions and keys.

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{FoundSession, StoreError};
use domain::account::{Account, Session};
use domain::audit::AuditEntry;
use domain::change::ChangeSeq;
use domain::id::{AccountId, KeyId, SessionId};
use domain::key::Key;
use domain::ledger::Entry;
use domain::model::Model;
use domain::money::Nanos;
use domain::person::Person;
use domain::plan::Plan;
use domain::upstream::Upstream;

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
