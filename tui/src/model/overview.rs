//! The state of the overview: the account, its use, and the live request log.

use super::record::{Record, Snapshot, Tailed};

use std::collections::VecDeque;

/// How many records the log keeps.
pub const LOG_LENGTH: usize = 50;

/// The overview.
#[derive(Debug, Default)]
pub struct Overview {
    /// Account, limits and sums; `None` until they were fetched.
    pub snapshot: Option<Snapshot>,
    /// Whether they are being fetched because the user asked.
    pub refreshing: bool,
    /// The request log.
    pub log: Log,
}

/// The last requests.
#[derive(Debug, Default)]
pub struct Log {
    /// The records, newest first; at most [`LOG_LENGTH`].
    pub records: VecDeque<Record>,
    /// The row under the cursor. On the newest row it stays there, on any other it stays with its record.
    pub selected: usize,
    /// How many records the server skipped because we were too slow.
    pub skipped: u64,
    /// Whether all history has arrived.
    pub live: bool,
}

// === impl Log ===

impl Log {
    /// Takes in a piece of the log.
    pub fn extend(&mut self, tailed: Tailed) {
        if tailed.restarted {
            *self = Self::default();
        }
        for record in tailed.records {
            self.records.push_front(record);
            if self.selected > 0 {
                self.selected += 1;
            }
        }
        self.records.truncate(LOG_LENGTH);
        self.select(self.selected);
        self.skipped = self.skipped.saturating_add(tailed.dropped);
        self.live |= tailed.live;
    }

    /// Puts the cursor on `row`, or on the last one if there are fewer.
    pub fn select(&mut self, row: usize) {
        self.selected = row.min(self.records.len().saturating_sub(1));
    }
}
