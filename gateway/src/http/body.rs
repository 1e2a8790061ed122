//! Response bodies.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;

use super::respond;
use crate::ledger::DiskSync;
use crate::pipeline::relay::Relay;
use crate::pipeline::request_guard::RequestGuard;
use domain::refusal::Refusal;

/// The longest answer that is handed out as one piece on HTTP/2, in bytes.
const MAX_WHOLE_BYTES: u64 = 16 * 1024;
/// The longest piece of a longer one, in bytes.
const MAX_PIECE_BYTES: usize = 64 * 1024;

/// What a client gets.
pub enum Reply {
    /// All of it.
    Whole(Full<Bytes>),
    /// What is left of an answer that is there already, and is handed out in pieces.
    Pieces(Bytes),
    /// A stream; if it breaks, the client is told in the stream.
    Stream(Box<Relay>),
    /// A stream that has broken.
    BrokenStream {
        /// What tells the client.
        last: Bytes,
        /// What that waits for.
        syncing: Option<DiskSync>,
    },
    /// A stream that has ended.
    Ended,
}

impl Reply {
    /// Whether it is there already.
    pub fn is_whole(&self) -> bool {
        matches!(self, Self::Whole(_) | Self::Pieces(_))
    }

    /// Makes a long answer that is there already one in pieces, for a stream of HTTP/2: hyper is done with a
    /// stream when it has handed on the last piece, whether there is room for it at the client or not.
    #[must_use]
    pub fn in_pieces(self) -> Self {
        match self {
            Self::Whole(body) if body.size_hint().lower() > MAX_WHOLE_BYTES => {
                // a `Full` has one frame, which is ready
                let bytes = body.into_inner().unwrap_or_default();
                Self::Pieces(bytes)
            }
            other => other,
        }
    }

    /// Ends a stream with an error that its client can read, because the gateway shuts down.
    pub fn end_for_shutdown(&mut self) {
        if let Self::Stream(relay) = self {
            relay.interrupt(Refusal::ShuttingDown.into());
        }
    }

    /// A body that is there already.
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
                    Some(Ok(bytes)) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                    Some(Err(broken)) => {
                        let syncing = broken.guard.as_ref().and_then(RequestGuard::syncing);
                        let last = respond::error_event(*broken);
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

/// Takes the next piece of `rest`. The last one is a single byte with memory of its own: the client has room for
/// it only after all others, so that the memory of the answer is free when hyper is done with the stream.
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

    /// Notes that it was dropped.
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
