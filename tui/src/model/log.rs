//! The request log: the newest records, and pages of older ones, in bounded memory.

use jiff::Timestamp;

use super::fetched::FetchState;
use super::filter::LogFilter;
use super::record::{LogBatch, OlderPage, Record};
use super::table::TableState;

use std::collections::{HashSet, VecDeque};

/// The number of records that the stream begins with. Over a link of 20 KB/s, they take two seconds.
pub const HISTORY_RECORDS: usize = 250;
/// The maximum number of records in the log while it follows the newest one, and of records
/// buffered while it is paused.
pub const MAX_LOG_RECORDS: usize = 1_000;
/// The maximum number of records in the log, including older pages.
pub const MAX_LOADED_RECORDS: usize = 20_000;
/// The number of rows before the last one from which on the next page is fetched.
const PREFETCH_ROWS: usize = 200;

/// The most recent requests.
///
/// Invariant: the selected row changes its record only while the cursor follows the newest record.
/// Otherwise the cursor stays with its record, and the log pauses before that record would be
/// evicted.
#[derive(Debug)]
pub struct RequestLog {
    /// The records, newest first; at most [`MAX_LOADED_RECORDS`].
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
    /// The number of records that arrived above the cursor since it left the newest one.
    pub arrived_above: u64,
    /// The number of requests of the last 30 days that the filter matches, if known.
    pub matching: Option<u64>,
    /// The filter of the records. The gateway evaluates its expression.
    pub filter: LogFilter,
    /// The number of records of the stream, with those in which the words of the filter were not
    /// found.
    pub streamed: usize,
    /// The pages of older records.
    pub older: OlderPages,
    /// The time since which all requests are wanted, for a chart of them. Without it, older pages are
    /// fetched only as the cursor goes down.
    pub wanted_since: Option<Timestamp>,
    /// The order of the records. A sorted log is paused.
    pub table: TableState,
    /// The load state; `Ready` once the whole history has arrived.
    pub fetch: FetchState,
}

/// The state of the pages of older records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OlderPages {
    /// The number of pages that were requested.
    pub wanted: usize,
    /// The number of pages that have arrived.
    pub received: usize,
    /// The number of records of the pages and of those that arrived after the first page, with those
    /// in which the words of the filter were not found.
    pub searched: usize,
    /// Whether the last record of all is in the log.
    pub is_complete: bool,
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
            arrived_above: 0,
            matching: None,
            filter: LogFilter::default(),
            streamed: 0,
            older: OlderPages::default(),
            wanted_since: None,
            table: TableState::default(),
            fetch: FetchState::Loading,
        }
    }
}

impl RequestLog {
    /// Drops the records, because those of `filter` follow. The chosen columns stay; the order is
    /// that of time again.
    pub fn restart(&mut self, filter: LogFilter) {
        let table = TableState { sort: None, ..std::mem::take(&mut self.table) };
        *self = Self { filter, table, ..Self::default() };
    }

    /// Adds a batch of records, or buffers it if the log is paused. A restart clears the log first.
    pub fn append(&mut self, batch: LogBatch) {
        if batch.restarted {
            let (filter, matching) = (std::mem::take(&mut self.filter), self.matching);
            self.restart(filter);
            self.matching = matching;
        }
        self.streamed += batch.records.len();
        if self.older.received > 0 {
            self.older.searched += batch.records.len();
        }
        let mut records = batch.records;
        records.retain(|record| self.filter.matches(record));
        self.paused |= !self.following && self.selected + records.len() >= MAX_LOADED_RECORDS;
        if self.paused {
            self.arrived_while_paused =
                self.arrived_while_paused.saturating_add(records.len() as u64);
            self.buffered.extend(records);
            let over = self.buffered.len().saturating_sub(MAX_LOG_RECORDS);
            self.buffered.drain(..over);
        } else {
            for record in records {
                self.push(record);
            }
            self.trim();
        }
        self.skipped = self.skipped.saturating_add(batch.dropped);
        if batch.live {
            self.fetch = FetchState::Ready;
            if !self.filter.words.is_empty() {
                self.prefetch();
            }
        }
    }

    /// Adds a page of older records after the others, without those that are in the log already.
    /// Ignores a page that is no longer wanted.
    pub fn append_older(&mut self, page: OlderPage) {
        if self.older.received >= self.older.wanted {
            return;
        }
        let known: HashSet<_> = self.records.iter().map(|record| record.id.clone()).collect();
        let count = self.records.len();
        self.older.searched += page.records.len();
        let found = page.records.into_iter().filter(|it| self.filter.matches(it));
        self.records.extend(found.filter(|it| !known.contains(&it.id)));
        self.records.truncate(MAX_LOADED_RECORDS);
        if self.table.sort.is_some() {
            self.sort();
        }
        self.older.received += 1;
        self.older.is_complete |= page.is_last;
        // The first page mostly repeats the records of the stream.
        if self.records.len() == count {
            self.want_older();
        } else {
            self.prefetch();
        }
    }

    /// Pauses or resumes the log. Resuming adds the buffered records; if that would evict the
    /// selected record, the cursor follows the newest record again.
    pub fn set_paused(&mut self, paused: bool) {
        self.paused = paused;
        if !paused {
            self.rearrange(|table, _| table.sort = None);
            self.resume();
        }
    }

