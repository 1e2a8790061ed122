//! Maps errors of PostgreSQL to those of the store.

use std::time::Duration;

use deadpool_postgres::PoolError;
use tokio_postgres::error::SqlState;

use crate::StoreError;

/// A newer version of the gateway wrote the database.
#[derive(Debug, thiserror::Error)]
#[error(
    "it was written by a newer version of the gateway{} (its schema is {found}, which gateways with schema {} or \
     later may use; ours is {known})",
    writer.as_ref().map(|writer| format!(", {writer}")).unwrap_or_default(), oldest.unwrap_or(*found)
)]
pub(super) struct NewerSchemaError {
    /// The schema version of the database.
    pub(super) found: i64,
    /// The newest known schema version.
    pub(super) known: i64,
    /// The oldest schema version whose gateways may use the database, if it says so.
    pub(super) oldest: Option<i64>,
    /// The version of the program that migrated it, if it says so.
    pub(super) writer: Option<String>,
}

/// The server acknowledges commits that a crash can lose. The gateway deletes its journal of
/// records once they are committed.
#[derive(Debug, thiserror::Error)]
#[error(
    "`synchronous_commit` is `off`, with which committed records can be lost; set it to `on` for this database"
)]
pub(super) struct AsynchronousCommitError;

/// A migration into the database did not end, or its result differs from its source.
#[derive(Debug, thiserror::Error)]
#[error(
    "it is the result of an incomplete migration (`gateway migrate`, begun at {0}); delete it, create an empty \
     database, and migrate again"
)]
pub(super) struct IncompleteMigrationError(pub(super) String);

/// The target of a migration is in use.
#[derive(Debug, thiserror::Error)]
#[error("it is not empty (table `{0}` has rows); migrate into an empty database")]
pub(super) struct NotEmptyError(pub(super) &'static str);

/// This process is no longer the one of its node, and must not write any more.
#[derive(Debug, thiserror::Error)]
#[error("another gateway has taken over this node, or it was removed")]
pub(super) struct FencedError;

/// The server did not answer a heartbeat.
#[derive(Debug, thiserror::Error)]
#[error("the server did not answer within {} ms", .0.as_millis())]
pub(super) struct HeartbeatTimeoutError(pub(super) Duration);

/// A later operation on the allocations of this process was executed.
#[derive(Debug, thiserror::Error)]
#[error("a later operation was executed")]
pub(super) struct SupersededOperationError;

/// The database did not answer in time.
#[derive(Debug, thiserror::Error)]
#[error("the database did not answer in time")]
pub(super) struct StalledError;

/// Other transactions kept tables locked that a migration changes.
#[derive(Debug, thiserror::Error)]
#[error(
    "its schema cannot be migrated, because other transactions lock its tables ({0} attempts were made); end them, \
     such as a `pg_dump` or an idle session (see `pg_stat_activity`), and start again"
)]
pub(super) struct LockedSchemaError(pub(super) u32);

/// A row that always exists is missing.
#[derive(Debug, thiserror::Error)]
#[error("the database was changed by another program: `{0}` is empty")]
pub(super) struct MissingRowError(pub(super) &'static str);

/// Maps constraint violations to store errors.
pub(super) trait Constrained<T> {
    /// Maps a violated uniqueness constraint to [`StoreError::Conflict`].
    fn or_conflict(self, text: impl FnOnce() -> String) -> Result<T, StoreError>;
    /// Maps a violated foreign key to [`StoreError::NotFound`].
    fn or_not_found(self) -> Result<T, StoreError>;
}

impl<T> Constrained<T> for Result<T, StoreError> {
    fn or_conflict(self, text: impl FnOnce() -> String) -> Result<T, StoreError> {
        self.map_err(|error| match sql_state(&error) {
            Some(state) if *state == SqlState::UNIQUE_VIOLATION => StoreError::Conflict(text()),
            _ => error,
        })
    }

    fn or_not_found(self) -> Result<T, StoreError> {
        self.map_err(|error| match sql_state(&error) {
            Some(state) if *state == SqlState::FOREIGN_KEY_VIOLATION => StoreError::NotFound,
            _ => error,
        })
    }
}

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Unavailable(error.into())
    }
}

impl From<PoolError> for StoreError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => error.into(),
            other => Self::Unavailable(other.into()),
        }
    }
}

/// Returns whether a statement failed because a row exists.
pub(super) fn is_repetition(error: &StoreError) -> bool {
    sql_state(error).is_some_and(|state| *state == SqlState::UNIQUE_VIOLATION)
}

/// Returns whether a statement failed because it waited too long for a lock.
pub(super) fn is_lock_timeout(error: &StoreError) -> bool {
    sql_state(error).is_some_and(|state| *state == SqlState::LOCK_NOT_AVAILABLE)
}

/// Returns an error unless a statement changed something.
pub(super) fn expect_changed(rows: u64) -> Result<(), StoreError> {
    if rows == 0 { Err(StoreError::NotFound) } else { Ok(()) }
}

/// Returns the code of an error of the server.
pub(super) fn sql_state(error: &StoreError) -> Option<&SqlState> {
    let StoreError::Unavailable(source) = error else { return None };
    source.downcast_ref::<tokio_postgres::Error>()?.code()
}
