//! Relays a stream from its upstream to the client.
//!
//! The client drives the stream: the upstream is read only after the client has taken what is available, and
//! dropping the stream cancels the upstream's request. The [`StreamAdapter`] decides what the bytes become.

mod broken;
mod early_end;
mod source;
#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::poll_fn;
use http::HeaderMap;
use http_body::Body;

pub use self::broken::{BrokenRequest, BrokenStream};
use self::source::Source;
pub use self::source::{ForwardFuture, PendingAnswer};
use super::Fault;
use super::failed_request::FailedRequest;
use super::forward::{BegunAnswer, ForwardError};
use super::forwarded_request::ForwardedRequest;
use super::outcome::RequestOutcome;
use super::read_batcher::ReadBatcher;
use super::replay::AnswerRecorder;
use super::stream_adapter::StreamAdapter;
use super::stream_memory::StreamMemory;
use crate::capture::BodyCapture;
use crate::ledger::DiskSync;
use crate::timers::IdleTimeout;
use crate::upstream::{TimeoutKind, UpstreamError};
use domain::id::RequestId;
use domain::wire::sse;

/// How long the head of a stream is delayed for its first event, so that an immediate upstream failure still
/// gets its HTTP status. The time begins with the relay: for chat when the upstream has sent its head, for
/// Responses before the request is sent upstream.
const COMMIT_GRACE: Duration = Duration::from_secs(5);
/// The silence after which a client gets a keep-alive, if it gets any.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// The most bytes passed to the client at once.
const MAX_FRAME_BYTES: usize = 64 * 1024;
/// The most bytes read in one poll. A stream of events that the client does not get must not keep others
/// waiting.
const MAX_READ_BYTES: usize = 64 * 1024;
/// What a frame counts at least towards [`MAX_READ_BYTES`]: a frame of one byte costs as much to read as this
/// many bytes.
const MIN_FRAME_COST: usize = 64;

/// What continues with a stream after its client has disconnected.
pub(super) type OnDisconnect = Box<dyn FnOnce(Box<Relay>) + Send>;

/// A stream in progress. Its request is settled when the end is returned, or when the relay is dropped.
pub struct Relay {
    source: Source,
    adapter: StreamAdapter,
    /// The memory of the answer.
    memory: StreamMemory,
    /// Additional headers.
    headers: HeaderMap,
    /// Bytes that were read and not passed on yet.
    unprocessed: Bytes,
    out: BytesMut,
    /// Bytes that are passed on once they are known to be covered.
    uncovered: Option<BytesMut>,
    /// The length of the last frame, in bytes, as the capacity of the next.
    frame_capacity: usize,
    /// `None` before the answer has begun, and once it is settled.
    request: Option<Box<ForwardedRequest>>,
    /// The silence of the upstream.
    upstream_idle: IdleTimeout,
    /// The silence towards the client.
    client_idle: IdleTimeout,
    read_batcher: ReadBatcher,
    failure: Option<Fault>,
    /// Records the answer for retries of the request.
    answer_recorder: Option<Box<AnswerRecorder>>,
    /// `None` if a client disconnect stops the upstream.
    on_disconnect: Option<OnDisconnect>,
    /// The wait between settlement and the end of the stream.
    syncing: Option<DiskSync>,
    /// Captures what the client gets, if the key is captured.
    capture: Option<BodyCapture>,
}

// === impl Relay ===

impl Relay {
    /// Creates the relay of an answer that has begun.
    pub fn reading(begun: BegunAnswer, adapter: StreamAdapter) -> Box<Self> {
        let BegunAnswer { request, headers, body, upstream_client } = begun;
        let idle = upstream_client.idle_deadline();
        let mut relay = Self::new(Source::Reading(body), adapter, Some(request), idle);
        relay.headers = headers;
        relay
    }

