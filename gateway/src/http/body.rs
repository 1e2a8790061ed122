//! Response bodies.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;

use super::respond;
use crate::ledger::Syncing;
use crate::pipeline::relay::Relay;
use crate::pipeline::tally::Tally;
use domain::refusal::Refusal;

/// What a client gets.
pub enum Reply {
    /// All of it.
    Whole(Full<Bytes>),
    /// A stream; if it breaks, the client is told in the stream.
    Stream(Box<Relay>),
    /// A stream that has broken.
    Broken {
        /// What tells the client.
        last: Bytes,
        /// What that waits for.
        syncing: Option<Syncing>,
    },
    /// A stream that has ended.
    Ended,
}

impl Reply {
    /// Whether it is there already.
    pub fn is_whole(&self) -> bool {
        matches!(self, Self::Whole(_))
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
                Self::Ended => return Poll::Ready(None),
                Self::Stream(relay) => match ready!(relay.poll_bytes(context)) {
                    Some(Ok(bytes)) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                    Some(Err(broken)) => {
                        let syncing = broken.tally.as_ref().and_then(Tally::syncing);
                        let last = respond::error_event(*broken);
                        (Self::Broken { last, syncing }, None)
                    }
                    None => (Self::Ended, None),
                },
                Self::Broken { last, syncing } => {
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
            Self::Stream(relay) => relay.is_ended(),
            Self::Broken { .. } => false,
            Self::Ended => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Stream(_) | Self::Broken { .. } => SizeHint::default(),
            Self::Ended => SizeHint::with_exact(0),
        }
    }
}
