//! What a replaced process leaves in the data directory while it finishes its requests.
//!
//! A process that another one replaces (`gateway serve --take-over`) moves its journal aside as `journal.draining-N`, with
//! what the other one must know of its requests ([`OpenRequests`]). Then it closes the store and continues to write that
//! journal. The directory is locked while the process runs. The process that acquires the lock afterwards stores what is
//! left, also if the first one was killed: its successor, or a later start.

mod open_requests;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub(crate) use self::open_requests::{OpenRequest, OpenRequests};
use crate::response_store::ResponseFile;
use domain::response::StoredResponse;

/// The names of the directories are this and a number.
const PREFIX: &str = "journal.draining-";
/// Those of directories that are kept because a part of a journal is damaged.
const DAMAGED_PREFIX: &str = "journal.damaged-";
/// The extension of damaged journal files that a replay has moved aside.
const DAMAGED: &str = "damaged";
/// The file that the process locks.
const LOCK: &str = "lock";
/// The file with [`OpenRequests`].
const OPEN_REQUESTS: &str = "open-requests.json";
/// The file with the responses that the process could not store, one per line.
const RESPONSES: &str = "responses.jsonl";

/// The directory of a process that finishes its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DrainingDir(PathBuf);

/// The lock of a [`DrainingDir`].
#[derive(Debug)]
pub(crate) struct DrainingLock(
    #[expect(dead_code, reason = "the lock lasts until it is dropped")] File,
);

// === impl DrainingDir ===

impl DrainingDir {
    /// Returns the directories in the data directory `data`, oldest first.
    ///
    /// # Errors
    /// The data directory cannot be read.
    pub(crate) fn find_all(data: &Path) -> io::Result<Vec<Self>> {
        Ok(numbered(data, PREFIX)?.into_values().map(Self).collect())
    }

    /// Returns the next directory in `data`, which does not exist.
    ///
    /// # Errors
    /// The data directory cannot be read.
    pub(crate) fn next(data: &Path) -> io::Result<Self> {
        next_name(data, PREFIX).map(Self)
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Prepares the `journal` of this process, which is then moved: locks it, writes `open` into it, and creates the file of
    /// responses that the process cannot store any more.
    ///
    /// # Errors
    /// A file cannot be written or locked.
    pub(crate) fn prepare(
        journal: &Path,
        open: &OpenRequests,
    ) -> io::Result<(DrainingLock, ResponseFile)> {
        let lock = open_lock(journal)?;
        lock.try_lock().map_err(io::Error::from)?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(journal.join(OPEN_REQUESTS))?;
        file.write_all(&serde_json::to_vec(open)?)?;
        file.sync_all()?;
        Ok((DrainingLock(lock), ResponseFile::create(&journal.join(RESPONSES))?))
    }

    /// Returns the lock; `None` while the process still runs.
    ///
    /// # Errors
    /// The file cannot be opened or locked.
    pub(crate) fn try_lock(&self) -> io::Result<Option<DrainingLock>> {
        let lock = open_lock(&self.0)?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(DrainingLock(lock))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Reads what the requests use.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn open_requests(&self) -> io::Result<OpenRequests> {
        Ok(serde_json::from_slice(&std::fs::read(self.0.join(OPEN_REQUESTS))?)?)
    }

    /// Reads the responses that the process could not store so far.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn read_responses(&self) -> io::Result<Vec<StoredResponse>> {
        ResponseFile::read(&self.0.join(RESPONSES))
    }

    /// Removes the directory, whose content was stored. If a part of its journal `has_damage`, it is moved aside instead.
    /// Requires the lock.
    ///
    /// # Errors
    /// It cannot be removed or moved.
    pub(crate) fn discard(&self, _: &DrainingLock, has_damage: bool) -> io::Result<()> {
        // An earlier attempt may have moved damaged files aside.
        let is_aside = |path: &Path| path.extension().is_some_and(|name| name == DAMAGED);
        let mut files = std::fs::read_dir(&self.0)?;
        let has_aside = files.any(|file| file.is_ok_and(|file| is_aside(&file.path())));
        if !has_damage && !has_aside {
            return std::fs::remove_dir_all(&self.0);
        }
        let data = self.0.parent().unwrap_or(Path::new("."));
        let aside = next_name(data, DAMAGED_PREFIX)?;
        std::fs::rename(&self.0, &aside)?;
        tracing::error!(event = "journal_damaged", dir = %aside.display(), "a part of the journal of a replaced process cannot be read; it is kept");
        Ok(())
    }
}

/// Returns the directories in `data` whose names are `prefix` and a number, by their numbers.
fn numbered(data: &Path, prefix: &str) -> io::Result<BTreeMap<u64, PathBuf>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(data)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_prefix(prefix)?.parse().ok());
        if let Some(number) = number {
            found.insert(number, path);
        }
    }
    Ok(found)
}

/// Returns the path in `data` of `prefix` and the number after the last one.
fn next_name(data: &Path, prefix: &str) -> io::Result<PathBuf> {
    let last = numbered(data, prefix)?.last_key_value().map_or(0, |(number, _)| *number);
    Ok(data.join(format!("{prefix}{}", last + 1)))
}

fn open_lock(dir: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(dir.join(LOCK))
}
