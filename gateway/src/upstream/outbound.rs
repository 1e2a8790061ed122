//! Request bodies that flush the journal before they are sent.
//!
//! hyper polls the body just before it writes. By then, other requests have reached the same point, so that
//! one flush serves all of them.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};

use super::error::BoxError;
use crate::journal_barrier::FlushJournal;
use domain::wire::splice::Payload;

/// A body of one frame that is yielded once [`FlushJournal`] has succeeded.
pub(super) struct Outbound {
    /// `None` once it was yielded, or if there is nothing to send.
    payload: Option<Payload>,
    flush_journal: FlushJournal,
}

/// The error of a body that was not sent because the journal could not be flushed.
#[derive(Debug, thiserror::Error)]
#[error("the request was kept back")]
pub(super) struct JournalFlushError(#[source] BoxError);

// === impl Outbound ===

impl Outbound {
    pub(super) fn new(payload: Payload, flush_journal: FlushJournal) -> Self {
        Self { payload: Some(payload).filter(Buf::has_remaining), flush_journal }
    }
}

impl Body for Outbound {
    type Data = Payload;
    type Error = JournalFlushError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Payload>, JournalFlushError>>> {
        let Some(payload) = self.payload.take() else { return Poll::Ready(None) };
        let allowed = (self.flush_journal)();
        Poll::Ready(Some(allowed.map(|()| Frame::data(payload)).map_err(JournalFlushError)))
    }

    fn is_end_stream(&self) -> bool {
        self.payload.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.payload.as_ref().map_or(0, |payload| payload.remaining() as u64))
    }
}

// === impl JournalFlushError ===

impl JournalFlushError {
    /// Returns whether `error` was caused by this.
    pub(super) fn caused(error: &BoxError) -> bool {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&**error);
        while let Some(error) = cause {
            if error.is::<Self>() {
                return true;
            }
            cause = error.source();
        }
        false
    }
}
