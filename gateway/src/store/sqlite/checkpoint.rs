//! When the write-ahead log is checkpointed: copied back into the file.
//!
//! That adds to the file what is new in the log, at most as much as the log takes. A log that grew until
//! nothing was left could not be copied back any more, and the disk would stay full; so there is a
//! checkpoint the sooner, the less room there is.

use std::path::PathBuf;

use rusqlite::Connection;

/// The length of the log at which there is a checkpoint where there is room, in pages: 16 MiB instead of
/// SQLite's 4, so that pages which many batches touch are copied back a quarter as often.
const MAX_WAL_PAGES: u64 = 4_096;
/// SQLite's pages, in bytes.
const PAGE: u64 = 4_096;

/// The checkpoints of one database.
pub(super) struct Checkpoints {
    path: Option<PathBuf>,
    /// The length of the log at which there is one now, in pages.
    longest: u64,
}

impl Checkpoints {
    /// Those of the database that `connection` writes.
    pub(super) fn of(connection: &Connection) -> Self {
        let mut checkpoints = Self { path: connection.path().map(PathBuf::from), longest: 0 };
        checkpoints.fit(connection);
        checkpoints
    }

    /// Has the next one made while there is room for it. To be called after each change.
    pub(super) fn fit(&mut self, connection: &Connection) {
        let disk = self.path.as_ref().and_then(|path| rustix::fs::statvfs(path).ok());
        let longest = disk.map_or(MAX_WAL_PAGES, |disk| longest(disk.f_bavail * disk.f_frsize));
        // if it fails, there is one when there was to be before
        if longest != self.longest
            && connection.pragma_update(None, "wal_autocheckpoint", longest.cast_signed()).is_ok()
        {
            self.longest = longest;
        }
    }
}

/// Half of the `free` bytes in pages: the log, what it adds to the file, and the change that takes it
/// beyond this length have room.
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
