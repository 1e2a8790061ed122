//! Relays a stream from its upstream to the client.
//!
//! The client drives the stream: the upstream is read only after the client has taken what is available, and
//! dropping the stream cancels the upstream's request. The [`StreamAdapter`] decides what the bytes become.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::poll_fn;
use http::HeaderMap;
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::Fault;
use super::drain::Drain;
use super::forward::BegunAnswer;
use super::idle_timeout::IdleTimeout;
use super::outcome::{HeadSent, RequestOutcome};
use super::read_batcher::ReadBatcher;
use super::replay::{AnswerRecorder, RecordedAnswer};
use super::request_guard::RequestGuard;
use super::stream_adapter::StreamAdapter;
use crate::ledger::DiskSync;
use crate::upstream::{Phase, UpstreamError};
use domain::wire::sse;

/// How long the head of a stream is delayed for its first event, so that an immediate upstream failure still
/// gets its HTTP status.
const COMMIT_GRACE: Duration = Duration::from_secs(5);
/// The silence after which a client gets a keep-alive, if it gets any.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// The most bytes passed to the client at once.
const MAX_FRAME_BYTES: usize = 64 * 1024;
/// How long an upstream may take to close a stream after `[DONE]`; then its connection is closed instead of
/// reused.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

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

/// An answer that has not begun. It owns the request's guard and returns it with the result.
pub type Forwarding =
    Pin<Box<dyn Future<Output = (Result<BegunAnswer, Fault>, RequestGuard)> + Send>>;

/// A stream in progress. Its guard is closed when the end is returned, or when the relay is dropped.
pub struct Relay {
    source: Source,
    adapter: StreamAdapter,
    /// Additional headers.
    headers: HeaderMap,
    commitment: Option<HeadSent>,
    /// Bytes that were read and not passed on yet.
    unread: Bytes,
    out: BytesMut,
    /// Bytes that are passed on once they are known to be covered.
    uncovered: Option<BytesMut>,
    /// The length of the last frame, in bytes, as the capacity of the next.
    frame_capacity: usize,
    /// `None` before the answer has begun, and once it is settled.
    guard: Option<RequestGuard>,
    /// The silence of the upstream.
    idle: IdleTimeout,
    /// The silence towards the client.
    silence: IdleTimeout,
    read_batcher: ReadBatcher,
    failure: Option<Fault>,
    /// Records the answer for retries of the request.
    answer_recorder: Option<Box<AnswerRecorder>>,
    /// Reads the rest after a client disconnect; `None` if the upstream is to be stopped.
    drain: Option<Box<Drain>>,
    /// The wait between settlement and the end of the stream.
    syncing: Option<DiskSync>,
}

/// The source of a stream.
enum Source {
    /// An upstream that has not answered yet.
    Waiting(Forwarding),
    /// A body.
    Reading(Incoming),
    /// Everything was read.
    Ended,
}

/// A stream that broke after it had begun. The caller reports it to the client and closes the guard.
pub struct BrokenStream {
    /// The reason.
    pub fault: Fault,
    /// The open guard; `None` if the request is settled, because its upstream had not answered.
    pub guard: Option<RequestGuard>,
    /// Formats the error for the client.
    pub adapter: StreamAdapter,
}

// === impl Relay ===

impl Relay {
    /// Creates the relay of an answer that has begun.
    pub fn reading(
        begun: BegunAnswer,
        adapter: StreamAdapter,
        guard: Option<RequestGuard>,
    ) -> Box<Self> {
        let idle = begun.upstream_client.idle_deadline();
        let mut relay = Self::new(Source::Reading(begun.body), adapter, guard, idle);
        relay.headers = begun.headers;
        relay
    }

    /// Creates the relay of an answer that has not begun. `headers` are sent if the client gets its head
    /// before that, which is recorded in `commitment`.
    pub fn waiting(
        forwarding: Forwarding,
        adapter: StreamAdapter,
        headers: HeaderMap,
        commitment: HeadSent,
    ) -> Box<Self> {
        // Forwarding has timeouts of its own.
        let mut relay = Self::new(Source::Waiting(forwarding), adapter, None, Duration::MAX);
        relay.headers = headers;
        relay.commitment = Some(commitment);
        relay
    }

    fn new(
        source: Source,
        adapter: StreamAdapter,
        guard: Option<RequestGuard>,
        idle: Duration,
    ) -> Box<Self> {
        Box::new(Self {
            source,
            adapter,
            headers: HeaderMap::new(),
            commitment: None,
            unread: Bytes::new(),
            out: BytesMut::new(),
            uncovered: None,
            frame_capacity: 0,
            guard,
            idle: IdleTimeout::new(idle),
            silence: IdleTimeout::new(KEEP_ALIVE_INTERVAL),
            read_batcher: ReadBatcher::default(),
            failure: None,
            answer_recorder: None,
            drain: None,
            syncing: None,
        })
    }

