//! Brings a stream from its upstream to the client.
//!
//! A stream is pulled: the upstream is read only when the client has taken what there is, and dropping
//! the stream drops the upstream's request. What the bytes become on the way is the [`StreamAdapter`]'s.

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
use super::forward::Begun;
use super::idle_timeout::IdleTimeout;
use super::outcome::{Commitment, RequestOutcome};
use super::read_batcher::ReadBatcher;
use super::replay::{Keeper, Kept};
use super::request_guard::RequestGuard;
use super::stream_adapter::StreamAdapter;
use crate::ledger::DiskSync;
use crate::upstream::{Phase, UpstreamError};
use domain::wire::sse;

/// How long the head of a stream is held back for its first event, so that an upstream that fails at
/// once still gets its HTTP status.
const COMMIT_GRACE: Duration = Duration::from_secs(5);
/// How long a client hears nothing before it is told that its stream is alive, where that is done.
const SILENCE: Duration = Duration::from_secs(15);
/// Handed to the client at once; more waits for the next pull.
const MAX_FRAME_BYTES: usize = 64 * 1024;
/// How long an upstream may take to close a stream that has said `[DONE]`, before its connection is
/// given up instead of being used again.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// What the client gets.
pub enum Answer {
    /// All of it, booked already.
    Whole {
        /// Headers beside those of every answer.
        headers: HeaderMap,
        /// The body.
        body: Bytes,
    },
    /// A stream, booked at its end.
    Stream {
        /// Headers beside those of every answer.
        headers: HeaderMap,
        /// The body; boxed, because it waits in a connection's state.
        relay: Box<Relay>,
    },
    /// The answer to an earlier attempt of the same request.
    Again(Arc<Kept>),
}

/// An answer that has not begun. It has the request's guard, and gives it back with the outcome.
pub type Forwarding = Pin<Box<dyn Future<Output = (Result<Begun, Fault>, RequestGuard)> + Send>>;

/// A stream on its way. Its guard is closed when its end is handed out, or when it is dropped.
pub struct Relay {
    source: Source,
    adapter: StreamAdapter,
    /// Headers beside those of every answer.
    headers: HeaderMap,
    commitment: Option<Commitment>,
    /// What was read and not passed on yet.
    unread: Bytes,
    out: BytesMut,
    /// What is passed on once it is known to be paid for.
    uncovered: Option<BytesMut>,
    /// How much was handed out the last time, in bytes.
    usual: usize,
    /// `None` before the answer has begun, and once it is booked.
    guard: Option<RequestGuard>,
    /// How long the upstream has said nothing.
    idle: IdleTimeout,
    /// How long the client has been told nothing.
    silence: IdleTimeout,
    read_batcher: ReadBatcher,
    failure: Option<Fault>,
    /// Keeps what is handed out for retries of the request.
    keeper: Option<Box<Keeper>>,
    /// Reads the rest if the client goes away; `None` if the upstream is to be stopped.
    drain: Option<Box<Drain>>,
    /// What the end waits for once the request is booked.
    syncing: Option<DiskSync>,
}

/// Where a stream comes from.
enum Source {
    /// From an upstream that has not answered yet.
    Waiting(Forwarding),
    /// From this body.
    Reading(Incoming),
    /// All was read.
    Ended,
}

/// A stream that broke after it had begun. Whoever tells the client closes the guard.
pub struct Broken {
    /// Why.
    pub fault: Fault,
    /// The open guard; `None` if the request is booked, because its upstream had not answered.
    pub guard: Option<RequestGuard>,
    /// How the client is told.
    pub adapter: StreamAdapter,
}

// === impl Relay ===

impl Relay {
    /// A stream whose answer has begun.
    pub fn reading(begun: Begun, adapter: StreamAdapter, guard: Option<RequestGuard>) -> Box<Self> {
        let idle = begun.upstream_client.idle_deadline();
        let mut relay = Self::new(Source::Reading(begun.body), adapter, guard, idle);
        relay.headers = begun.headers;
        relay
    }

