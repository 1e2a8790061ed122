//! Bodies, both ways.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;

use super::respond;
use crate::domain::refusal::Refusal;
use crate::ledger::Syncing;
use crate::pipeline::relay::Relay;

/// How long a client may take to send its body.
const BODY_DEADLINE: Duration = Duration::from_mins(2);
/// How the names of uploads' kinds begin.
const MULTIPART: &str = "multipart/";

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

/// Reads a JSON body whole.
///
/// # Errors
/// It is longer than `limit` bytes, of another kind, does not come in time or breaks off.
pub(super) async fn read(
    headers: &HeaderMap,
    body: Incoming,
    limit: usize,
) -> Result<Bytes, Refusal> {
    check_kind(headers)?;
    let too_large = || Refusal::RequestTooLarge { limit_bytes: limit as u64 };
    // what the client announces is known before it is sent
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    match tokio::time::timeout(BODY_DEADLINE, Limited::new(body, limit).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Refusal::BodyBrokenOff),
        Err(_) => Err(Refusal::BodyTooSlow),
    }
}

/// JSON is taken under any name (`curl -d` calls it a form) but that of an upload; compressed bodies
/// are not taken, because we do not say that we would.
fn check_kind(headers: &HeaderMap) -> Result<(), Refusal> {
    let text = |name| headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
    if let Some(coding) = text(CONTENT_ENCODING).filter(|coding| *coding != "identity") {
        let message =
            format!("content encoding `{coding}` is not supported; send the body uncompressed");
        return Err(Refusal::UnsupportedMediaType(message));
    }
    let kind = text(CONTENT_TYPE).unwrap_or_default();
    if kind.get(..MULTIPART.len()).is_some_and(|start| start.eq_ignore_ascii_case(MULTIPART)) {
        let message = format!("content type `{kind}` is not supported; send `application/json`");
        return Err(Refusal::UnsupportedMediaType(message));
    }
    Ok(())
}

impl Reply {
    /// Whether it is there already.
    pub fn is_whole(&self) -> bool {
        matches!(self, Self::Whole(_))
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
                        let syncing = broken.tally.syncing();
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

#[cfg(test)]
mod tests {
    use hyper::Response;
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use tokio::io::AsyncWriteExt;
    use tokio::sync::mpsc;

    use super::*;

    const LIMIT: usize = 100;

    /// What is read from a client that announces `length` bytes and sends `pieces`, one with the head and
    /// each other after a `pause`.
    async fn outcome(length: usize, pieces: &[&str], pause: Duration) -> Result<Bytes, Refusal> {
        let (mut client, server) = tokio::io::duplex(4 * 1024);
        let (outcomes, mut outcome) = mpsc::unbounded_channel();
        let service = service_fn(async |request: hyper::Request<Incoming>| {
            let (head, body) = request.into_parts();
            outcomes.send(read(&head.headers, body, LIMIT).await).unwrap();
            Ok::<_, Infallible>(Response::new(Reply::whole("")))
        });
        let serve = http1::Builder::new().serve_connection(TokioIo::new(server), service);
        let send = async {
            let head = format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n");
            client.write_all(format!("{head}{}", pieces[0]).as_bytes()).await.unwrap();
            for piece in &pieces[1..] {
                tokio::time::sleep(pause).await;
                client.write_all(piece.as_bytes()).await.unwrap();
            }
            std::future::pending::<()>().await;
        };
        let outcome = outcome.recv();
        tokio::pin!(outcome);
        tokio::select! {
            outcome = &mut outcome => outcome.unwrap(),
            // a connection whose request was not read to its end is closed
            _ = serve => outcome.await.unwrap(),
            () = send => unreachable!("it waits"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_read_whether_it_comes_at_once_or_in_pieces() {
        let second = Duration::from_secs(1);
        assert_eq!(outcome(2, &["{}"], second).await.unwrap(), "{}");
        assert_eq!(outcome(2, &["", "{", "}"], second).await.unwrap(), "{}");
        assert_eq!(outcome(LIMIT, &[&"a".repeat(LIMIT)], second).await.unwrap().len(), LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_refused() {
        let pause = BODY_DEADLINE + Duration::from_secs(1);
        for pieces in [["", "{}"], ["{", "}"]] {
            let slow = outcome(2, &pieces, pause).await;
            assert!(matches!(slow, Err(Refusal::BodyTooSlow)), "{slow:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_announced_as_too_long_is_not_waited_for() {
        let long = outcome(LIMIT + 1, &[""], Duration::ZERO).await;
        assert!(matches!(long, Err(Refusal::RequestTooLarge { limit_bytes: 100 })), "{long:?}");
    }
}
