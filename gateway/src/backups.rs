//! Scheduled backups of the database: written, compared with a checked copy, and only then the oldest deleted.
//!
//! The store makes the copy on a separate connection, so that requests do not wait. A failure is logged, reported by
//! the diagnosis, and repeated.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::database_copies;
use store::{Store, StoreCopy, StoreError};

/// The name of a backup, with its time in UTC.
const NAME: &str = "tollgate-%Y%m%dT%H%M%SZ.db";
/// How often to see whether a backup is due.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// The time after a failure until the next attempt.
const RETRY_AFTER: Duration = Duration::from_mins(10);
const CHUNK_BYTES: usize = 256 * 1024;

/// The settings of scheduled backups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupSettings {
    /// The time between two backups.
    pub every: Duration,
    /// The number of backups that are kept.
    pub keep: NonZeroUsize,
    /// The directory of the backups.
    pub dir: PathBuf,
}

/// The state of scheduled backups, for the diagnosis.
#[derive(Debug)]
pub struct BackupStatus {
    settings: BackupSettings,
    outcome: Mutex<Outcome>,
}

/// What is known of the backups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The time of the newest backup.
    pub newest: Option<Timestamp>,
    /// Why the last attempt failed; `None` if it did not.
    pub failure: Option<String>,
}

/// The background work. Must be run until it returns.
pub struct BackupTask {
    status: Arc<BackupStatus>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

/// The reason why a backup failed.
#[derive(Debug, thiserror::Error)]
enum BackupError {
    #[error("the database cannot be copied")]
    Store(#[from] StoreError),
    #[error("`{0}` cannot be written")]
    Io(PathBuf, #[source] io::Error),
    #[error("what was written to `{0}` differs from the database")]
    Differs(PathBuf),
}

impl BackupStatus {
    /// Returns the settings.
    pub fn settings(&self) -> &BackupSettings {
        &self.settings
    }

    /// Returns what is known of the backups.
    pub fn outcome(&self) -> Outcome {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, outcome: Outcome) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = outcome;
    }
}

impl BackupTask {
    /// Creates the task and the state that it updates.
    pub fn new(
        settings: BackupSettings,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
    ) -> (Self, Arc<BackupStatus>) {
        let status = Arc::new(BackupStatus { settings, outcome: Mutex::default() });
        (Self { status: status.clone(), store, clock }, status)
    }

    /// Makes backups until `stop` is cancelled. A backup in progress is then abandoned, and its file deleted.
    pub async fn run(self, stop: CancellationToken) {
        let mut checks = tokio::time::interval(CHECK_INTERVAL);
        let backups = async {
            let dir = self.status.settings.dir.clone();
            let found = tokio::task::spawn_blocking(move || existing(&dir)).await;
            // A directory that does not exist yet has none; one that cannot be read fails when it is written.
            let newest = found.ok().and_then(Result::ok).and_then(|found| Some(found.last()?.0));
            self.status.set(Outcome { newest, failure: None });
            let mut failed_at = None;
            loop {
                checks.tick().await;
                let now = self.clock.monotonic();
                let may_try = failed_at.is_none_or(|failed_at| now >= failed_at + RETRY_AFTER);
                if may_try && self.is_due() {
                    failed_at = self.attempt().await.then(|| self.clock.monotonic());
                }
            }
        };
        stop.run_until_cancelled(backups).await;
    }

    /// Returns whether a backup is due. One of the future, before a correction of the clock, counts as none.
    fn is_due(&self) -> bool {
        let now = self.clock.now();
        let every = SignedDuration::try_from(self.status.settings.every);
        let every = every.unwrap_or(SignedDuration::MAX);
        let newest = self.status.outcome().newest.filter(|newest| *newest <= now);
        newest.is_none_or(|newest| now.duration_since(newest) >= every)
    }

    /// Makes a backup, and reports the outcome. Returns whether it failed.
    async fn attempt(&self) -> bool {
        let now = self.clock.now();
        let made = self.make(now).await;
        let outcome = match &made {
            Ok((path, bytes)) => {
                tracing::info!(event = "backup_made", path = %path.display(), bytes, "made a backup");
                Outcome { newest: Some(now), failure: None }
            }
            Err(error) => {
                let failure: &dyn std::error::Error = error;
                tracing::error!(event = "backup_failed", error = failure, "cannot make a backup");
                let cause = failure.source().map(|cause| format!(": {cause}")).unwrap_or_default();
                let failure = Some(format!("{error}{cause}"));
                Outcome { failure, ..self.status.outcome() }
            }
        };
        self.status.set(outcome);
        made.is_err()
    }

