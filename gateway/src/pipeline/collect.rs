//! Reads plain answers whole.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use futures_util::future::poll_fn;
use http_body::{Body, Frame};
use hyper::body::Incoming;

use super::idle_timeout::IdleTimeout;
use crate::upstream::{Phase, UpstreamError};

/// The longest answer that is read whole or kept until its end, in bytes.
pub(super) const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads a body to its end; the idle timeout applies to each read.
pub(super) async fn collect(mut body: Incoming, idle: Duration) -> Result<Bytes, UpstreamError> {
    let mut idle_timeout = IdleTimeout::new(idle);
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    while let Some(frame) =
        poll_fn(|context| poll_frame(&mut body, &mut idle_timeout, context)).await?
    {
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + whole.len() + data.len() > MAX_ANSWER_BYTES {
            let message = format!("its answer is longer than {MAX_ANSWER_BYTES} bytes");
            return Err(UpstreamError::Invalid(message));
        }
        // Most answers arrive in one read and need not be copied.
        if first.is_empty() && whole.is_empty() {
            first = data;
        } else {
            whole.extend_from_slice(&std::mem::take(&mut first));
            whole.extend_from_slice(&data);
        }
    }
    let mut body = if whole.is_empty() { first } else { whole.freeze() };
    if body.starts_with(BYTE_ORDER_MARK) {
        // JSON has no byte order mark, and readers may ignore it (RFC 8259, 8.1).
        body.advance(BYTE_ORDER_MARK.len());
    }
    Ok(body)
}

fn poll_frame(
    body: &mut Incoming,
    idle_timeout: &mut IdleTimeout,
    context: &mut Context<'_>,
) -> Poll<Result<Option<Frame<Bytes>>, UpstreamError>> {
    let Poll::Ready(read) = Pin::new(body).poll_frame(context) else {
        ready!(idle_timeout.poll_elapsed(context));
        return Poll::Ready(Err(UpstreamError::TimedOut(Phase::Idle)));
    };
    idle_timeout.end();
    Poll::Ready(read.transpose().map_err(|_| UpstreamError::CutOff))
}