    /// Creates the relay of an answer that has not begun. `headers` are sent if the client gets its head
    /// before that.
    pub fn waiting(
        pending: PendingAnswer,
        adapter: StreamAdapter,
        headers: HeaderMap,
    ) -> Box<Self> {
        // ForwardFuture has its own timeouts.
        let mut relay = Self::new(Source::Waiting(pending), adapter, None, Duration::MAX);
        relay.headers = headers;
        relay
    }

    fn new(
        source: Source,
        adapter: StreamAdapter,
        request: Option<Box<ForwardedRequest>>,
        idle: Duration,
    ) -> Box<Self> {
        Box::new(Self {
            source,
            adapter,
            memory: StreamMemory::default(),
            headers: HeaderMap::new(),
            unprocessed: Bytes::new(),
            out: BytesMut::new(),
            uncovered: None,
            frame_capacity: 0,
            request,
            upstream_idle: IdleTimeout::new(idle),
            client_idle: IdleTimeout::new(KEEP_ALIVE_INTERVAL),
            read_batcher: ReadBatcher::default(),
            failure: None,
            answer_recorder: None,
            on_disconnect: None,
            syncing: None,
            capture: None,
        })
    }

    /// Captures what the client gets.
    pub fn set_capture(&mut self, capture: BodyCapture) {
        self.capture = Some(capture);
    }

    /// Captures bytes that the client gets, if they are to be.
    pub fn capture(&self, bytes: &[u8]) {
        if let Some(capture) = &self.capture {
            capture.push(bytes);
        }
    }

    /// Waits for the first event, up to `COMMIT_GRACE`. Returns the headers for the client, and the relay.
    ///
    /// # Errors
    /// The stream broke before anything was sent to the client.
    pub(super) async fn begin(
        mut self: Box<Self>,
    ) -> Result<(HeaderMap, Box<Self>), Box<FailedRequest>> {
        let first =
            tokio::time::timeout(COMMIT_GRACE, poll_fn(|context| self.poll_fill(context))).await;
        if first.is_err() {
            // On timeout, the client gets the head and waits for events as they come.
            self.adapter.commit(&mut self.out);
            if let Source::Waiting(pending) = &self.source {
                pending.head_sent.set();
            }
        }
        if self.out.is_empty()
            && self.failure.is_some()
            && let Some((fault, request)) = self.failure.take().zip(self.request.take())
        {
            return Err(FailedRequest::after_forwarding(request, fault));
        }
        // A short stream may be complete and settled already.
        if let Some(request) = self.request.as_mut() {
            request.set_head_sent();
        }
        Ok((std::mem::take(&mut self.headers), self))
    }

    /// Sets the recorder of the answer.
    pub(super) fn record(&mut self, answer_recorder: Box<AnswerRecorder>) {
        if self.is_settled() {
            // The answer is complete and settled already.
            answer_recorder.finish(&self.out, true);
        } else {
            self.answer_recorder = Some(answer_recorder);
        }
    }

    /// Sets what continues after a client disconnect.
    pub(super) fn set_on_disconnect(&mut self, on_disconnect: OnDisconnect) {
        self.on_disconnect = Some(on_disconnect);
    }

