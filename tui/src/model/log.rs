//! The request log: the newest records, in bounded memory.

use super::record::{Record, Tailed};
use super::remote::Fetch;

use std::collections::VecDeque;

/// How many records the log keeps.
pub const LOG_LENGTH: usize = 1_000;

/// The last requests. A record that is looked at never changes into another: the cursor either follows,
/// which is said, or stays with its record, for which the log stands still rather than let it go.
#[derive(Debug)]
pub struct Log {
    /// The records, newest first; at most [`LOG_LENGTH`].
    pub records: VecDeque<Record>,
    /// The row under the cursor.
    pub selected: usize,
    /// Whether the cursor goes to whatever is newest; else it stays with its record.
    pub following: bool,
    /// How many records the server skipped because we were too slow.
    pub skipped: u64,
    /// Whether it stands still; what comes in meanwhile waits.
    pub paused: bool,
    /// What waits, oldest first; at most [`LOG_LENGTH`], older ones are let go and counted.
    pub waiting: VecDeque<Record>,
    /// How many came in while it stands still.
    pub missed: u64,
    /// How far it is fetched; `Ready` once all history has arrived.
    pub fetch: Fetch,
}

// === impl Log ===

impl Default for Log {
    fn default() -> Self {
        Self {
            records: VecDeque::new(),
            selected: 0,
            following: true,
            skipped: 0,
            paused: false,
            waiting: VecDeque::new(),
            missed: 0,
            fetch: Fetch::Waiting,
        }
    }
}

impl Log {
    /// Takes in a piece of the log.
    pub fn extend(&mut self, tailed: Tailed) {
        if tailed.restarted {
            *self = Self::default();
        }
        self.paused |= !self.following && self.selected + tailed.records.len() >= LOG_LENGTH;
        if self.paused {
            self.missed = self.missed.saturating_add(tailed.records.len() as u64);
            self.waiting.extend(tailed.records);
            let over = self.waiting.len().saturating_sub(LOG_LENGTH);
            self.waiting.drain(..over);
        } else {
            for record in tailed.records {
                self.push(record);
            }
            self.trim();
        }
        self.skipped = self.skipped.saturating_add(tailed.dropped);
        if tailed.live {
            self.fetch = Fetch::Ready;
        }
    }

    /// Lets it stand still, or takes in what has waited; follows if that leaves no room for the record
    /// under the cursor.
    pub fn pause(&mut self, paused: bool) {
        self.paused = paused;
        if !paused {
            let waiting = std::mem::take(&mut self.waiting);
            if self.selected + waiting.len() >= LOG_LENGTH {
                self.select(0);
            }
            for record in waiting {
                self.push(record);
            }
            self.trim();
            self.missed = 0;
        }
    }

    /// Returns the record under the cursor.
    pub fn current(&self) -> Option<&Record> {
        self.records.get(self.selected)
    }

    /// Puts the cursor on `row`, or on the last one if there are fewer. On the newest it follows.
    pub fn select(&mut self, row: usize) {
        self.selected = row.min(self.records.len().saturating_sub(1));
        self.following = self.selected == 0;
    }

    /// Keeps the cursor with the record that it is on, though that be the newest.
    pub fn hold(&mut self) {
        self.following = self.records.is_empty();
    }

    fn push(&mut self, record: Record) {
        self.records.push_front(record);
        if !self.following {
            self.selected += 1;
        }
    }

    fn trim(&mut self) {
        self.records.truncate(LOG_LENGTH);
        self.selected = self.selected.min(self.records.len().saturating_sub(1));
    }
}
