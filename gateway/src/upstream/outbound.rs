//! Request bodies that flush the journal before they are sent.
//!
//! hyper polls the body just before it writes. By then, other requests have reached the same point, so that
//! one flush serves all of them.

use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};

use super::error::BoxError;
use crate::journal_barrier::FlushJournal;
use domain::wire::splice::Payload;

/// Whether a request may have reached an upstream; shared by the request and its body on each connection that
/// it is tried on.
///
/// A body is passed to its connection at most once, and not after [`stop`](Self::stop). So a request that is
/// stopped and was not sent never reaches an upstream.
#[derive(Clone, Debug, Default)]
pub struct SendStatus(Arc<SendState>);

#[derive(Debug, Default)]
struct SendState {
    flags: AtomicU8,
    times: Mutex<SendTimes>,
}

#[derive(Debug, Default)]
struct SendTimes {
    /// How long a connection that was lost had the request, until that is taken.
    lost_after: Option<Duration>,
    /// How long the request waited for a connection slot, if it had to.
    queued_for: Option<Duration>,
}

/// A body of one frame that is yielded once [`FlushJournal`] has succeeded.
pub(super) struct Outbound {
    /// `None` once it was yielded, or if there is nothing to send.
    payload: Option<Payload>,
    flush_journal: FlushJournal,
    send_status: SendStatus,
}

/// The error of a body that was not sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeptBackError {
    /// The journal could not be flushed.
    #[error("the request was kept back")]
    Journal(#[source] BoxError),
    /// The request has ended.
    #[error("the request was cancelled")]
    Cancelled,
}

// === impl SendStatus ===

impl SendStatus {
    /// The body was passed to a connection.
    const SENT: u8 = 1;
    /// The body was kept back because the journal could not be flushed.
    const KEPT_BACK: u8 = 2;
    /// The request has ended.
    const STOPPED: u8 = 4;

    /// Prevents the body from being sent from now on, and returns whether it was sent before, on any connection.
    /// A body that was sent may have reached its upstream.
    pub fn stop(&self) -> bool {
        self.set(Self::STOPPED) & Self::SENT != 0
    }

    /// Returns whether the body was kept back because the journal could not be flushed.
    pub(super) fn is_kept_back(&self) -> bool {
        self.0.flags.load(Ordering::Acquire) & Self::KEPT_BACK != 0
    }

    /// Records that the connection which had accepted the request was lost after `took`; it is sent again.
    pub(super) fn set_lost(&self, took: Duration) {
        self.times().lost_after = Some(took);
    }

    /// Takes how long a lost connection had the request before it was sent again; `None` if none was lost since the
    /// last call.
    pub fn take_lost(&self) -> Option<Duration> {
        self.times().lost_after.take()
    }

    /// Records how long the request waited for a connection slot.
    pub(super) fn set_queued(&self, waited: Duration) {
        self.times().queued_for = Some(waited);
    }

    /// Returns how long the request waited for a connection slot; `None` if it did not have to.
    pub fn queued_for(&self) -> Option<Duration> {
        self.times().queued_for
    }

    fn times(&self) -> MutexGuard<'_, SendTimes> {
        self.0.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the body is sent, unless the request is stopped.
    fn mark_sent(&self) -> Result<(), KeptBackError> {
        let sent = |status| (status & Self::STOPPED == 0).then_some(status | Self::SENT);
        match self.0.flags.fetch_update(Ordering::AcqRel, Ordering::Acquire, sent) {
            Ok(_) => Ok(()),
            Err(_) => Err(KeptBackError::Cancelled),
        }
    }

    /// Sets a bit, and returns the bits from before.
    fn set(&self, bit: u8) -> u8 {
        self.0.flags.fetch_or(bit, Ordering::AcqRel)
    }
}

// === impl Outbound ===

impl Outbound {
    pub(super) fn new(
        payload: Payload,
        flush_journal: FlushJournal,
        send_status: SendStatus,
    ) -> Self {
        let payload = Some(payload).filter(Buf::has_remaining);
        Self { payload, flush_journal, send_status }
    }

    fn flush(&self) -> Result<(), KeptBackError> {
        (self.flush_journal)().map_err(|error| {
            self.send_status.set(SendStatus::KEPT_BACK);
            KeptBackError::Journal(error)
        })?;
        self.send_status.mark_sent()
    }
}

impl Body for Outbound {
    type Data = Payload;
    type Error = KeptBackError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Payload>, KeptBackError>>> {
        let Some(payload) = self.payload.take() else { return Poll::Ready(None) };
        Poll::Ready(Some(self.flush().map(|()| Frame::data(payload))))
    }

    fn is_end_stream(&self) -> bool {
        self.payload.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.payload.as_ref().map_or(0, |payload| payload.remaining() as u64))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::BodyExt;

    use super::*;
    use domain::wire::splice::splice;

    fn outbound(flush_journal: FlushJournal, send_status: &SendStatus) -> Outbound {
        let payload = splice(&Bytes::from_static(b"{}"), &[]);
        Outbound::new(payload, flush_journal, send_status.clone())
    }

    fn flush_journal() -> FlushJournal {
        Arc::new(|| Ok(()))
    }

    #[tokio::test]
    async fn a_body_is_sent_once_it_was_passed_on() {
        let send_status = SendStatus::default();
        let mut body = outbound(flush_journal(), &send_status);
        body.frame().await.unwrap().unwrap();
        drop(body);
        // A second attempt that is kept back does not change that.
        let error = outbound(Arc::new(|| Err("not yet".into())), &send_status).frame().await;
        assert!(matches!(error, Some(Err(KeptBackError::Journal(_)))));
        assert!(send_status.stop() && send_status.is_kept_back());
    }

    #[tokio::test]
    async fn a_body_that_is_kept_back_is_not_sent() {
        let send_status = SendStatus::default();
        let error = outbound(Arc::new(|| Err("not yet".into())), &send_status).frame().await;
        assert!(matches!(error, Some(Err(KeptBackError::Journal(_)))));
        assert!(!send_status.stop() && send_status.is_kept_back());
    }

    #[tokio::test]
    async fn the_body_of_a_request_that_has_ended_is_not_sent() {
        let send_status = SendStatus::default();
        let mut body = outbound(flush_journal(), &send_status);
        assert!(!send_status.stop());
        assert!(matches!(body.frame().await, Some(Err(KeptBackError::Cancelled))));
    }
}
