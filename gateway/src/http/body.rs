//! Response bodies.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;

use super::error_reply;
use crate::cancellation::Cancellations;
use crate::capture::BodyCapture;
use crate::ledger::DiskSync;
use crate::pipeline::relay::Relay;
use domain::refusal::Refusal;

/// The longest body that is sent as one frame on HTTP/2, in bytes.
const MAX_WHOLE_BYTES: u64 = 16 * 1024;
/// The longest frame of a longer body, in bytes.
const MAX_PIECE_BYTES: usize = 64 * 1024;

/// The body of a response.
pub enum Reply {
    /// A complete body.
    Whole(Full<Bytes>),
    /// The rest of a complete body that is sent in pieces.
    Pieces(Bytes),
    /// A stream. If it breaks, its last event reports that to the client.
    Stream(Box<Relay>),
    /// A stream that has broken.
    BrokenStream {
        /// The event that reports the error.
        last: Bytes,
        /// The wait before that event is sent.
        syncing: Option<DiskSync>,
    },
    /// A stream that has ended.
    Ended,
}

impl Reply {
    /// Returns whether the whole body is available.
    pub fn is_whole(&self) -> bool {
        matches!(self, Self::Whole(_) | Self::Pieces(_))
    }

    /// Splits a long complete body into pieces, for an HTTP/2 stream: hyper drops a stream's body once it has
    /// taken the last frame, even if the client has no window for it.
    #[must_use]
    pub fn in_pieces(self) -> Self {
        match self {
            Self::Whole(body) if body.size_hint().lower() > MAX_WHOLE_BYTES => {
                // A `Full` has one frame, which is ready.
                let bytes = body.into_inner().unwrap_or_default();
                Self::Pieces(bytes)
            }
            other => other,
        }
    }

    /// Ends a stream early with an error that the client can read.
    pub fn interrupt(&mut self, reason: Refusal) {
        if let Self::Stream(relay) = self {
            relay.interrupt(reason.into());
        }
    }

    /// Returns whether it is a stream whose request is cancelled.
    pub fn is_cancelled(&self, cancellations: &Cancellations) -> bool {
        matches!(self, Self::Stream(relay) if relay.id().is_some_and(|id| cancellations.is_cancelled(id)))
    }

    /// Captures what the client gets.
    pub fn capture(&mut self, capture: BodyCapture) {
        match self {
            // A `Full` has one frame, which is ready.
            Self::Whole(body) => capture.push(&body.clone().into_inner().unwrap_or_default()),
            Self::Pieces(bytes) => capture.push(bytes),
            Self::Stream(relay) => relay.set_capture(capture),
            Self::BrokenStream { last, .. } => capture.push(last),
            Self::Ended => {}
        }
    }

    /// Creates a complete body.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Full::new(bytes.into()))
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            let (next, frame) = match &mut *self {
                Self::Whole(body) => return Pin::new(body).poll_frame(context),
                Self::Pieces(rest) => {
                    return Poll::Ready(next_piece(rest).map(Frame::data).map(Ok));
                }
                Self::Ended => return Poll::Ready(None),
                Self::Stream(relay) => match ready!(relay.poll_bytes(context)) {
                    Some(Ok(bytes)) => {
                        relay.capture(&bytes);
                        return Poll::Ready(Some(Ok(Frame::data(bytes))));
                    }
                    Some(Err(broken)) => {
                        let (last, syncing) = error_reply::error_event(*broken);
                        relay.capture(&last);
                        (Self::BrokenStream { last, syncing }, None)
                    }
                    None => (Self::Ended, None),
                },
                Self::BrokenStream { last, syncing } => {
                    if let Some(syncing) = syncing {
                        ready!(syncing.as_mut().poll(context));
                    }
                    (Self::Ended, Some(std::mem::take(last)))
                }
            };
            *self = next;
            if let Some(last) = frame {
                return Poll::Ready(Some(Ok(Frame::data(last))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Pieces(rest) => rest.is_empty(),
            Self::Stream(relay) => relay.is_ended(),
            Self::BrokenStream { .. } => false,
            Self::Ended => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Pieces(rest) => SizeHint::with_exact(rest.len() as u64),
            Self::Stream(_) | Self::BrokenStream { .. } => SizeHint::default(),
            Self::Ended => SizeHint::with_exact(0),
        }
    }
}

/// Takes the next piece of `rest`. The last piece is a single byte with its own allocation: the client has
/// window for it only after all others, so the memory of the body is free when hyper drops the stream.
fn next_piece(rest: &mut Bytes) -> Option<Bytes> {
    match rest.len() {
        0 => None,
        1 => {
            let last = Bytes::copy_from_slice(rest);
            *rest = Bytes::new();
            Some(last)
        }
        length => Some(rest.split_to((length - 1).min(MAX_PIECE_BYTES))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use http_body_util::BodyExt;

    use super::*;

    /// Sets the flag when it is dropped.
    struct Owner(Vec<u8>, Arc<AtomicBool>);

    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    impl Drop for Owner {
        fn drop(&mut self) {
            self.1.store(true, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn a_long_answer_comes_in_pieces_and_its_memory_is_free_before_the_last() {
        let is_free = Arc::<AtomicBool>::default();
        let text: Vec<u8> = (0..=u8::MAX).cycle().take(150_000).collect();
        let owner = Bytes::from_owner(Owner(text.clone(), is_free.clone()));
        let mut reply = Reply::whole(owner).in_pieces();
        assert_eq!(reply.size_hint().exact(), Some(150_000));
        let mut lengths = Vec::new();
        let mut read = Vec::new();
        while let Some(frame) = reply.frame().await {
            let piece = frame.unwrap().into_data().unwrap();
            assert_eq!(is_free.load(Ordering::Relaxed), reply.is_end_stream());
            lengths.push(piece.len());
            read.extend_from_slice(&piece);
        }
        assert_eq!(lengths, [65_536, 65_536, 18_927, 1]);
        assert_eq!(read, text);
        let short = Reply::whole(vec![0; 16 * 1024]).in_pieces();
        assert_eq!(short.collect().await.unwrap().to_bytes().len(), 16 * 1024);
    }
}
