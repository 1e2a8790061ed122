//! Receives request bodies whole, in bounded memory and time.
//!
//! Most bodies arrive with the head of their request, in one frame, and are used without a copy. A body in
//! several frames is copied into one buffer, because each frame keeps its read buffer alive, and frames may
//! have one byte. Such a body takes a slot of its account and key before it is buffered.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};

use super::limits::{BodyLimits, BodyPace};
use crate::memory_budget::{MemoryBudget, MemoryGuard};
use domain::id::AccountId;
use domain::refusal::{Refusal, RequestFault};
use domain::wire::depth;

/// How long a body may be slower than the minimum rate, counted from its head.
const RATE_GRACE: Duration = Duration::from_secs(10);
/// Bodies up to this length, in bytes, do not count against the memory budget if they arrive in one frame:
/// their connection takes more.
const UNCOUNTED_BYTES: usize = 16 * 1024;
/// The smallest buffer of a body in several frames, in bytes.
const MIN_CAPACITY: usize = 16 * 1024;
/// The largest part of an announced length for which the first buffer has room, in bytes. Pages of it that are not
/// written take no memory, and count against the budget only once bytes arrive for them.
const MAX_FIRST_CAPACITY: usize = 256 * 1024;
/// Buffers double up to this capacity, in bytes; larger ones grow by half, so that they hold little more
/// memory than their body needs.
const MAX_DOUBLED_CAPACITY: usize = 1024 * 1024;
/// The prefix of multipart media types.
const MULTIPART: &str = "multipart/";

/// Receives request bodies. One for the whole gateway.
pub struct BodyReceiver {
    limits: BodyLimits,
    pace: BodyPace,
    budget: Arc<MemoryBudget>,
}

// === impl BodyReceiver ===

impl BodyReceiver {
    /// Creates a receiver of bodies within `limits`, which count against `budget` and are at least as fast as `pace`.
    pub fn new(limits: BodyLimits, budget: Arc<MemoryBudget>, pace: BodyPace) -> Self {
        Self { limits, pace, budget }
    }

    /// Returns the budget that bodies count against.
    pub(super) fn budget(&self) -> &Arc<MemoryBudget> {
        &self.budget
    }

    /// Checks that the JSON of a received body is not nested too deeply.
    ///
    /// # Errors
    /// It is.
    pub(super) fn check_depth(&self, body: &[u8]) -> Result<(), Refusal> {
        let limit = self.limits.max_json_depth;
        if depth::is_deeper_than(body, limit) {
            let message = format!(
                "the arrays and objects of the request body are nested deeper than {limit} levels, the limit of this \
                 gateway"
            );
            return Err(Refusal::invalid(RequestFault::InvalidJson, None, message));
        }
        Ok(())
    }

    /// Receives a JSON body whole. `take_place` is called if the body arrives in several frames; its guard is
    /// held until the body is complete.
    ///
    /// # Errors
    /// The body is too long, has another media type, is too slow or breaks off, or there is no slot or memory
    /// for it.
    pub(super) async fn receive<G>(
        &self,
        headers: &HeaderMap,
        mut body: Incoming,
        account: AccountId,
        take_place: impl FnOnce() -> Result<G, Refusal>,
    ) -> Result<Bytes, Refusal> {
        check_content_headers(headers)?;
        // The announced length is known before the body is sent.
        if body.size_hint().lower() > self.limits.max_bytes as u64 {
            return Err(self.too_large());
        }
        let began = Instant::now();
        let wait = began + self.pace.timeout.min(RATE_GRACE);
        let first = next_piece(&mut body, wait).await?.unwrap_or_default();
        if body.is_end_stream() {
            return self.whole(first, account).await;
        }
        // Boxed, because few requests need it.
        Box::pin(async move {
            // A chunked body ends after its last frame.
            let Some(second) = next_piece(&mut body, wait).await? else {
                return self.whole(first, account).await;
            };
            let _place = take_place()?;
            self.receive_rest([first, second], body, account, began).await
        })
        .await
    }

    /// Returns a body that arrived in one frame.
    async fn whole(&self, bytes: Bytes, account: AccountId) -> Result<Bytes, Refusal> {
        if bytes.len() > self.limits.max_bytes {
            return Err(self.too_large());
        }
        if bytes.len() <= UNCOUNTED_BYTES {
            return Ok(bytes);
        }
        let mut memory = self.budget.guard(account);
        memory.grow_to(bytes.len()).await.map_err(|_| Refusal::BodyMemoryExhausted)?;
        Ok(memory.attach(bytes))
    }

    /// Receives the rest of a body, and returns all of it.
    async fn receive_rest(
        &self,
        pieces: [Bytes; 2],
        mut body: Incoming,
        account: AccountId,
        began: Instant,
    ) -> Result<Bytes, Refusal> {
        let mut memory = self.budget.guard(account);
        let announced = body.size_hint().exact();
        let announced = announced.map(|rest| {
            let received: usize = pieces.iter().map(Bytes::len).sum();
            received.saturating_add(usize::try_from(rest).unwrap_or(usize::MAX))
        });
        let max_capacity = announced.unwrap_or(usize::MAX).min(self.limits.max_bytes);
        let first_capacity = announced.map_or(0, |_| max_capacity.min(MAX_FIRST_CAPACITY));
        let mut bytes = Vec::with_capacity(first_capacity);
        for piece in pieces {
            self.append(&mut bytes, &piece, &mut memory, max_capacity).await?;
        }
        loop {
            let paid_for = Duration::from_secs(bytes.len() as u64 / self.pace.bytes_per_second);
            let deadline = began + self.pace.timeout.min(RATE_GRACE + paid_for);
            let Some(piece) = next_piece(&mut body, deadline).await? else { break };
            self.append(&mut bytes, &piece, &mut memory, max_capacity).await?;
        }
        Ok(memory.attach(bytes))
    }

