//! Tracks the requests of an HTTP/1.1 connection until their answers are flushed.
//!
//! A request is in progress until the connection has flushed its answer: hyper buffers an answer and drops its body before
//! the client has taken the bytes, and a connection that is closed in between cuts the answer off.

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

use crate::connections::{Activity, ActivityGuard};

/// The requests of one connection.
pub(super) struct Answering {
    activity: Arc<Activity>,
    ended: Arc<Notify>,
    unflushed: Arc<Unflushed>,
}

/// The newest request whose answer hyper has taken, but may not have flushed.
#[derive(Default)]
struct Unflushed(Mutex<Option<InProgress>>);

/// A request in progress. Dropping it ends the request, and then notifies: the fields are dropped in this order.
pub(super) struct InProgress {
    _activity: ActivityGuard,
    _notice: EndNotice,
}

struct EndNotice(Arc<Notify>);

/// The body of an answer, with its request.
pub(super) struct AnswerBody {
    body: Full<Bytes>,
    request: Option<InProgress>,
    unflushed: Arc<Unflushed>,
}

/// The stream of a connection, which ends requests when hyper has flushed their answers.
pub(super) struct AnswerIo<S> {
    stream: S,
    unflushed: Arc<Unflushed>,
}

// === impl Answering ===

impl Answering {
    /// Reports requests to `activity`, and each end of one to `ended`, too.
    pub(super) fn new(activity: Arc<Activity>, ended: Arc<Notify>) -> Self {
        Self { activity, ended, unflushed: Arc::default() }
    }

    /// Returns the stream that hyper must use.
    pub(super) fn io<S>(&self, stream: S) -> AnswerIo<S> {
        AnswerIo { stream, unflushed: self.unflushed.clone() }
    }

    /// Begins a request.
    pub(super) fn begin(&self) -> InProgress {
        InProgress { _activity: self.activity.begin(), _notice: EndNotice(self.ended.clone()) }
    }

    /// Returns the body of the answer to a request, which ends when it is written, or abandoned.
    pub(super) fn body(&self, request: InProgress, body: Full<Bytes>) -> AnswerBody {
        AnswerBody { body, request: Some(request), unflushed: self.unflushed.clone() }
    }
}

impl Unflushed {
    /// Returns the request that was there before, which ends: `request` keeps the connection in use.
    fn replace(&self, request: Option<InProgress>) -> Option<InProgress> {
        let mut newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *newest, request)
    }
}

impl Drop for EndNotice {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        drop(self.unflushed.replace(self.request.take()));
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for AnswerIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for AnswerIo<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Hyper flushes only after it has written all that it has buffered.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready() {
            drop(self.unflushed.replace(None));
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use hyper::Response;
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nhost: gate\r\n\r\n";

    fn answering() -> (Arc<Answering>, Arc<Activity>, Arc<Notify>) {
        let (activity, ended) = (Arc::<Activity>::default(), Arc::new(Notify::new()));
        (Arc::new(Answering::new(activity.clone(), ended.clone())), activity, ended)
    }

    /// Regression test: a request ended when its answer was computed, and the connection could be closed in the middle of it.
    #[tokio::test]
    async fn a_request_is_in_progress_until_its_answer_is_written() {
        let (answering, activity, ended) = answering();
        let (mut client, server) = duplex(64);
        let io = TokioIo::new(answering.io(server));
        let service = service_fn(move |_| {
            let (answering, request) = (answering.clone(), answering.begin());
            async move {
                let body = Full::from(vec![b'x'; 10_000]);
                Ok::<_, Infallible>(Response::new(answering.body(request, body)))
            }
        });
        let reading = async {
            client.write_all(REQUEST).await.unwrap();
            client.read_u8().await.unwrap();
            assert!(activity.has_begun() && !activity.is_idle());
            assert!(ended.notified().now_or_never().is_none());
            let mut rest = Vec::new();
            while !rest.ends_with(&[b'x'; 10_000]) {
                assert!(client.read_buf(&mut rest).await.unwrap() > 0);
            }
            // The connection stays open for a further request.
            ended.notified().await;
            assert!(activity.is_idle());
            drop(client);
        };
        let serving = http1::Builder::new().serve_connection(io, service);
        let (result, ()) = tokio::join!(serving, reading);
        result.unwrap();
    }

    /// Regression test: no notification came when a client went away during the answer, and the port waited
    /// for it forever.
    #[tokio::test]
    async fn a_request_ends_with_a_notification_if_its_client_goes_away() {
        let (answering, activity, ended) = answering();
        let (mut client, server) = duplex(1_024);
        let io = TokioIo::new(answering.io(server));
        let begun = Arc::new(Notify::new());
        let begins = begun.clone();
        let service = service_fn(move |_| {
            let (answering, request) = (answering.clone(), answering.begin());
            begins.notify_one();
            async move {
                std::future::pending::<()>().await;
                let body = Full::default();
                Ok::<_, Infallible>(Response::new(answering.body(request, body)))
            }
        });
        let leaving = async {
            client.write_all(REQUEST).await.unwrap();
            begun.notified().await;
            drop(client);
        };
        let serving = http1::Builder::new().serve_connection(io, service);
        let (result, ()) = tokio::join!(serving, leaving);
        assert!(result.is_err());
        assert!(activity.is_idle() && ended.notified().now_or_never().is_some());
    }
}
