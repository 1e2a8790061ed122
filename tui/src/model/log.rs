//! The request log: the newest records, in bounded memory.

use super::fetched::FetchState;
use super::record::{LogBatch, Record};

use std::collections::VecDeque;

/// How many records the log keeps.
pub const MAX_LOG_RECORDS: usize = 1_000;

/// The last requests. A record that is looked at never changes into another: the cursor either follows,
/// which is said, or stays with its record, for which the log stands still rather than let it go.
#[derive(Debug)]
pub struct RequestLog {
    /// The records, newest first; at most [`MAX_LOG_RECORDS`].
    pub records: VecDeque<Record>,
    /// The row under the cursor.
    pub selected: usize,
    /// Whether the cursor goes to whatever is newest; else it stays with its record.
    pub following: bool,
    /// How many records the server skipped because we were too slow.
    pub skipped: u64,
    /// Whether it stands still; what comes in meanwhile waits.
    pub paused: bool,
    /// What waits, oldest first; at most [`MAX_LOG_RECORDS`], older ones are let go and counted.
    pub buffered: VecDeque<Record>,
    /// How many came in while it stands still.
    pub arrived_while_paused: u64,
    /// How far it is fetched; `Ready` once all history has arrived.
    pub fetch: FetchState,
}

// === impl Log ===

impl Default for RequestLog {
    fn default() -> Self {
        Self {
            records: VecDeque::new(),
            selected: 0,
            following: true,
            skipped: 0,
            paused: false,
            buffered: VecDeque::new(),
            arrived_while_paused: 0,
            fetch: FetchState::Loading,
        }
    }
}

impl RequestLog {
    /// Takes in a piece of the log.
    pub fn append(&mut self, batch: LogBatch) {
        if batch.restarted {
            *self = Self::default();
        }
        self.paused |= !self.following && self.selected + batch.records.len() >= MAX_LOG_RECORDS;
        if self.paused {
            self.arrived_while_paused =
                self.arrived_while_paused.saturating_add(batch.records.len() as u64);
            self.buffered.extend(batch.records);
            let over = self.buffered.len().saturating_sub(MAX_LOG_RECORDS);
            self.buffered.drain(..over);
        } else {
            for record in batch.records {
                self.push(record);
            }
            self.trim();
        }
        self.skipped = self.skipped.saturating_add(batch.dropped);
        if batch.live {
            self.fetch = FetchState::Ready;
        }
    }

    /// Lets it stand still, or takes in what has waited; follows if that leaves no room for the record
    /// under the cursor.
    pub fn set_paused(&mut self, paused: bool) {
        self.paused = paused;
        if !paused {
            let buffered = std::mem::take(&mut self.buffered);
            if self.selected + buffered.len() >= MAX_LOG_RECORDS {
                self.select(0);
            }
            for record in buffered {
                self.push(record);
            }
            self.trim();
            self.arrived_while_paused = 0;
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
    pub fn pin_selection(&mut self) {
        self.following = self.records.is_empty();
    }

    fn push(&mut self, record: Record) {
        self.records.push_front(record);
        if !self.following {
            self.selected += 1;
        }
    }

    fn trim(&mut self) {
        self.records.truncate(MAX_LOG_RECORDS);
        self.selected = self.selected.min(self.records.len().saturating_sub(1));
    }
}
