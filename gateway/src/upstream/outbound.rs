//! A request's body on its way out.
//!
//! The connection asks for it just before it writes: by then other requests are as far, and what has to
//! be done before any of them leaves is done once for all.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};

use super::error::BoxError;
use crate::journal_barrier::FlushJournal;
use domain::wire::splice::Payload;

/// A body that leaves, in one piece, once [`FlushJournal`] has succeeded.
pub(super) struct Outbound {
    /// `None` once it has left, or if there is nothing to send.
    payload: Option<Payload>,
    flush_journal: FlushJournal,
}

/// Why a body did not leave.
#[derive(Debug, thiserror::Error)]
#[error("the request was kept back")]
pub(super) struct KeptBack(#[source] BoxError);

// === impl Outbound ===

impl Outbound {
    pub(super) fn new(payload: Payload, flush_journal: FlushJournal) -> Self {
        Self { payload: Some(payload).filter(Buf::has_remaining), flush_journal }
    }
}

impl Body for Outbound {
    type Data = Payload;
    type Error = KeptBack;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Payload>, KeptBack>>> {
        let Some(payload) = self.payload.take() else { return Poll::Ready(None) };
        let allowed = (self.flush_journal)();
        Poll::Ready(Some(allowed.map(|()| Frame::data(payload)).map_err(KeptBack)))
    }

    fn is_end_stream(&self) -> bool {
        self.payload.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.payload.as_ref().map_or(0, |payload| payload.remaining() as u64))
    }
}

// === impl KeptBack ===

impl KeptBack {
    /// Whether this is why a request failed.
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
