//! Online copies of the database, page by page, with an integrity check of the copy.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::cancel::CancelHandle;
use super::codec::ReadColumn;
use crate::{StoreCopy, StoreError};

/// The number of pages that are copied between cancellation checks.
const PAGES_PER_STEP: i32 = 1_024;

/// The copy is corrupt, and possibly the original.
#[derive(Debug, thiserror::Error)]
#[error("the copy of the database is damaged: {0}")]
struct CorruptCopyError(String);

/// A new file, which is removed on drop unless it is kept.
pub(super) struct NewFile {
    path: PathBuf,
    is_kept: bool,
}

/// Copies the database at `path`, which `source` has open. The copy is a file in the same
/// directory; it is unlinked at the end, so that only the returned handle refers to it.
pub(super) fn copy(
    source: &mut Connection,
    path: &Path,
    cancel: &CancelHandle,
) -> Result<StoreCopy, StoreError> {
    remove(path)?;
    let target = copy_path(path);
    let _removed = copy_into(source, &target, cancel)?;
    let file = File::open(&target)?;
    let bytes = file.metadata()?.len();
    Ok(StoreCopy { file, bytes })
}

/// Copies the database that `source` has open into the new file `target_path`, and checks the copy.
/// The file is not synced.
pub(super) fn copy_into(
    source: &mut Connection,
    target_path: &Path,
    cancel: &CancelHandle,
) -> Result<NewFile, StoreError> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(target_path)?;
    let file = NewFile { path: target_path.to_owned(), is_kept: false };
    let mut target = Connection::open(target_path)?;
    cancel.add_connection(&target)?;
    target.pragma_update(None, "journal_mode", "off")?;
    target.pragma_update(None, "synchronous", "off")?;

    // One read transaction for the whole copy: otherwise each commit would restart it.
    let view = source.transaction()?;
    view.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    let backup = Backup::new(&view, &mut target)?;
    while backup.step(PAGES_PER_STEP)? != StepResult::Done {
        cancel.check()?;
    }
    drop(backup);
    drop(view);

    // Makes the copy a single file without a journal.
    target.pragma_update(None, "journal_mode", "delete")?;
    check(&target, cancel)?;
    drop(target);
    Ok(file)
}

/// Removes the copy that a crash left behind.
pub(super) fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(copy_path(path)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns the path of the copy: the complete name of the database with a suffix, like the names of
/// SQLite's own side files, so that each database has its own. Earlier versions replaced the
/// extension; a copy that they left behind stays, because it could be another file.
fn copy_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-copy");
    name.into()
}

fn check(target: &Connection, cancel: &CancelHandle) -> Result<(), StoreError> {
    let mut pragma = target.prepare("PRAGMA quick_check(1)")?;
    let verdict: String = pragma.query_row([], |row| row.column(0))?;
    cancel.check()?;
    if verdict == "ok" {
        return Ok(());
    }
    Err(StoreError::Unavailable(CorruptCopyError(verdict).into()))
}

impl NewFile {
    /// Keeps the file.
    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // If this fails, the next copy or start removes the file.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
