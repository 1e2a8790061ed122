//! The request log as a whole, a page at a time.
//!
//! Pulled by its reader: pages are read when they are asked for, each in a view of its own, so that a
//! slow reader holds nothing back.

use std::sync::Arc;

use futures_util::{Stream, stream};
use tokio_util::sync::CancellationToken;

use super::usage::{RecordView, RequestQuery};
use super::{Caller, Control, ControlError};
use store::{Cursor, RequestFilter};

/// Rows that are read at once.
const PAGE: usize = 500;

struct Export {
    control: Arc<Control>,
    filter: RequestFilter,
    after: Cursor,
    end: Cursor,
    stop: CancellationToken,
}

impl Control {
    /// Returns all chosen records of requests that have ended by now, oldest first. An error is the last item, also
    /// when `stop` is cancelled before the end: what was cut short must not look whole.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if the choice names an account that is not the caller's to see.
    pub async fn export_requests(
        self: &Arc<Self>,
        caller: &Caller,
        choice: RequestQuery,
        stop: CancellationToken,
    ) -> Result<
        impl Stream<Item = Result<Vec<RecordView>, ControlError>> + Send + use<>,
        ControlError,
    > {
        let filter = self.filter(caller, choice)?;
        self.ledger.flushed().await;
        let end = self.store.newest().await?;
        let export = Export { control: self.clone(), filter, after: Cursor::default(), end, stop };
        Ok(stream::unfold(Some(export), |export| async {
            let mut export = export?;
            match export.next().await {
                Ok(records) if records.is_empty() => None,
                Ok(records) => Some((Ok(records), Some(export))),
                Err(error) => Some((Err(error), None)),
            }
        }))
    }
}

impl Export {
    /// Returns the next page; an empty one at the end.
    async fn next(&mut self) -> Result<Vec<RecordView>, ControlError> {
        if self.stop.is_cancelled() {
            return Err(ControlError::Busy("the gateway is shutting down; try again".into()));
        }
        if self.after >= self.end {
            return Ok(Vec::new());
        }
        let mut rows = self.control.store.requests_after(&self.filter, self.after, PAGE).await?;
        self.after = match rows.last() {
            Some((last, _)) if rows.len() == PAGE => *last,
            _ => self.end,
        };
        rows.retain(|(cursor, _)| *cursor <= self.end);
        Ok(self.control.record_views(rows))
    }
}
