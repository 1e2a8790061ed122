//! The threshold at which the write-ahead log is checkpointed.
//!
//! A checkpoint adds at most the length of the log to the file. If the log grew until the disk is
//! full, it could not be checkpointed and the disk would stay full. The threshold therefore
//! decreases with the free space. It does not bound the log during a long read (see
//! `background_reads.rs`), which delays the checkpoints until it ends.

use std::path::PathBuf;

use rusqlite::Connection;

/// The maximum threshold, in pages: 16 MiB instead of SQLite's 4 MiB, so that pages that many
/// batches change are copied a quarter as often.
const MAX_WAL_PAGES: u64 = 4_096;
/// The page size of SQLite, in bytes.
const PAGE: u64 = 4_096;

/// The checkpoint threshold of one database.
pub(super) struct CheckpointThreshold {
    path: Option<PathBuf>,
    /// The current threshold, in pages.
    threshold: u64,
}

impl CheckpointThreshold {
    /// Sets the threshold of the database that `connection` writes.
    pub(super) fn of(connection: &Connection) -> Self {
        let mut threshold = Self { path: connection.path().map(PathBuf::from), threshold: 0 };
        threshold.update(connection);
        threshold
    }

    /// Adapts the threshold to the free space. Must be called after each write.
    pub(super) fn update(&mut self, connection: &Connection) {
        let disk = self.path.as_ref().and_then(|path| rustix::fs::statvfs(path).ok());
        let threshold = disk.map_or(MAX_WAL_PAGES, |disk| threshold(disk.f_bavail * disk.f_frsize));
        // On failure, the earlier threshold remains.
        if threshold != self.threshold
            && connection.pragma_update(None, "wal_autocheckpoint", threshold.cast_signed()).is_ok()
        {
            self.threshold = threshold;
        }
    }
}

/// Returns half of the `free` bytes, in pages. There must be space for the log, for the pages that
/// a checkpoint adds to the file, and for the write that exceeds the threshold.
fn threshold(free: u64) -> u64 {
    (free / 2 / PAGE).clamp(1, MAX_WAL_PAGES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threshold_leaves_space_for_the_checkpoint() {
        for (free, expected) in [(0, 1), (9_000, 1), (8 << 20, 1_024), (32 << 20, 4_096)] {
            assert_eq!(threshold(free), expected, "{free}");
        }
        assert_eq!(threshold(u64::MAX), MAX_WAL_PAGES);
    }
}