    async fn make(&self, now: Timestamp) -> Result<(PathBuf, u64), BackupError> {
        let copy = self.store.copy().await?;
        let bytes = copy.bytes;
        let BackupSettings { keep, dir, .. } = self.status.settings.clone();
        let path = dir.join(now.to_zoned(TimeZone::UTC).strftime(NAME).to_string());
        let target = path.clone();
        let writing = tokio::task::spawn_blocking(move || {
            write(copy, &dir, &target)?;
            delete_oldest(&dir, keep, now).map_err(|error| BackupError::Io(dir, error))
        });
        let panicked = |error: tokio::task::JoinError| BackupError::Io(path.clone(), error.into());
        writing.await.map_err(panicked)??;
        Ok((path, bytes))
    }
}

/// Writes `copy` to the new file `target` in `dir`, reads it again from there and compares.
fn write(mut copy: StoreCopy, dir: &Path, target: &Path) -> Result<(), BackupError> {
    let failure = |error| BackupError::Io(target.to_owned(), error);
    crate::data_dir::make(dir)
        .map_err(|error| BackupError::Io(dir.to_owned(), io::Error::other(error)))?;
    // Readable by its owner only, and deleted if this fails.
    let mut file = NamedTempFile::new_in(dir).map_err(failure)?;
    let written = digest(&mut copy.file, |chunk| file.write_all(chunk)).map_err(failure)?;
    file.as_file().sync_all().map_err(failure)?;
    let mut again = file.reopen().map_err(failure)?;
    again.seek(SeekFrom::Start(0)).map_err(failure)?;
    let read = digest(&mut again, |_| Ok(())).map_err(failure)?;
    if written != read || written.1 != copy.bytes {
        return Err(BackupError::Differs(target.to_owned()));
    }
    file.persist(target).map_err(|error| failure(error.error))?;
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(failure)
}

/// Reads `file` to its end, passes it on in chunks, and returns its digest and its length in bytes.
fn digest(
    file: &mut File,
    mut pass: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<([u8; 32], u64)> {
    let (mut hash, mut bytes, mut chunk) = (Sha256::new(), 0, vec![0; CHUNK_BYTES]);
    loop {
        let count = file.read(&mut chunk)?;
        if count == 0 {
            return Ok((hash.finalize().into(), bytes));
        }
        hash.update(&chunk[..count]);
        pass(&chunk[..count])?;
        bytes += count as u64;
    }
}

/// Returns the backups in `dir`, the oldest first.
fn existing(dir: &Path) -> io::Result<Vec<(Timestamp, PathBuf)>> {
    database_copies::list(dir, |name| {
        let time = jiff::civil::DateTime::strptime(NAME, name).ok()?;
        Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp())
    })
}

/// Deletes the oldest backups beyond `keep`. Those of the future, before a correction of the clock, go first: they would
/// stay the newest for as long as the clock was ahead.
fn delete_oldest(dir: &Path, keep: NonZeroUsize, now: Timestamp) -> io::Result<()> {
    let mut found = existing(dir)?;
    found.sort_by_key(|(time, _)| (*time <= now, *time));
    database_copies::delete_first(&found, keep.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that was ahead for a while must not leave its backups as the only ones.
    #[test]
    fn backups_of_the_future_are_deleted_first() {
        let dir = tempfile::tempdir().unwrap();
        let now: Timestamp = "2026-11-25T12:00:00Z".parse().unwrap();
        let hours = [-2, -1, 0, 9_000].map(|hours| now + SignedDuration::from_hours(hours));
        let path = |time: Timestamp| dir.path().join(time.strftime(NAME).to_string());
        for time in hours {
            std::fs::write(path(time), "").unwrap();
        }
        delete_oldest(dir.path(), NonZeroUsize::new(2).unwrap(), now).unwrap();
        let left = existing(dir.path()).unwrap();
        assert_eq!(left.iter().map(|(time, _)| *time).collect::<Vec<_>>(), hours[1..3]);
    }
}
