//! Brings an upstream's answer to the client.
//!
//! A whole answer is read, metered and booked before the client gets it. A stream is pulled: the
//! upstream is read only when the client has taken what there is, and dropping the stream drops the
//! upstream's request.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::poll_fn;
use http::{HeaderMap, HeaderName};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

use super::Fault;
use super::forward::Begun;
use super::passthrough::Passthrough;
use super::settle::{End, Tally};
use crate::upstream::{Phase, UpstreamError};
use crate::wire::chat::{ChatRequest, json_string};
use crate::wire::chunk::ChunkView;
use crate::wire::error::ForeignError;
use crate::wire::splice::splice_into;

/// The longest whole answer that is taken in.
const LONGEST_ANSWER: usize = 64 * 1024 * 1024;
/// How long the head of a stream is held back for its first event, so that an upstream that fails at
/// once still gets its HTTP status.
const COMMIT_GRACE: Duration = Duration::from_secs(5);
/// Handed to the client at once; more waits for the next pull.
const LARGEST_FRAME: usize = 64 * 1024;
/// How long an upstream may take to close a stream that has said `[DONE]`, before its connection is
/// given up instead of being used again.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// What the client gets.
pub enum Answer {
    /// All of it, booked already.
    Whole {
        /// The upstream's headers that are the client's business.
        headers: HeaderMap,
        /// The body.
        body: Bytes,
    },
    /// A stream, booked at its end.
    Stream {
        /// The upstream's headers that are the client's business.
        headers: HeaderMap,
        /// The body; boxed, because it waits in a connection's state.
        relay: Box<Relay>,
    },
}

/// A stream on its way. Its tally is closed when its end is handed out, or when it is dropped.
pub struct Relay {
    /// `None` once it has ended.
    upstream: Option<Incoming>,
    stream: Passthrough,
    out: BytesMut,
    tally: Option<Tally>,
    idle: Idle,
    /// Whether the upstream's task has had its extra turn since the last read.
    yielded: bool,
    failure: Option<UpstreamError>,
}

/// A stream that broke after it had begun. Whoever tells the client closes the tally.
pub struct Broken {
    /// Why.
    pub fault: Fault,
    /// The open tally.
    pub tally: Tally,
}

/// Finds out that nothing has come for too long, without touching a timer for each event.
struct Idle {
    limit: Duration,
    waiting_since: Option<Instant>,
    timer: Pin<Box<Sleep>>,
}

/// Turns an answer that has begun into what the client gets.
///
/// # Errors
/// The answer is not one, or breaks before the client was sent anything.
pub async fn relay(
    begun: Begun,
    request: &ChatRequest<'_>,
    tally: &mut Option<Tally>,
) -> Result<Answer, Fault> {
    let (head, body) = begun.response.into_parts();
    let headers = client_headers(&head.headers);
    let idle = begun.remote.idle_deadline();
    let model = json_string(&request.model);
    if !request.stream {
        let open = tally.as_mut().expect("open until it is answered");
        let body = whole(body, idle, &model, open).await?;
        let closing = tally.take().expect("open until it is answered");
        let end = End::answered(&closing.meter);
        closing.close(end);
        return Ok(Answer::Whole { headers, body });
    }
    let mut relay = Box::new(Relay {
        upstream: Some(body),
        stream: Passthrough::new(model, request.include_usage),
        out: BytesMut::new(),
        tally: tally.take(),
        idle: Idle::new(idle),
        yielded: false,
        failure: None,
    });
    // nothing in time is fine: then the client gets its head, and waits for the rest as it comes
    let first =
        tokio::time::timeout(COMMIT_GRACE, poll_fn(|context| relay.poll_fill(context))).await;
    if let (Ok(()), true) = (first, relay.out.is_empty())
        && let Some(failure) = relay.failure.take()
    {
        *tally = relay.tally.take();
        return Err(failure.into());
    }
    // a short stream may have come whole, and be booked already
    if let Some(open) = relay.tally.as_mut() {
        open.committed();
    }
    Ok(Answer::Stream { headers, relay })
}

async fn whole(
    body: Incoming,
    idle: Duration,
    model: &str,
    tally: &mut Tally,
) -> Result<Bytes, UpstreamError> {
    tally.begun();
    let body = collect(body, idle).await?;
    let json = std::str::from_utf8(&body)
        .map_err(|_| UpstreamError::Invalid("its answer is not valid UTF-8".to_owned()))?;
    let view = ChunkView::parse(json).map_err(|error| {
        UpstreamError::Invalid(format!("its answer is not a chat answer: {error}"))
    })?;
    if let Some(error) = view.error.filter(|_| view.choices().is_empty()) {
        return Err(UpstreamError::Reported(ForeignError::parse(error.get().as_bytes())));
    }
    if view.choices().is_empty() {
        return Err(UpstreamError::Invalid("its answer has no `choices`".to_owned()));
    }
    tally.meter.observe(&view);
    tally.first_piece();
    let Some(range) = view.model_other_than(json, model) else { return Ok(body) };
    let mut renamed = BytesMut::with_capacity(body.len() + model.len());
    splice_into(&mut renamed, &body, range, model.as_bytes());
    Ok(renamed.freeze())
}

