//! Follows the request log: history first, then new records.
//!
//! Driven by the caller: a slow reader polls less often, does not delay other readers, and learns
//! how many records it missed. Rows are read from the store after they were committed. Therefore a
//! sent record is durable, and a cursor remains valid across restarts.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use futures_util::stream;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::usage::{RecordView, RequestQuery};
use super::{Caller, Control, ControlError};
use store::{Cursor, RequestFilter};

/// The maximum number of rows per batch.
const MAX_PAGE_ROWS: usize = 1_000;
/// The backlog, in rows, beyond which a reader skips to the latest records, if it does not ask for
/// less.
const MAX_BACKLOG: u64 = 10_000;
/// The minimum time between two reads of one reader. At full load this gives a few batches of
/// hundreds of rows per second instead of a query per commit.
const MIN_READ_INTERVAL: Duration = Duration::from_millis(100);

/// Where a tail starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TailStart {
    /// With this number of latest records.
    History(usize),
    /// After this cursor.
    After(Cursor),
}

/// One item of the tail.
#[derive(Clone, Debug)]
pub struct TailBatch {
    /// Records in the order of the log; may be empty.
    pub records: Vec<RecordView>,
    /// The position after this batch, from which a tail can resume.
    pub cursor: Cursor,
    /// The number of skipped records before these.
    pub dropped: u64,
    /// Whether all history was sent.
    pub live: bool,
}

struct Tail {
    control: Arc<Control>,
    caller: Caller,
    filter: RequestFilter,
    phase: Phase,
    cursor: Cursor,
    committed: watch::Receiver<Cursor>,
    last_read: Option<Instant>,
    max_backlog: u64,
}

/// The next step of a tail.
#[derive(Clone, Copy)]
enum Phase {
    /// Read this number of latest records.
    History(usize),
    /// Read the records after the cursor until none is left.
    CatchUp,
    /// Send an empty batch that marks the end of history.
    Announce,
    /// Wait for new records.
    Live,
}

impl Control {
    /// Follows the log until the stream is dropped or `stop` is cancelled. A reader that is behind by
    /// more than `max_backlog` rows, if it is not zero, skips to the latest. An error is the last item;
    /// one is that the caller has lost its role.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if the query names an account that the caller may not see.
    pub fn tail(
        self: &Arc<Self>,
        caller: &Caller,
        query: RequestQuery,
        start: TailStart,
        max_backlog: Option<NonZeroU64>,
        stop: CancellationToken,
    ) -> Result<impl Stream<Item = Result<TailBatch, ControlError>> + Send + use<>, ControlError>
    {
        let (phase, cursor) = match start {
            TailStart::History(count) => {
                (Phase::History(count.min(MAX_PAGE_ROWS)), Cursor::default())
            }
            TailStart::After(cursor) => (Phase::CatchUp, cursor),
        };
        let tail = Tail {
            control: self.clone(),
            caller: caller.clone(),
            filter: self.filter(caller, query)?,
            phase,
            cursor,
            committed: self.ledger.committed(),
            last_read: None,
            max_backlog: max_backlog.map_or(MAX_BACKLOG, |max| max.get().min(MAX_BACKLOG)),
        };
        Ok(stream::unfold(Some(tail), move |tail| {
            let stop = stop.clone();
            async move {
                let mut tail = tail?;
                let next = tokio::select! {
                    biased;
                    () = stop.cancelled() => return None,
                    next = tail.next() => next,
                };
                match next {
                    Ok(batch) => batch.map(|batch| (Ok(batch), Some(tail))),
                    Err(error) => Some((Err(error), None)),
                }
            }
        }))
    }
}