    fn resume(&mut self) {
        self.paused = false;
        let buffered = std::mem::take(&mut self.buffered);
        if self.selected + buffered.len() >= MAX_LOADED_RECORDS {
            self.select(0);
        }
        for record in buffered {
            self.push(record);
        }
        self.trim();
        self.arrived_while_paused = 0;
    }

    /// Changes the order of the records. A log in another order than that of time is paused, and
    /// resumes in that of time. The cursor stays on its record, and follows again if that is still
    /// the newest one.
    pub fn rearrange(
        &mut self,
        change: impl FnOnce(&mut TableState, &mut dyn Iterator<Item = &Record>),
    ) {
        let before = self.table.sort;
        change(&mut self.table, &mut self.records.iter());
        if self.table.sort != before {
            self.sort();
            if self.table.sort.is_some() {
                self.paused = true;
                self.following = false;
            } else {
                self.select(self.selected);
                self.resume();
            }
        }
    }

    /// Puts a sorted log back into the order of time, and resumes it.
    pub fn end_sorting(&mut self) {
        if self.table.sort.is_some() {
            self.set_paused(false);
        }
    }

    /// Sorts the records. Without a column, by the time of the end, in which order they arrive; those
    /// of one moment by id.
    fn sort(&mut self) {
        let id = self.current().map(|record| record.id.clone());
        let records = self.records.make_contiguous();
        match self.table.sort {
            Some(sort) => records.sort_by(|a, b| sort.compare(a, b)),
            None => records.sort_by(|a, b| (b.ended_at(), &b.id).cmp(&(a.ended_at(), &a.id))),
        }
        let same = id.and_then(|id| self.records.iter().position(|record| record.id == id));
        self.selected = same.unwrap_or(0);
    }

    /// Returns the selected record.
    pub fn current(&self) -> Option<&Record> {
        self.records.get(self.selected)
    }

    /// Moves the cursor to `row`, or to the last row if there are fewer. On the newest record, the
    /// cursor starts to follow. Near the last row, requests the next page of older records.
    pub fn select(&mut self, row: usize) {
        self.selected = row.min(self.records.len().saturating_sub(1));
        self.following = self.selected == 0;
        // Records that the cursor passes are no longer above it.
        self.arrived_above = self.arrived_above.min(self.selected as u64);
        self.prefetch();
    }

    /// Keeps the cursor on its current record, even if that is the newest one.
    pub fn pin_selection(&mut self) {
        self.following = self.records.is_empty();
    }

    /// Sets the time since which all requests are wanted, as far as the log has room for them.
    pub fn want_since(&mut self, since: Option<Timestamp>) {
        self.wanted_since = since;
        if since.is_some() {
            self.prefetch();
        }
    }

    /// Returns the newest records without a gap, in any order, with those that arrived while paused.
    /// The second value is whether there are no older ones at all.
    pub fn newest(&self) -> (Vec<&Record>, bool) {
        let dropped = self.arrived_while_paused > self.buffered.len() as u64;
        let records = self.records.iter().filter(|_| !dropped);
        let is_complete = !dropped && self.records.len() < HISTORY_RECORDS;
        (self.buffered.iter().chain(records).collect(), is_complete)
    }

    /// Returns the number of newest records that were searched for the words of the filter. The stream
    /// and the pages both end with the newest one, so the longer of them contains the other.
    pub fn searched(&self) -> usize {
        self.streamed.max(self.older.searched)
    }

    /// Returns whether a page of older records is on its way.
    pub fn is_fetching_older(&self) -> bool {
        self.older.wanted > self.older.received
    }

    fn push(&mut self, record: Record) {
        self.records.push_front(record);
        if !self.following {
            self.selected += 1;
            self.arrived_above = self.arrived_above.saturating_add(1);
        }
    }

    /// Drops the oldest records beyond the limit. While the log follows, these are all older pages.
    fn trim(&mut self) {
        let is_short = self.following && self.wanted_since.is_none();
        let limit = if is_short { MAX_LOG_RECORDS } else { MAX_LOADED_RECORDS };
        if self.records.len() > limit {
            self.records.truncate(limit);
            self.older = OlderPages::default();
        }
        self.selected = self.selected.min(self.records.len().saturating_sub(1));
    }

    fn prefetch(&mut self) {
        let oldest = self.records.back().and_then(|record| record.started_at);
        let is_in_chart = |since| self.table.sort.is_none() && oldest > Some(since);
        if self.wanted_since.is_some_and(is_in_chart)
            || self.selected + PREFETCH_ROWS >= self.records.len()
        {
            self.want_older();
        }
    }

    /// Requests the next page, unless one is on its way, there is none, or the log is full. A log
    /// with fewer records than the stream begins with has all of them.
    fn want_older(&mut self) {
        let received = match self.older.received {
            _ if self.filter.words.is_empty() => self.records.len(),
            // However long the stream has been, the first page is allowed.
            0 => self.streamed.min(HISTORY_RECORDS),
            _ => self.older.searched,
        };
        let has_more = (HISTORY_RECORDS..MAX_LOADED_RECORDS).contains(&received)
            && self.fetch == FetchState::Ready
            && !self.older.is_complete;
        if has_more && !self.is_fetching_older() {
            self.older.wanted += 1;
        }
    }
}