    /// Waits for the first event, up to `COMMIT_GRACE`.
    ///
    /// # Errors
    /// The stream broke before anything was sent to the client; its guard is open.
    pub async fn begin(
        mut self: Box<Self>,
        guard: &mut Option<RequestGuard>,
    ) -> Result<Answer, Fault> {
        let first =
            tokio::time::timeout(COMMIT_GRACE, poll_fn(|context| self.poll_fill(context))).await;
        if first.is_err() {
            // On timeout, the client gets the head and waits for events as they come.
            self.adapter.commit(&mut self.out);
            if let Some(commitment) = &self.commitment {
                commitment.set();
            }
        }
        if self.out.is_empty()
            && let Some(fault) = self.failure.take()
        {
            *guard = self.guard.take();
            return Err(fault);
        }
        // A short stream may be complete and settled already.
        if let Some(open) = self.guard.as_mut() {
            open.head_sent();
        }
        Ok(Answer::Stream { headers: std::mem::take(&mut self.headers), relay: self })
    }

    /// Sets the recorder of the answer.
    pub(super) fn keep(&mut self, answer_recorder: Box<AnswerRecorder>) {
        if self.is_booked() {
            // The answer is complete and settled already.
            answer_recorder.finish(&self.out, true);
        } else {
            self.answer_recorder = Some(answer_recorder);
        }
    }

    /// Sets what reads the rest after a client disconnect.
    pub(super) fn drained_by(&mut self, drain: Option<Box<Drain>>) {
        self.drain = drain;
    }

