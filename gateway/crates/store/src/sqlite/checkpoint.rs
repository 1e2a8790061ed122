//! Decides when the write-ahead log is checkpointed.
//!
//! A checkpoint adds at most the length of the log to the file. If the log grew until no space was left, it
//! could not be checkpointed any more and the disk would stay full. So the less space there is, the earlier
//! the checkpoint.

use std::path::PathBuf;

use rusqlite::Connection;

/// The length of the log at which it is checkpointed if there is space, in pages: 16 MiB instead of SQLite's
/// 4, so that pages that many batches touch are copied a quarter as often.
const MAX_WAL_PAGES: u64 = 4_096;
/// The page size of SQLite, in bytes.
const PAGE: u64 = 4_096;

/// The checkpoints of one database.
pub(super) struct Checkpoints {
    path: Option<PathBuf>,
    /// The current threshold, in pages.
    longest: u64,
}

impl Checkpoints {
    /// Creates the checkpoints of the database that `connection` writes.
    pub(super) fn of(connection: &Connection) -> Self {
        let mut checkpoints = Self { path: connection.path().map(PathBuf::from), longest: 0 };
        checkpoints.fit(connection);
        checkpoints
    }

    /// Adapts the threshold to the free space. Must be called after each change.
    pub(super) fn fit(&mut self, connection: &Connection) {
        let disk = self.path.as_ref().and_then(|path| rustix::fs::statvfs(path).ok());
        let longest = disk.map_or(MAX_WAL_PAGES, |disk| longest(disk.f_bavail * disk.f_frsize));
        // On failure, the earlier threshold remains.
        if longest != self.longest
            && connection.pragma_update(None, "wal_autocheckpoint", longest.cast_signed()).is_ok()
        {
            self.longest = longest;
        }
    }
}

/// Returns half of the `free` bytes in pages: there must be space for the log, for what it adds to the file,
/// and for the change that exceeds the threshold.
fn longest(free: u64) -> u64 {
    (free / 2 / PAGE).clamp(1, MAX_WAL_PAGES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_leaves_room_for_what_it_adds_to_the_file() {
        for (free, expected) in [(0, 1), (9_000, 1), (8 << 20, 1_024), (32 << 20, 4_096)] {
            assert_eq!(longest(free), expected, "{free}");
        }
        assert_eq!(longest(u64::MAX), MAX_WAL_PAGES);
    }
}
