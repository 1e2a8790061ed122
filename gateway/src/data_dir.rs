//! The data directory: its files, its lock, and a check that the database is not lost.
//!
//! Invariant: the first start creates the database and syncs its schema to the disk before it creates the journal
//! or `seal.key`. A directory that has one of these but no database has therefore lost its database, at whatever
//! point an earlier process or host crashed. Creating a new one would hide the loss.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::{Instant, sleep};

use crate::secrets::seal::KEY_FILE;
use store::StoreError;
use store::sqlite::SqliteStore;

/// The name of the database file.
pub(crate) const DATABASE: &str = "tollgate.db";
/// The name of the journal's directory.
pub(crate) const JOURNAL: &str = "journal";
/// The directory of copies of the database.
pub(crate) const BACKUPS: &str = "backups";
/// The name of the database's write-ahead log. SQLite removes it when it opens a missing database.
pub(crate) const WRITE_AHEAD_LOG: &str = "tollgate.db-wal";
/// The lock file, held by the process that uses the data directory.
pub(crate) const LOCK: &str = "lock";
/// How long to wait for a process that is just ending to release the data directory.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a gateway cannot start on a data directory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DataDirError {
    /// The database is missing.
    #[error(
        "`{}` is missing or empty, but {} in `{}` are from a gateway that has run here; to restore it, put a backup \
         (`ctl backup`) there as `{DATABASE}`; to begin anew, without accounts, keys and balances, move {} out of \
         the directory",
        dir.join(DATABASE).display(), quoted(left), dir.display(), quoted(left)
    )]
    NoDatabase {
        /// The data directory.
        dir: PathBuf,
        /// The files of an earlier process in it.
        left: Vec<&'static str>,
    },
    /// The database outside of the directory is empty.
    #[error(
        "the database `{database}` is empty, but {} in `{}` are from a gateway that has run here; if the database was \
         lost, restore it; to begin anew, without accounts, keys and balances, use another data directory",
        quoted(left), dir.display()
    )]
    EmptyDatabase {
        /// The address of the database.
        database: String,
        /// The data directory.
        dir: PathBuf,
        /// The files of an earlier process in it.
        left: Vec<&'static str>,
    },
    /// The database cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Makes `dir` if it is missing, readable by its owner only.
///
/// # Errors
/// It cannot be made.
pub(crate) fn make(dir: &Path) -> Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(dir);
    made.with_context(|| format!("making the data directory `{}`", dir.display()))
}

/// Returns the space on the disk of `dir` that this process may use, in bytes.
///
/// # Errors
/// The directory cannot be accessed.
pub(crate) fn free_bytes(dir: &Path) -> std::io::Result<u64> {
    let disk = rustix::fs::statvfs(dir)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Locks `dir` for this process as long as the file is open: two gateways would replay each other's journals.
///
/// # Errors
/// Another process has it.
pub(crate) async fn lock(dir: &Path) -> Result<File> {
    let path = dir.join(LOCK);
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
    let file = file.with_context(|| format!("opening `{}`", path.display()))?;
    let deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                sleep(Duration::from_millis(20)).await;
            }
            Err(error) => {
                return Err(error).with_context(|| {
                    format!(
                        "another gateway is using `{}`; choose another directory with --data-dir",
                        dir.display()
                    )
                });
            }
        }
    }
}

/// Checks that `dir` has not lost its database. Blocks.
///
/// # Errors
/// [`DataDirError::NoDatabase`] if there are files of an earlier process but no database.
pub(crate) fn check(dir: &Path) -> Result<(), DataDirError> {
    let left = left_in(dir);
    if left.is_empty() || !SqliteStore::is_uninitialized(&dir.join(DATABASE))? {
        return Ok(());
    }
    Err(DataDirError::NoDatabase { dir: dir.to_path_buf(), left })
}

/// Like [`check`], for a `database` outside of the directory. Blocks.
///
/// # Errors
/// [`DataDirError::EmptyDatabase`] if there are files of an earlier process but the database
/// `is_uninitialized`.
pub(crate) fn check_external(
    dir: &Path,
    database: &str,
    is_uninitialized: bool,
) -> Result<(), DataDirError> {
    let left = left_in(dir);
    if left.is_empty() || !is_uninitialized {
        return Ok(());
    }
    Err(DataDirError::EmptyDatabase { database: database.to_owned(), dir: dir.to_path_buf(), left })
}

/// Returns the files of an earlier process in `dir`.
fn left_in(dir: &Path) -> Vec<&'static str> {
    let journal = dir.join(JOURNAL);
    let has_journal =
        std::fs::read_dir(journal).is_ok_and(|mut segments| segments.next().is_some());
    let has_log = std::fs::metadata(dir.join(WRITE_AHEAD_LOG))
        .is_ok_and(|log| log.is_file() && log.len() > 0);
    [(JOURNAL, has_journal), (KEY_FILE, dir.join(KEY_FILE).exists()), (WRITE_AHEAD_LOG, has_log)]
        .into_iter()
        .filter_map(|(name, exists)| exists.then_some(name))
        .collect()
}

fn quoted(names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
