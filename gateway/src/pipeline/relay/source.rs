//! Where the bytes of a stream come from: an upstream that has not answered yet, or the body of its answer.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body::Body;
use http_body_util::BodyExt;

use crate::ledger::DiskSync;
use crate::pipeline::forward::{BegunAnswer, ForwardError};
use crate::pipeline::forwarded_request::ForwardedRequest;
use crate::pipeline::outcome::{DropOutcome, HeadSent};
use crate::upstream::AnswerBody;
use domain::id::RequestId;

/// The most frames that are read after the end marker before a task reads the rest.
const MAX_TRAILING_FRAMES: usize = 4;
/// How long an upstream may take to close a stream after `[DONE]`; then its connection is closed instead of
/// reused.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// The future of an answer that has not begun.
pub type ForwardFuture = Pin<Box<dyn Future<Output = Result<BegunAnswer, ForwardError>> + Send>>;

/// An answer that has not begun. `forwarding` owns the request; the handles are those of the request.
pub struct PendingAnswer {
    /// Ready when the answer begins.
    pub forwarding: ForwardFuture,
    /// The request id.
    pub id: RequestId,
    /// Records that the client got the head of the stream.
    pub head_sent: HeadSent,
    /// Sets the outcome before the request is dropped.
    pub drop_outcome: DropOutcome,
    /// The wait between settlement and the end of the stream.
    pub syncing: Option<DiskSync>,
}

/// The source of a stream.
pub(super) enum Source {
    /// An upstream that has not answered yet.
    Waiting(PendingAnswer),
    /// A body.
    Reading(AnswerBody),
    /// Everything was read.
    Ended,
}

impl Source {
    /// Reads what follows the end marker of the answer to `request`: the connection can be used again only if its
    /// answer was read to the end.
    pub(super) fn read_rest(self, request: &ForwardedRequest, context: &mut Context<'_>) {
        let Self::Reading(mut rest) = self else { return };
        for _ in 0..MAX_TRAILING_FRAMES {
            match Pin::new(&mut rest).poll_frame(context) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(_) => return,
                Poll::Pending => break,
            }
        }
        let drain = async move { while let Some(Ok(_)) = rest.frame().await {} };
        request.spawn(async move { _ = tokio::time::timeout(CLOSE_GRACE, drain).await });
    }
}
