//! The files of a data directory, and whether they belong together.
//!
//! Invariant: a start makes the database first, and has its schema on the disk before it makes the journal or
//! `seal.key`. So a directory with one of these and without a database has lost it, at whatever moment an
//! earlier process or machine died: to make a new one there would hide the loss.

use std::path::{Path, PathBuf};

use crate::secrets::seal::KEY_FILE;
use store::StoreError;
use store::sqlite::SqliteStore;

/// The database's file in the data directory.
pub(crate) const DATABASE: &str = "tollgate.db";
/// The journal's directory in the data directory.
pub(crate) const JOURNAL: &str = "journal";
/// The database's write-ahead log; SQLite removes one whose database is gone.
const WRITE_AHEAD_LOG: &str = "tollgate.db-wal";

/// Why a gateway does not start on a data directory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DataDirError {
    /// The database is gone.
    #[error(
        "`{}` is missing or empty, but {} in `{}` belong to a service that has run here; to restore it, put \
         a backup (`ctl backup`) there as `{DATABASE}`; to begin anew, with no accounts, keys or balances, move \
         {} out of the directory",
        dir.join(DATABASE).display(), quoted(left), dir.display(), quoted(left)
    )]
    NoDatabase {
        /// The data directory.
        dir: PathBuf,
        /// What an earlier process left in it.
        left: Vec<&'static str>,
    },
    /// The database cannot be looked at.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Checks that what is in `dir` did not lose its database. Blocks.
///
/// # Errors
/// [`DataDirError::NoDatabase`] if it did.
pub(crate) fn check(dir: &Path) -> Result<(), DataDirError> {
    let journal = dir.join(JOURNAL);
    let has_journal =
        std::fs::read_dir(journal).is_ok_and(|mut segments| segments.next().is_some());
    let has_log = std::fs::metadata(dir.join(WRITE_AHEAD_LOG))
        .is_ok_and(|log| log.is_file() && log.len() > 0);
    let left: Vec<_> = [
        (JOURNAL, has_journal),
        (KEY_FILE, dir.join(KEY_FILE).exists()),
        (WRITE_AHEAD_LOG, has_log),
    ]
    .into_iter()
    .filter_map(|(name, is_there)| is_there.then_some(name))
    .collect();
    if left.is_empty() || !SqliteStore::is_blank(&dir.join(DATABASE))? {
        return Ok(());
    }
    Err(DataDirError::NoDatabase { dir: dir.to_path_buf(), left })
}

fn quoted(names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
