//! A copy of the database, made page by page while it is in use, and checked.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::background_reads::CancelHandle;
use super::codec::ReadColumn;
use crate::store::{StoreCopy, StoreError};

/// How many pages are copied before it is asked whether anybody waits.
const STEP: i32 = 1_024;

/// A copy has damage, or its original has.
#[derive(Debug, thiserror::Error)]
#[error("the copy of the database is damaged: {0}")]
struct Damaged(String);

/// Removes a file when dropped.
struct Leftover(PathBuf);

/// Copies the database at `path`, which `source` has open. The copy is beside it until it is
/// finished, and then only in the answer.
pub(super) fn copy(
    source: &mut Connection,
    path: &Path,
    wanted: &CancelHandle,
) -> Result<StoreCopy, StoreError> {
    let place = beside(path);
    remove(path)?;
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&place)?;
    let _leftover = Leftover(place.clone());
    let mut target = Connection::open(&place)?;
    wanted.interrupts(&target);
    target.pragma_update(None, "journal_mode", "off")?;
    target.pragma_update(None, "synchronous", "off")?;

    // One view for the whole copy: without it, every commit would start the copy anew.
    let view = source.transaction()?;
    view.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    let backup = Backup::new(&view, &mut target)?;
    while backup.step(STEP)? != StepResult::Done {
        wanted.check()?;
    }
    drop(backup);
    drop(view);

    // One file, without a log beside it.
    target.pragma_update(None, "journal_mode", "delete")?;
    check(&target, wanted)?;
    drop(target);
    let file = File::open(&place)?;
    let bytes = file.metadata()?.len();
    Ok(StoreCopy { file, bytes })
}

/// Removes the copy that an end in the middle has left beside `path`.
pub(super) fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(beside(path)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn beside(path: &Path) -> PathBuf {
    path.with_extension("copy")
}

fn check(target: &Connection, wanted: &CancelHandle) -> Result<(), StoreError> {
    let mut pragma = target.prepare("PRAGMA quick_check(1)")?;
    let verdict: String = pragma.query_row([], |row| row.column(0))?;
    wanted.check()?;
    if verdict == "ok" {
        return Ok(());
    }
    Err(StoreError::Unavailable(Damaged(verdict).into()))
}

impl Drop for Leftover {
    fn drop(&mut self) {
        // It is removed at the next copy or start, if not now.
        let _ = std::fs::remove_file(&self.0);
    }
}