    /// Reads until there are bytes for the client and no more are available, or the stream has ended or
    /// failed.
    ///
    /// All available bytes go to the client in one write, and nothing waits for a timer.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Source::Waiting(forwarding) = &mut self.source {
            if let Poll::Ready((outcome, guard)) = forwarding.as_mut().poll(context) {
                self.answered(outcome, guard);
            } else if self.out.is_empty() {
                return self.poll_silence(context);
            } else {
                return Poll::Ready(());
            }
        }
        while self.failure.is_none() && self.out.len() < MAX_FRAME_BYTES {
            let Some(guard) = &mut self.guard else { break };
            if let Some(uncovered) = &mut self.uncovered {
                match guard.poll_covered(context) {
                    Poll::Ready(true) => self.out.unsplit(std::mem::take(uncovered)),
                    Poll::Ready(false) => {
                        self.adapter.cut_short(guard, uncovered, &mut self.out);
                        self.source = Source::Ended;
                        self.unread.clear();
                    }
                    // A keep-alive would overtake the events that are held back.
                    Poll::Pending if self.out.is_empty() => return Poll::Pending,
                    Poll::Pending => break,
                }
                self.uncovered = None;
                guard.first_piece();
            }
            if !self.unread.is_empty() && !self.adapter.is_done() {
                self.pass_on(context);
                continue;
            }
            let upstream = match &mut self.source {
                Source::Reading(upstream) if !self.adapter.is_done() => Some(upstream),
                _ => None,
            };
            let Some(upstream) = upstream else {
                match self.adapter.poll_end(context, guard, &mut self.out) {
                    Poll::Ready(Ok(end)) => self.finish(context, end),
                    Poll::Ready(Err(failure)) => self.failure = Some(failure.into()),
                    Poll::Pending if self.out.is_empty() => return self.poll_silence(context),
                    Poll::Pending => {}
                }
                break;
            };
            let Poll::Ready(()) = guard.poll_room(context) else {
                if self.out.is_empty() {
                    return self.poll_silence(context);
                }
                break;
            };
            let Poll::Ready(read) = Pin::new(upstream).poll_frame(context) else {
                if self.out.is_empty() {
                    ready!(self.poll_waiting(context));
                } else if self.read_batcher.should_yield() {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                break;
            };
            self.read_batcher.read();
            self.idle.end();
            guard.answer_begun();
            match read {
                Some(Ok(frame)) => self.unread = frame.into_data().unwrap_or_default(),
                Some(Err(_)) => self.failure = Some(UpstreamError::CutOff.into()),
                None => self.source = Source::Ended,
            }
        }
        Poll::Ready(())
    }

    /// Passes on what was read: all of it, or one event at a time if it may exceed the hold.
    fn pass_on(&mut self, context: &mut Context<'_>) {
        let Some(guard) = &mut self.guard else { return };
        let data = if guard.has_room_for(self.unread.len()) {
            std::mem::take(&mut self.unread)
        } else {
            let end = sse::event_end(&self.unread, 0).unwrap_or(self.unread.len());
            self.unread.split_to(end)
        };
        if self.out.capacity() == 0 {
            self.out.reserve(self.frame_capacity);
        }
        let before = self.out.len();
        let pushed = self.adapter.push(&data, guard, &mut self.out);
        let checked = pushed.and_then(|()| guard.check_answer());
        self.failure = checked.err().map(Fault::from);
        guard.update_progress();
        if self.failure.is_none() && !guard.is_covered() {
            self.uncovered = Some(self.out.split_off(before));
        }
        guard.give_back(context);
        if !self.out.is_empty() {
            guard.first_piece();
        }
    }

    /// Handles the result of forwarding.
    fn answered(&mut self, outcome: Result<BegunAnswer, Fault>, guard: RequestGuard) {
        self.guard = Some(guard);
        match outcome {
            Ok(begun) => {
                self.idle = IdleTimeout::new(begun.upstream_client.idle_deadline());
                self.headers = begun.headers;
                self.source = Source::Reading(begun.body);
            }
            Err(fault) => {
                self.source = Source::Ended;
                self.failure = Some(fault);
            }
        }
    }

    /// Waits for the upstream with nothing to pass on.
    fn poll_waiting(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.idle.poll_elapsed(context).is_ready() {
            self.failure = Some(UpstreamError::TimedOut(Phase::Idle).into());
            return Poll::Ready(());
        }
        self.poll_silence(context)
    }

    /// Ready with a keep-alive once the client has heard nothing for [`KEEP_ALIVE_INTERVAL`].
    fn poll_silence(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.adapter.has_keep_alive() {
            return Poll::Pending;
        }
        ready!(self.silence.poll_elapsed(context));
        self.adapter.keep_alive(&mut self.out);
        Poll::Ready(())
    }

    /// Settles the request, before the client can see the end of its answer.
    fn finish(&mut self, context: &mut Context<'_>, end: RequestOutcome) {
        let Some(guard) = self.guard.take() else { return };
        let source = std::mem::replace(&mut self.source, Source::Ended);
        if let Source::Reading(mut rest) = source
            && Pin::new(&mut rest).poll_frame(context).is_pending()
        {
            let drain = async move { while let Some(Ok(_)) = rest.frame().await {} };
            guard.spawn(async move { _ = tokio::time::timeout(CLOSE_GRACE, drain).await });
        }
        self.syncing = guard.syncing();
        guard.close(end);
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
            self.silence.end();
            // The whole buffer is passed on: a rest of it would be kept until the next event.
            self.frame_capacity = self.out.len();
            if let Some(answer_recorder) = &mut self.answer_recorder {
                answer_recorder.push(&self.out);
            }
            return Poll::Ready(Some(Ok(std::mem::take(&mut self.out).freeze())));
        }
        self.source = Source::Ended;
        self.answer_recorder = None;
        Poll::Ready(self.failure.take().map(|fault| {
            let adapter = std::mem::replace(&mut self.adapter, StreamAdapter::Ended);
            Err(Box::new(BrokenStream { fault, guard: self.guard.take(), adapter }))
        }))
    }

    /// Ends the stream early because of `fault`: the bytes so far are returned first.
    pub fn interrupt(&mut self, fault: Fault) {
        if self.is_booked() || self.failure.is_some() || self.adapter.is_done() {
            return;
        }
        self.withhold();
        // A forwarding in progress is dropped with its guard.
        self.source = Source::Ended;
        self.failure = Some(fault);
    }

    /// Records that bytes waiting for coverage are not passed on.
    fn withhold(&mut self) {
        if let (Some(uncovered), Some(guard), StreamAdapter::Chat(_)) =
            (self.uncovered.take(), &mut self.guard, &self.adapter)
        {
            guard.withhold(&uncovered);
        }
    }

    /// Returns whether everything was returned.
    pub fn is_ended(&self) -> bool {
        self.out.is_empty() && self.is_booked() && self.syncing.is_none()
    }

    fn is_booked(&self) -> bool {
        self.guard.is_none() && !matches!(self.source, Source::Waiting(_))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let drain = self.drain.take().filter(|_| !self.is_booked() && !std::thread::panicking());
        if let Some(drain) = drain {
            let ended = Self::new(Source::Ended, StreamAdapter::Ended, None, Duration::MAX);
            drain.read_rest(Box::new(std::mem::replace(self, *ended)));
        } else if !std::thread::panicking() {
            self.withhold();
        }
    }
}