    /// Appends `piece`. What `memory` holds grows up to `max_capacity`, and the buffer's capacity to what `memory`
    /// holds.
    ///
    /// Invariant: `memory` holds the length of the buffer, and its capacity if that is above [`MAX_FIRST_CAPACITY`].
    async fn append(
        &self,
        bytes: &mut Vec<u8>,
        piece: &[u8],
        memory: &mut MemoryGuard,
        max_capacity: usize,
    ) -> Result<(), Refusal> {
        let needed = bytes.len() + piece.len();
        if needed > self.limits.max_bytes {
            return Err(self.too_large());
        }
        if needed > memory.bytes() {
            let counted = next_capacity(memory.bytes()).min(max_capacity).max(needed);
            memory.grow_to(counted).await.map_err(|_| Refusal::BodyMemoryExhausted)?;
        }
        if needed > bytes.capacity() {
            bytes.reserve_exact(memory.bytes() - bytes.len());
        }
        bytes.extend_from_slice(piece);
        Ok(())
    }

    fn too_large(&self) -> Refusal {
        Refusal::RequestTooLarge { limit_bytes: self.limits.max_bytes as u64 }
    }
}

/// Returns the next data frame of a body; `None` at its end.
async fn next_piece(body: &mut Incoming, deadline: Instant) -> Result<Option<Bytes>, Refusal> {
    loop {
        match timeout_at(deadline, body.frame()).await {
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(piece) if piece.is_empty() => {}
                Ok(piece) => return Ok(Some(piece)),
                // Trailers are ignored.
                Err(_) => {}
            },
            Ok(Some(Err(_))) => return Err(Refusal::BodyBrokenOff),
            Ok(None) => return Ok(None),
            Err(_) => return Err(Refusal::BodyTooSlow),
        }
    }
}

/// Checks the media type. JSON is accepted under any type (`curl -d` sends a form's), except for uploads;
/// compressed bodies are refused, because the gateway does not announce support.
fn check_content_headers(headers: &HeaderMap) -> Result<(), Refusal> {
    let text = |name| headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
    if let Some(coding) =
        text(CONTENT_ENCODING).filter(|coding| !coding.eq_ignore_ascii_case("identity"))
    {
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

/// Returns the capacity that a full buffer grows to.
fn next_capacity(capacity: usize) -> usize {
    let more = if capacity < MAX_DOUBLED_CAPACITY { capacity } else { capacity / 2 };
    capacity.saturating_add(more).max(MIN_CAPACITY)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use hyper::Response;
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use tokio::io::AsyncWriteExt;
    use tokio::sync::mpsc;

    use super::super::body::Reply;
    use super::*;

    const LIMIT: usize = 100 * 1024;
    const LIMITS: BodyLimits = BodyLimits { max_bytes: LIMIT, max_json_depth: 100 };
    const MEMORY: usize = LIMIT;

    /// Receives a body from a client that announces `length` bytes and sends `pieces`: the first with the
    /// head, each other after `pause`.
    async fn outcome(length: usize, pieces: &[&str], pause: Duration) -> Result<Bytes, Refusal> {
        let (mut client, server) = tokio::io::duplex(4 * 1024);
        let (outcomes, mut outcome) = mpsc::unbounded_channel();
        let service = service_fn(async |request: hyper::Request<Incoming>| {
            let (head, body) = request.into_parts();
            let receiver =
                BodyReceiver::new(LIMITS, MemoryBudget::new(MEMORY, LIMIT), BodyPace::default());
            let place = || Ok(());
            let account = AccountId(uuid::Uuid::nil());
            outcomes.send(receiver.receive(&head.headers, body, account, place).await).unwrap();
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
            // A connection whose request was not read to its end is closed.
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

    #[test]
    fn a_large_buffer_holds_at_most_half_more_than_its_body_needs() {
        let needed = 16 * 1024 * 1024 + 1;
        let mut capacity = 0;
        while capacity < needed {
            let next = next_capacity(capacity);
            assert!(next > capacity);
            capacity = next;
        }
        assert!(capacity <= needed + needed / 2, "{capacity}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_refused() {
        let pause = RATE_GRACE + Duration::from_secs(1);
        for pieces in [["", "{}"], ["{", "}"]] {
            let slow = outcome(2, &pieces, pause).await;
            assert!(matches!(slow, Err(Refusal::BodyTooSlow)), "{slow:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_announced_as_too_long_is_not_waited_for() {
        let long = outcome(LIMIT + 1, &[""], Duration::ZERO).await;
        assert!(matches!(long, Err(Refusal::RequestTooLarge { limit_bytes: 102_400 })), "{long:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_below_the_minimum_rate_is_refused_before_its_deadline() {
        let second = Duration::from_secs(1);
        let kib = "a".repeat(1024);
        let at_the_rate = outcome(30 * 1024, &[kib.as_str(); 30], second).await;
        assert_eq!(at_the_rate.unwrap().len(), 30 * 1024);
        let below_it = outcome(30, &["a"; 30], second).await;
        assert!(matches!(below_it, Err(Refusal::BodyTooSlow)), "{below_it:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn no_rate_is_high_enough_for_a_body_that_takes_longer_than_the_deadline() {
        let kib = "a".repeat(1024);
        let pause = Duration::from_millis(1_500);
        let long = outcome(90 * 1024, &[kib.as_str(); 90], pause).await;
        assert!(matches!(long, Err(Refusal::BodyTooSlow)), "{long:?}");
    }
}