/// Reads a body to its end, with the idle deadline for each read.
async fn collect(mut body: Incoming, idle: Duration) -> Result<Bytes, UpstreamError> {
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    while let Some(read) = tokio::time::timeout(idle, body.frame())
        .await
        .map_err(|_| UpstreamError::TimedOut(Phase::Idle))?
    {
        let Ok(data) = read.map_err(|_| UpstreamError::CutOff)?.into_data() else { continue };
        if first.len() + whole.len() + data.len() > LONGEST_ANSWER {
            let message = format!("its answer is longer than {LONGEST_ANSWER} bytes");
            return Err(UpstreamError::Invalid(message));
        }
        // most answers come in one read, and need not be copied
        if first.is_empty() && whole.is_empty() {
            first = data;
        } else {
            whole.extend_from_slice(&std::mem::take(&mut first));
            whole.extend_from_slice(&data);
        }
    }
    Ok(if whole.is_empty() { first } else { whole.freeze() })
}

/// What a client may see of an upstream's headers: its rate limits and its time. Cookies, the server's
/// name and everything about the connection stay here.
fn client_headers(upstream: &HeaderMap) -> HeaderMap {
    const SHOWN: HeaderName = HeaderName::from_static("openai-processing-ms");
    upstream
        .iter()
        .filter(|(name, _)| **name == SHOWN || name.as_str().starts_with("x-ratelimit-"))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

// === impl Relay ===

impl Relay {
    /// Reads until there is something for the client and nothing more at hand, the stream has ended
    /// or it has failed.
    ///
    /// What the upstream's connection has read already comes one event for each turn of its task. So
    /// before it hands out what there is, this lets that task have one more turn: a burst goes to the
    /// client in one write instead of one for each event, and nothing waits for a timer.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.failure.is_none() {
            let (Some(upstream), Some(tally)) = (&mut self.upstream, &mut self.tally) else {
                break;
            };
            let Poll::Ready(read) = Pin::new(upstream).poll_frame(context) else {
                if self.out.is_empty() {
                    ready!(self.idle.poll_expired(context));
                    self.failure = Some(UpstreamError::TimedOut(Phase::Idle));
                } else if !std::mem::replace(&mut self.yielded, true) {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                break;
            };
            self.yielded = false;
            self.idle.waiting_since = None;
            tally.begun();
            let outcome = match read {
                Some(Ok(frame)) => match frame.data_ref() {
                    Some(data) => self.stream.push(data, &mut tally.meter, &mut self.out),
                    None => Ok(()),
                },
                Some(Err(_)) => Err(UpstreamError::CutOff),
                None => {
                    self.upstream = None;
                    self.stream.end(&mut tally.meter, &mut self.out)
                }
            };
            self.failure = outcome.err();
            if !self.out.is_empty() {
                tally.first_piece();
            }
            if self.stream.is_done() {
                self.finish(context);
                break;
            }
            if self.out.len() >= LARGEST_FRAME {
                break;
            }
        }
        Poll::Ready(())
    }

    /// Books the request, before the client can see the end of its answer.
    fn finish(&mut self, context: &mut Context<'_>) {
        let Some(tally) = self.tally.take() else { return };
        if let Some(mut rest) = self.upstream.take()
            && Pin::new(&mut rest).poll_frame(context).is_pending()
        {
            let drain = async move { while let Some(Ok(_)) = rest.frame().await {} };
            tally.spawn(async move { _ = tokio::time::timeout(CLOSE_GRACE, drain).await });
        }
        let end = End::answered(&tally.meter);
        tally.close(end);
    }

    /// Gives the next bytes for the client.
    ///
    /// # Errors
    /// The stream broke; what came before was given. Nothing follows.
    pub fn poll_bytes(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Box<Broken>>>> {
        if self.out.len() < LARGEST_FRAME {
            ready!(self.poll_fill(context));
        }
        if !self.out.is_empty() {
            return Poll::Ready(Some(Ok(self.out.split().freeze())));
        }
        let broken = self.failure.take().zip(self.tally.take());
        self.upstream = None;
        Poll::Ready(
            broken.map(|(failure, tally)| Err(Box::new(Broken { fault: failure.into(), tally }))),
        )
    }

    /// Whether all was given.
    pub fn is_ended(&self) -> bool {
        self.out.is_empty() && self.tally.is_none()
    }
}

// === impl Idle ===

impl Idle {
    fn new(limit: Duration) -> Self {
        Self { limit, waiting_since: None, timer: Box::pin(tokio::time::sleep(limit)) }
    }

    /// Ready once there has been nothing to read for the whole limit.
    fn poll_expired(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        loop {
            ready!(self.timer.as_mut().poll(context));
            let due = since + self.limit;
            if Instant::now() >= due {
                return Poll::Ready(());
            }
            // the timer was set for an earlier wait
            self.timer.as_mut().reset(due);
        }
    }
}
