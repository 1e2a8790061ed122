//! The request log: the most recent records, in bounded memory.

use super::fetched::FetchState;
use super::record::{LogBatch, Record};

use std::collections::VecDeque;

/// The maximum number of records in the log, and of records buffered while it is paused.
pub const MAX_LOG_RECORDS: usize = 1_000;

/// The most recent requests.
///
/// Invariant: the selected row changes its record only while the cursor follows the newest record.
/// Otherwise the cursor stays with its record, and the log pauses before that record would be
/// evicted.
#[derive(Debug)]
pub struct RequestLog {
    /// The records, newest first; at most [`MAX_LOG_RECORDS`].
    pub records: VecDeque<Record>,
    /// The index of the selected row.
    pub selected: usize,
    /// Whether the cursor stays on the newest record, instead of on its current one.
    pub following: bool,
    /// The number of records that the server skipped because this client was too slow.
    pub skipped: u64,
    /// Whether the log is paused. New records are buffered meanwhile.
    pub paused: bool,
    /// Records that arrived while paused, oldest first; at most [`MAX_LOG_RECORDS`]. Older ones are
    /// dropped.
    pub buffered: VecDeque<Record>,
    /// The number of records that arrived while paused, dropped ones included.
    pub arrived_while_paused: u64,
    /// The load state; `Ready` once the whole history has arrived.
    pub fetch: FetchState,
}

// === impl RequestLog ===

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
    /// Adds a batch of records, or buffers it if the log is paused. A restart clears the log first.
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

    /// Pauses or resumes the log. Resuming adds the buffered records; if that would evict the
    /// selected record, the cursor follows the newest record again.
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

    /// Returns the selected record.
    pub fn current(&self) -> Option<&Record> {
        self.records.get(self.selected)
    }

    /// Moves the cursor to `row`, or to the last row if there are fewer. On the newest record, the
    /// cursor starts to follow.
    pub fn select(&mut self, row: usize) {
        self.selected = row.min(self.records.len().saturating_sub(1));
        self.following = self.selected == 0;
    }

    /// Keeps the cursor on its current record, even if that is the newest one.
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