    /// Reads until there are bytes for the client and no more are available, or the stream has ended or
    /// failed. If it is ready with `out` empty, the stream has failed, or has ended and is settled.
    ///
    /// All available bytes go to the client in one write, and nothing waits for a timer.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let (Source::Waiting(pending), None) = (&mut self.source, &self.failure) {
            if let Poll::Ready(forwarded) = pending.forwarding.as_mut().poll(context) {
                self.forwarded(forwarded);
            } else if self.out.is_empty() {
                return self.poll_keep_alive(context);
            } else {
                return Poll::Ready(());
            }
        }
        let mut read_bytes = 0;
        while self.failure.is_none() && self.out.len() < MAX_FRAME_BYTES {
            let Some(request) = &mut self.request else { break };
            if let Some(uncovered) = &mut self.uncovered {
                match request.coverage.poll_covered(context) {
                    Poll::Ready(true) => self.out.unsplit(std::mem::take(uncovered)),
                    Poll::Ready(false) => {
                        self.adapter.cut_short(request, uncovered, &mut self.out);
                        self.source = Source::Ended;
                        self.unprocessed.clear();
                    }
                    // A keep-alive would overtake the events that are held back.
                    Poll::Pending if self.out.is_empty() => return Poll::Pending,
                    Poll::Pending => break,
                }
                self.uncovered = None;
                request.open.set_first_output();
            }
            if !self.unprocessed.is_empty() && !self.adapter.is_done() {
                self.pass_on(context);
                continue;
            }
            let upstream = match &mut self.source {
                Source::Reading(upstream) if !self.adapter.is_done() => Some(upstream),
                _ => None,
            };
            let Some(upstream) = upstream else {
                match self.adapter.poll_end(context, request, &mut self.out) {
                    Poll::Ready(Ok(outcome)) => self.finish(context, outcome),
                    Poll::Ready(Err(failure)) => self.failure = Some(failure.into()),
                    Poll::Pending if self.out.is_empty() => return self.poll_keep_alive(context),
                    Poll::Pending => {}
                }
                break;
            };
            let Poll::Ready(()) = request.poll_room(context) else {
                if self.out.is_empty() {
                    return self.poll_keep_alive(context);
                }
                break;
            };
            if read_bytes >= MAX_READ_BYTES {
                if self.out.is_empty() {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                break;
            }
            let Poll::Ready(read) = Pin::new(&mut *upstream).poll_frame(context) else {
                if self.out.is_empty() {
                    ready!(self.poll_waiting(context));
                } else if upstream.has_task() && self.read_batcher.should_yield() {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                break;
            };
            self.read_batcher.read();
            self.upstream_idle.reset();
            request.set_answer_begun();
            match read {
                Some(Ok(frame)) => {
                    self.unprocessed = frame.into_data().unwrap_or_default();
                    read_bytes += self.unprocessed.len().max(MIN_FRAME_COST);
                }
                Some(Err(error)) => self.failure = Some(error.into()),
                None => {
                    self.source = Source::Ended;
                    self.adapt(context, StreamAdapter::finish_input);
                }
            }
        }
        Poll::Ready(())
    }

    /// Passes on what was read: all of it, or one event at a time if it may exceed the hold.
    fn pass_on(&mut self, context: &mut Context<'_>) {
        let Some(request) = &self.request else { return };
        let data = if request.coverage.has_room_for(self.unprocessed.len()) {
            std::mem::take(&mut self.unprocessed)
        } else {
            let end = sse::event_end(&self.unprocessed, 0).unwrap_or(self.unprocessed.len());
            self.unprocessed.split_to(end)
        };
        if self.out.capacity() == 0 {
            self.out.reserve(self.frame_capacity);
        }
        self.adapt(context, |adapter, request, out| adapter.push(&data, request, out));
    }

    /// Passes on the events that `append` appends, as far as they are part of a valid answer and covered.
    fn adapt(
        &mut self,
        context: &mut Context<'_>,
        append: impl FnOnce(
            &mut StreamAdapter,
            &mut ForwardedRequest,
            &mut BytesMut,
        ) -> Result<(), UpstreamError>,
    ) {
        let Some(request) = &mut self.request else { return };
        let before = self.out.len();
        let appended = append(&mut self.adapter, request, &mut self.out);
        let checked = appended.and_then(|()| request.coverage.check_answer());
        let counted = self.memory.grow_to(self.adapter.memory_bytes(), &request.open);
        self.failure = match checked {
            Ok(()) => counted.err().map(Fault::from),
            Err(error) => Some(request.redact(error).into()),
        };
        request.update_progress();
        if self.failure.is_none() && !request.coverage.ensure_covered() {
            self.uncovered = Some(self.out.split_off(before));
        }
        request.coverage.release_excess(context);
        if !self.out.is_empty() {
            request.open.set_first_output();
        }
    }

    /// Handles the result of forwarding.
    fn forwarded(&mut self, forwarded: Result<BegunAnswer, ForwardError>) {
        match forwarded {
            Ok(BegunAnswer { request, headers, body, upstream_client }) => {
                self.upstream_idle = IdleTimeout::new(upstream_client.idle_deadline());
                self.request = Some(request);
                self.headers = headers;
                self.source = Source::Reading(body);
            }
            Err(error) => {
                self.request = Some(error.request);
                self.source = Source::Ended;
                self.failure = Some(error.fault);
            }
        }
    }

    /// Waits for the upstream with nothing to pass on.
    fn poll_waiting(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.upstream_idle.poll_elapsed(context).is_ready() {
            self.failure = Some(UpstreamError::TimedOut(TimeoutKind::Idle).into());
            return Poll::Ready(());
        }
        self.poll_keep_alive(context)
    }

    /// Ready with a keep-alive in `out` once the client was sent nothing for [`KEEP_ALIVE_INTERVAL`]. If the
    /// stream cannot have a keep-alive then, this waits for another interval.
    fn poll_keep_alive(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.adapter.has_keep_alive() {
            return Poll::Pending;
        }
        loop {
            ready!(self.client_idle.poll_elapsed(context));
            self.adapter.keep_alive(&mut self.out);
            if !self.out.is_empty() {
                return Poll::Ready(());
            }
            self.client_idle.reset();
        }
    }

    /// Settles the request, before the client can see the end of its answer.
    fn finish(&mut self, context: &mut Context<'_>, outcome: RequestOutcome) {
        let Some(request) = self.request.take() else { return };
        let source = std::mem::replace(&mut self.source, Source::Ended);
        source.read_rest(&request, context);
        self.syncing = request.syncing();
        request.close(outcome);
        if let Some(answer_recorder) = self.answer_recorder.take() {
            answer_recorder.finish(&self.out, true);
        }
    }

    /// Returns the next bytes for the client.
    ///
    /// # Errors
    /// The stream broke; earlier bytes were returned. Nothing follows.
    pub fn poll_bytes(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Box<BrokenStream>>>> {
        ready!(self.poll_fill(context));
        if let Some(syncing) = &mut self.syncing {
            ready!(syncing.as_mut().poll(context));
            self.syncing = None;
        }
        if !self.out.is_empty() {
            self.client_idle.reset();
            // The whole buffer is passed on: a rest of it would be kept until the next event.
            self.frame_capacity = self.out.len();
            if let Some(answer_recorder) = &mut self.answer_recorder {
                answer_recorder.push(&self.out);
            }
            let bytes = std::mem::take(&mut self.out).freeze();
            let is_last = self.is_settled() && self.failure.is_none();
            let memory =
                if is_last { std::mem::take(&mut self.memory) } else { StreamMemory::default() };
            return Poll::Ready(Some(Ok(memory.attach(bytes))));
        }
        debug_assert!(
            self.failure.is_some() || self.is_settled(),
            "a stream ends once it is settled"
        );
        ready!(self.poll_charged_usage(context));
        Poll::Ready(self.take_broken().map(|(fault, request)| {
            let adapter = std::mem::replace(&mut self.adapter, StreamAdapter::Taken);
            let memory = std::mem::take(&mut self.memory);
            Err(Box::new(BrokenStream { fault, request, adapter, memory }))
        }))
    }

    /// Returns the id of its request; `None` once it is settled.
    pub fn id(&self) -> Option<RequestId> {
        match (&self.source, &self.request) {
            (Source::Waiting(pending), _) => Some(pending.id),
            (_, request) => request.as_ref().map(|request| request.id()),
        }
    }

    /// Returns whether everything was returned, a failure included.
    pub fn is_ended(&self) -> bool {
        self.out.is_empty() && self.is_settled() && self.syncing.is_none() && self.failure.is_none()
    }

    fn is_settled(&self) -> bool {
        self.request.is_none() && !matches!(self.source, Source::Waiting(_))
    }
}