    /// A stream whose answer is still waited for. `headers` are for the client if it gets its head
    /// before that, and `commitment` is told if it does.
    pub fn waiting(
        forwarding: Forwarding,
        adapter: StreamAdapter,
        headers: HeaderMap,
        commitment: Commitment,
    ) -> Box<Self> {
        // the forwarding has deadlines of its own
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
            usual: 0,
            guard,
            idle: IdleTimeout::new(idle),
            silence: IdleTimeout::new(SILENCE),
            read_batcher: ReadBatcher::default(),
            failure: None,
            keeper: None,
            drain: None,
            syncing: None,
        })
    }

    /// Waits for the first event, for a while.
    ///
    /// # Errors
    /// The stream breaks before the client was sent anything; `guard` is open then.
    pub async fn begin(
        mut self: Box<Self>,
        guard: &mut Option<RequestGuard>,
    ) -> Result<Answer, Fault> {
        let first =
            tokio::time::timeout(COMMIT_GRACE, poll_fn(|context| self.poll_fill(context))).await;
        if first.is_err() {
            // nothing is fine: then the client gets its head, and waits for the rest as it comes
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
        // a short stream may have come whole, and be booked already
        if let Some(open) = self.guard.as_mut() {
            open.committed();
        }
        Ok(Answer::Stream { headers: std::mem::take(&mut self.headers), relay: self })
    }

    /// Has `keeper` keep the answer.
    pub(super) fn keep(&mut self, keeper: Box<Keeper>) {
        if self.is_booked() {
            // it has come whole, and is booked already
            keeper.finish(&self.out, true);
        } else {
            self.keeper = Some(keeper);
        }
    }

    /// Has `drain` read the rest if the client goes away.
    pub(super) fn drained_by(&mut self, drain: Option<Box<Drain>>) {
        self.drain = drain;
    }

    /// Reads until there is something for the client and nothing more at hand, the stream has ended
    /// or it has failed.
    ///
    /// What is at hand goes to the client in one write, and nothing waits for a timer.
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
                    // A sign of life would overtake the events that are held back.
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
            guard.begun();
            match read {
                Some(Ok(frame)) => self.unread = frame.into_data().unwrap_or_default(),
                Some(Err(_)) => self.failure = Some(UpstreamError::CutOff.into()),
                None => self.source = Source::Ended,
            }
        }
        Poll::Ready(())
    }

    /// Passes on what was read: all of it, or one event where that might be more than is held for.
    fn pass_on(&mut self, context: &mut Context<'_>) {
        let Some(guard) = &mut self.guard else { return };
        let data = if guard.has_room_for(self.unread.len()) {
            std::mem::take(&mut self.unread)
        } else {
            let end = sse::event_end(&self.unread, 0).unwrap_or(self.unread.len());
            self.unread.split_to(end)
        };
        if self.out.capacity() == 0 {
            self.out.reserve(self.usual);
        }
        let before = self.out.len();
        let pushed = self.adapter.push(&data, guard, &mut self.out);
        let checked = pushed.and_then(|()| guard.check_answer());
        self.failure = checked.err().map(Fault::from);
        guard.streamed();
        if self.failure.is_none() && !guard.is_covered() {
            self.uncovered = Some(self.out.split_off(before));
        }
        guard.give_back(context);
        if !self.out.is_empty() {
            guard.first_piece();
        }
    }

    /// The upstream has answered, or will not.
    fn answered(&mut self, outcome: Result<Begun, Fault>, guard: RequestGuard) {
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

    /// Waits for the upstream with nothing in hand.
    fn poll_waiting(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.idle.poll_elapsed(context).is_ready() {
            self.failure = Some(UpstreamError::TimedOut(Phase::Idle).into());
            return Poll::Ready(());
        }
        self.poll_silence(context)
    }

    /// Ready with a sign of life, once the client has heard nothing for long.
    fn poll_silence(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.adapter.has_keep_alive() {
            return Poll::Pending;
        }
        ready!(self.silence.poll_elapsed(context));
        self.adapter.keep_alive(&mut self.out);
        Poll::Ready(())
    }

    /// Books the request, before the client can see the end of its answer.
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
        if let Some(keeper) = self.keeper.take() {
            keeper.finish(&self.out, true);
        }
    }

    /// Gives the next bytes for the client.
    ///
    /// # Errors
    /// The stream broke; what came before was given. Nothing follows.
    pub fn poll_bytes(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Box<Broken>>>> {
        ready!(self.poll_fill(context));
        if let Some(syncing) = &mut self.syncing {
            ready!(syncing.as_mut().poll(context));
            self.syncing = None;
        }
        if !self.out.is_empty() {
            self.silence.end();
            // with the buffer: what is left of it would be held until the next event
            self.usual = self.out.len();
            if let Some(keeper) = &mut self.keeper {
                keeper.push(&self.out);
            }
            return Poll::Ready(Some(Ok(std::mem::take(&mut self.out).freeze())));
        }
        self.source = Source::Ended;
        self.keeper = None;
        Poll::Ready(self.failure.take().map(|fault| {
            let adapter = std::mem::replace(&mut self.adapter, StreamAdapter::Ended);
            Err(Box::new(Broken { fault, guard: self.guard.take(), adapter }))
        }))
    }

    /// Ends the stream before its time because of `fault`: what there is of it is given, and the fault then.
    pub fn interrupt(&mut self, fault: Fault) {
        if self.is_booked() || self.failure.is_some() || self.adapter.is_done() {
            return;
        }
        self.withhold();
        // an upstream that has not answered is left alone, and its guard with it
        self.source = Source::Ended;
        self.failure = Some(fault);
    }

    /// Notes that what waits to be paid for is not passed on.
    fn withhold(&mut self) {
        if let (Some(uncovered), Some(guard), StreamAdapter::Chat(_)) =
            (self.uncovered.take(), &mut self.guard, &self.adapter)
        {
            guard.withhold(&uncovered);
        }
    }

    /// Whether all was given.
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
            drain.read_out(Box::new(std::mem::replace(self, *ended)));
        } else if !std::thread::panicking() {
            self.withhold();
        }
    }
}
