//! The answer of the pipeline to the HTTP layer.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;

use super::failed_request::FailedRequest;
use super::relay::Relay;
use super::replay::{AnswerRecorder, RecordedAnswer};

/// An answer to the client.
pub enum Answer {
    /// A plain answer, settled already.
    Whole {
        /// Additional headers.
        headers: HeaderMap,
        /// The body.
        body: Bytes,
    },
    /// A stream, settled at its end.
    Stream {
        /// Additional headers.
        headers: HeaderMap,
        /// The body; boxed, because it waits in a connection's state.
        relay: Box<Relay>,
    },
    /// The answer to an earlier attempt of the same request.
    Replayed(Arc<RecordedAnswer>),
}

impl Answer {
    /// Returns the answer of a stream, once its first event has arrived or its head cannot be delayed any more.
    ///
    /// # Errors
    /// The stream broke before anything was sent to the client.
    pub(super) async fn begin_stream(relay: Box<Relay>) -> Result<Self, Box<FailedRequest>> {
        let (headers, relay) = relay.begin().await?;
        Ok(Self::Stream { headers, relay })
    }

    /// Records the answer for retries of the request; a stream is recorded at its end.
    pub(super) fn record(&mut self, mut recorder: Box<AnswerRecorder>) {
        match self {
            Self::Whole { headers, body } => recorder.record_whole(headers, body),
            Self::Stream { headers, relay } => {
                recorder.begin_stream(headers);
                relay.record(recorder);
            }
            Self::Replayed(_) => {}
        }
    }
}
