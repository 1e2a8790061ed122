//! Follows the request log: history first, then news.
//!
//! Pulled by its reader: a slow one asks less often, costs nobody anything, and is told how much it
//! missed. Rows are read from the store after they were written, so what was sent once is in the log
//! for good and a cursor can be resumed after any restart.

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

/// The most rows of an answer.
const PAGE: usize = 1_000;
/// A reader this far behind is moved ahead.
const MAX_BACKLOG: u64 = 10_000;
/// The least time between two reads for one reader: at full load some answers a second, each with
/// hundreds of rows, instead of a query per commit.
const PAUSE: Duration = Duration::from_millis(100);

/// Where to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TailStart {
    /// With the last records, so many of them.
    History(usize),
    /// After this cursor.
    After(Cursor),
}

/// One answer of the tail.
#[derive(Clone, Debug)]
pub struct TailBatch {
    /// Records in the order in which they were recorded; may be empty.
    pub records: Vec<RecordView>,
    /// Where to go on after this answer.
    pub cursor: Cursor,
    /// How many records were skipped before these.
    pub dropped: u64,
    /// Whether all history was sent.
    pub live: bool,
}

struct Tail {
    control: Arc<Control>,
    filter: RequestFilter,
    phase: Phase,
    cursor: Cursor,
    committed: watch::Receiver<Cursor>,
    last_read: Option<Instant>,
}

/// What is to be done next.
#[derive(Clone, Copy)]
enum Phase {
    /// Read the last so many records.
    History(usize),
    /// Read what came after the cursor until nothing is left.
    CatchUp,
    /// Say that what follows is news.
    Announce,
    /// Wait for news.
    Live,
}

impl Control {
    /// Follows the log until the reader goes or `stop` is cancelled. An error is the last item.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if the choice names an account that is not the caller's to see.
    pub fn tail(
        self: &Arc<Self>,
        caller: &Caller,
        choice: RequestQuery,
        start: TailStart,
        stop: CancellationToken,
    ) -> Result<impl Stream<Item = Result<TailBatch, ControlError>> + Send + use<>, ControlError>
    {
        let (phase, cursor) = match start {
            TailStart::History(count) => (Phase::History(count.min(PAGE)), Cursor::default()),
            TailStart::After(cursor) => (Phase::CatchUp, cursor),
        };
        let tail = Tail {
            control: self.clone(),
            filter: self.filter(caller, choice)?,
            phase,
            cursor,
            committed: self.ledger.committed(),
            last_read: None,
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
                    Ok(news) => news.map(|news| (Ok(news), Some(tail))),
                    Err(error) => Some((Err(error), None)),
                }
            }
        }))
    }
}

impl Tail {
    /// Returns the next answer; `None` when nothing can come any more.
    async fn next(&mut self) -> Result<Option<TailBatch>, ControlError> {
        loop {
            let news = match self.phase {
                Phase::History(count) => self.history(count).await?,
                Phase::CatchUp => self.read(Phase::Announce).await?,
                Phase::Announce => {
                    self.phase = Phase::Live;
                    Some(self.news(Vec::new(), 0))
                }
                Phase::Live => {
                    let cursor = self.cursor;
                    if self.committed.wait_for(|&newest| newest > cursor).await.is_err() {
                        return Ok(None);
                    }
                    self.read(Phase::Live).await?
                }
            };
            if news.is_some() {
                return Ok(news);
            }
        }
    }

    async fn history(&mut self, count: usize) -> Result<Option<TailBatch>, ControlError> {
        self.phase = Phase::Announce;
        // asked first: what is committed during the query is either in its answer or news
        let newest = *self.committed.borrow_and_update();
        let records = self.last_records(None, count).await?;
        self.cursor = self.cursor.max(newest);
        Ok((!records.is_empty()).then(|| self.news(records, 0)))
    }

    /// Reads what came after the cursor; goes on to `after` when that was all.
    async fn read(&mut self, after: Phase) -> Result<Option<TailBatch>, ControlError> {
        if let Some(last_read) = self.last_read {
            tokio::time::sleep_until(last_read + PAUSE).await;
        }
        self.last_read = Some(Instant::now());
        let newest = *self.committed.borrow_and_update();
        let dropped = self.skip(newest).await?;
        if let Some((records, dropped)) = dropped {
            self.phase = after;
            self.cursor = self.cursor.max(newest);
            return Ok(Some(self.news(records, dropped)));
        }
        let store = &self.control.store;
        let rows = store.requests_after(&self.filter, self.cursor, PAGE).await?;
        if let Some((last, _)) = rows.last() {
            self.cursor = *last;
        }
        if rows.len() < PAGE {
            self.phase = after;
            // all rows up to here were there to be read
            self.cursor = self.cursor.max(newest);
        }
        let records = self.control.record_views(rows);
        Ok((!records.is_empty()).then(|| self.news(records, 0)))
    }

    /// If too much has gathered up to `newest`: returns the last of it, and how many are left out.
    async fn skip(
        &mut self,
        newest: Cursor,
    ) -> Result<Option<(Vec<RecordView>, u64)>, ControlError> {
        // no two records share a cursor, so the distance bounds the count, and costs nothing
        if newest.0.abs_diff(self.cursor.0) <= MAX_BACKLOG || newest < self.cursor {
            return Ok(None);
        }
        let backlog = self.control.store.count_requests(&self.filter, self.cursor, newest).await?;
        if backlog <= MAX_BACKLOG {
            return Ok(None);
        }
        let records = self.last_records(Some(Cursor(newest.0.saturating_add(1))), PAGE).await?;
        let dropped = backlog.saturating_sub(records.len() as u64);
        Ok(Some((records, dropped)))
    }

    /// Returns the last records before `before`, oldest first, and moves the cursor to the newest.
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

    fn news(&self, records: Vec<RecordView>, dropped: u64) -> TailBatch {
        let live = matches!(self.phase, Phase::Live);
        TailBatch { records, cursor: self.cursor, dropped, live }
    }
}
