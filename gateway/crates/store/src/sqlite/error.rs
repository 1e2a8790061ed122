//! Maps errors of SQLite to those of the store.

use rusqlite::ErrorCode;
use rusqlite::ffi::{
    SQLITE_CONSTRAINT_FOREIGNKEY, SQLITE_CONSTRAINT_PRIMARYKEY, SQLITE_CONSTRAINT_UNIQUE,
};

use crate::{DiskFault, StoreError};

/// The store was closed.
#[derive(Debug, thiserror::Error)]
#[error("the store was closed")]
pub(super) struct ClosedError;

/// The caller dropped the future, so that nothing receives this error.
#[derive(Debug, thiserror::Error)]
#[error("the read was cancelled")]
pub(super) struct CancelledError;

/// A write panicked, which is a bug, and was rolled back.
#[derive(Debug, thiserror::Error)]
#[error("a write to the store panicked")]
pub(super) struct PanickedError;

/// A newer version of the gateway wrote the database.
#[derive(Debug, thiserror::Error)]
#[error(
    "it was written by a newer version of the gateway{} (its schema is {found}, ours is {known}); start that version, \
     or go back to a copy of the database from before its upgrade",
    writer.as_ref().map(|writer| format!(", {writer}")).unwrap_or_default()
)]
pub(super) struct NewerSchemaError {
    /// The schema version of the file.
    pub(super) found: u32,
    /// The newest known schema version.
    pub(super) known: u32,
    /// The version of the program that wrote it, if it says so.
    pub(super) writer: Option<String>,
}

/// The database does not use a write-ahead log.
#[derive(Debug, thiserror::Error)]
#[error("it cannot use a write-ahead log (its journal mode is `{0}`)")]
pub(super) struct JournalModeError(pub(super) String);

/// Maps constraint violations to store errors.
pub(super) trait Constrained<T> {
    /// Maps a violated uniqueness constraint to [`StoreError::Conflict`].
    fn or_conflict(self, text: impl FnOnce() -> String) -> Result<T, StoreError>;
    /// Maps a violated foreign key to [`StoreError::NotFound`].
    fn or_not_found(self) -> Result<T, StoreError>;
}

impl<T> Constrained<T> for Result<T, StoreError> {
    fn or_conflict(self, text: impl FnOnce() -> String) -> Result<T, StoreError> {
        let exists = [SQLITE_CONSTRAINT_PRIMARYKEY, SQLITE_CONSTRAINT_UNIQUE];
        self.map_err(|error| match constraint(&error) {
            Some(code) if exists.contains(&code) => StoreError::Conflict(text()),
            _ => error,
        })
    }

    fn or_not_found(self) -> Result<T, StoreError> {
        self.map_err(|error| match constraint(&error) {
            Some(SQLITE_CONSTRAINT_FOREIGNKEY) => StoreError::NotFound,
            _ => error,
        })
    }
}

impl<T> Constrained<T> for rusqlite::Result<T> {
    fn or_conflict(self, text: impl FnOnce() -> String) -> Result<T, StoreError> {
        self.map_err(StoreError::from).or_conflict(text)
    }

    fn or_not_found(self) -> Result<T, StoreError> {
        self.map_err(StoreError::from).or_not_found()
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        let fault = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => DiskFault::Full,
            Some(ErrorCode::ReadOnly) => DiskFault::ReadOnly,
            Some(ErrorCode::SystemIoFailure) => DiskFault::Failing,
            _ => return Self::Unavailable(error.into()),
        };
        Self::Disk { fault, source: error.into() }
    }
}

fn constraint(error: &StoreError) -> Option<i32> {
    let StoreError::Unavailable(source) = error else { return None };
    source.downcast_ref::<rusqlite::Error>()?.sqlite_error().map(|error| error.extended_code)
}