impl Tail {
    /// Returns the next batch; `None` if the recorder has stopped.
    async fn next(&mut self) -> Result<Option<TailBatch>, ControlError> {
        loop {
            let batch = match self.phase {
                Phase::History(count) => self.history(count).await?,
                Phase::CatchUp => self.read(Phase::Announce).await?,
                Phase::Announce => {
                    self.phase = Phase::Live;
                    Some(self.batch(Vec::new(), 0))
                }
                Phase::Live => {
                    let cursor = self.cursor;
                    if self.committed.wait_for(|&newest| newest > cursor).await.is_err() {
                        return Ok(None);
                    }
                    self.read(Phase::Live).await?
                }
            };
            if batch.is_some() {
                self.control.refuse_if_ended(&self.caller).await?;
                return Ok(batch);
            }
        }
    }

    async fn history(&mut self, count: usize) -> Result<Option<TailBatch>, ControlError> {
        self.phase = Phase::Announce;
        // Read before the query: a record that is committed during the query is in its result or
        // read later.
        let newest = *self.committed.borrow_and_update();
        let records = self.last_records(None, count).await?;
        self.cursor = self.cursor.max(newest);
        Ok((!records.is_empty()).then(|| self.batch(records, 0)))
    }

    /// Reads the records after the cursor; enters the phase `after` when none is left.
    async fn read(&mut self, after: Phase) -> Result<Option<TailBatch>, ControlError> {
        if let Some(last_read) = self.last_read {
            tokio::time::sleep_until(last_read + MIN_READ_INTERVAL).await;
        }
        self.last_read = Some(Instant::now());
        let newest = *self.committed.borrow_and_update();
        let dropped = self.skip(newest).await?;
        if let Some((records, dropped)) = dropped {
            self.phase = after;
            self.cursor = self.cursor.max(newest);
            return Ok(Some(self.batch(records, dropped)));
        }
        let store = &self.control.store;
        let rows = store.requests_after(&self.filter, self.cursor, MAX_PAGE_ROWS).await?;
        if let Some((last, _)) = rows.last() {
            self.cursor = *last;
        }
        if rows.len() < MAX_PAGE_ROWS {
            self.phase = after;
            // All rows up to `newest` were committed before the read.
            self.cursor = self.cursor.max(newest);
        }
        let records = self.control.record_views(rows);
        Ok((!records.is_empty()).then(|| self.batch(records, 0)))
    }

    /// If the backlog up to `newest` is too long, returns its last records and the number of
    /// skipped ones.
    async fn skip(
        &mut self,
        newest: Cursor,
    ) -> Result<Option<(Vec<RecordView>, u64)>, ControlError> {
        // Cursors are unique, so their distance is an upper bound of the count and saves the query.
        if newest.0.abs_diff(self.cursor.0) <= self.max_backlog || newest < self.cursor {
            return Ok(None);
        }
        let backlog = self.control.store.count_requests(&self.filter, self.cursor, newest).await?;
        if backlog <= self.max_backlog {
            return Ok(None);
        }
        // Few enough that a slow link has carried them long before the reader is that far behind again.
        let count = usize::try_from(self.max_backlog / 4).unwrap_or(MAX_PAGE_ROWS);
        let count = count.clamp(1, MAX_PAGE_ROWS);
        let before = Cursor(newest.0.saturating_add(1));
        let records = self.last_records(Some(before), count).await?;
        let dropped = backlog.saturating_sub(records.len() as u64);
        Ok(Some((records, dropped)))
    }

    /// Returns the last records before `before`, oldest first, and moves the cursor to the newest
    /// of them.
    async fn last_records(
        &mut self,
        before: Option<Cursor>,
        count: usize,
    ) -> Result<Vec<RecordView>, ControlError> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let store = &self.control.store;
        let mut rows = store.requests_before(&self.filter, before, count).await?;
        rows.reverse();
        if let Some((last, _)) = rows.last() {
            self.cursor = self.cursor.max(*last);
        }
        Ok(self.control.record_views(rows))
    }

    fn batch(&self, records: Vec<RecordView>, dropped: u64) -> TailBatch {
        let live = matches!(self.phase, Phase::Live);
        TailBatch { records, cursor: self.cursor, dropped, live }
    }
}
