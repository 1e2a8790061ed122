//! Malformed HTTP/2, frame by frame, in the order of RFC 9113: how the gateway ends the stream or the connection, and
//! that it serves other requests and records each once.
//!
//! Most reactions are those of h2. Where they are not those of the RFC, a comment says why that is harmless.
//! `layers` has the cases of frames, streams and connections, `requests` those of heads and bodies. `answers` checks the
//! frames of answers to valid requests.

mod answers;
mod layers;
mod requests;

use std::collections::HashSet;

use tests::http2::{
    ACK, DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, PING, RST_STREAM, block, frame,
    frames, opening,
};
use tests::{Product, question, requests_of, with_timeout};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

// Error codes (RFC 9113, 7).
const PROTOCOL_ERROR: u32 = 1;
const FLOW_CONTROL_ERROR: u32 = 3;
const STREAM_CLOSED: u32 = 5;
const FRAME_SIZE_ERROR: u32 = 6;
const REFUSED_STREAM: u32 = 7;

/// The stream of a request that was answered before.
const ANSWERED: u32 = 1;
/// The stream of the malformed request.
const STREAM: u32 = 3;
/// The stream of a request after it.
const LATER: u32 = 99;
/// The number of streams that a client may have open at a time.
const MAX_STREAMS: u32 = 4;
/// The payload of the ping that follows a case.
const PING_AFTER: &[u8; 8] = b"the end.";

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/healthz")];
const POST: [(&str, &str); 4] =
    [(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", "/healthz")];

/// How the gateway reacts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reaction {
    /// A `GOAWAY` frame with this code, and the end of the connection.
    ConnectionError(u32),
    /// A `RST_STREAM` frame for this stream, with this code.
    StreamError(u32, u32),
    /// An answer on [`STREAM`].
    Answer,
    /// No frame for [`STREAM`].
    Nothing,
}

/// What a client sends after an answered request.
struct Case {
    /// The section of RFC 9113.
    section: &'static str,
    name: &'static str,
    sent: Vec<u8>,
    reaction: Reaction,
}

fn case(
    section: &'static str,
    name: &'static str,
    sent: impl AsRef<[u8]>,
    reaction: Reaction,
) -> Case {
    Case { section, name, sent: sent.as_ref().to_vec(), reaction }
}

/// Returns the frame of a complete request without a body.
fn get(stream: u32) -> Vec<u8> {
    request(stream, &GET)
}

fn request(stream: u32, headers: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(headers))
}

/// Returns the head of a request whose body follows.
fn open(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &block(&POST))
}

fn data(stream: u32, bytes: &[u8]) -> Vec<u8> {
    frame(DATA, 0, stream, bytes)
}

fn last_data(stream: u32, bytes: &[u8]) -> Vec<u8> {
    frame(DATA, END_STREAM, stream, bytes)
}

/// The client's side of a connection.
struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Connection {
    /// Opens a connection, and waits for the answer to a chat request on it.
    async fn open(product: &Product, key: &str) -> Self {
        let stream = TcpStream::connect(product.http).await.unwrap();
        let mut connection = Self { stream, received: Vec::new() };
        let authorization = format!("Bearer {key}");
        let mut headers = POST.to_vec();
        headers[3].1 = "/v1/chat/completions";
        headers.push(("authorization", &authorization));
        let head = frame(HEADERS, END_HEADERS, ANSWERED, &block(&headers));
        let body = last_data(ANSWERED, question("sim-chat", "hi").to_string().as_bytes());
        connection.send(&[opening(), head, body].concat()).await;
        connection.answer(ANSWERED).await;
        connection
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Reads until a frame is as wanted; returns `None` if the connection ends before.
    async fn find(&mut self, wanted: impl Fn(&Frame) -> bool) -> Option<Frame> {
        loop {
            if let Some(found) = frames(&self.received).into_iter().find(&wanted) {
                return Some(found);
            }
            let read = self.stream.read_buf(&mut self.received);
            if !with_timeout("a frame", read).await.is_ok_and(|count| count > 0) {
                return None;
            }
        }
    }

    /// Waits for the end of a successful answer.
    async fn answer(&mut self, stream: u32) {
        // `:status: 200` has the index 8 in the static table.
        let is_head = |frame: &Frame| {
            frame.kind == HEADERS && frame.stream == stream && frame.payload.first() == Some(&0x88)
        };
        self.find(is_head).await.expect("the request is answered");
        let ended = |frame: &Frame| {
            let ends = matches!(frame.kind, HEADERS | DATA) && frame.flags & END_STREAM != 0;
            ends && frame.stream == stream
        };
        self.find(ended).await.expect("the answer is complete");
    }

    /// Returns the reaction to what was sent.
    async fn reaction(&mut self, expected: Reaction) -> Reaction {
        if !matches!(expected, Reaction::ConnectionError(_)) {
            self.send(&frame(PING, 0, 0, PING_AFTER)).await;
        }
        let is_decided = |frame: &Frame| {
            let is_ping = frame.kind == PING && frame.flags & ACK != 0;
            frame.kind == GOAWAY || (is_ping && frame.payload == PING_AFTER)
        };
        let decided = self.find(is_decided).await;
        if let Some(code) = decided.as_ref().and_then(Frame::error_code) {
            let more = self.find(|_| false).await;
            assert_eq!(more, None, "the connection ends");
            return Reaction::ConnectionError(code);
        }
        assert!(decided.is_some(), "the connection ended without a GOAWAY frame");
        self.send(&get(LATER)).await;
        self.answer(LATER).await;
        let all = frames(&self.received);
        if let Some(reset) = all.iter().find(|frame| frame.kind == RST_STREAM) {
            return Reaction::StreamError(reset.stream, reset.error_code().unwrap());
        }
        let is_answer = |frame: &Frame| frame.kind == HEADERS && frame.stream == STREAM;
        if all.iter().any(is_answer) { Reaction::Answer } else { Reaction::Nothing }
    }
}

/// Sends each case on a connection, and returns a description of each deviation.
async fn deviations(cases: Vec<Case>) -> Vec<String> {
    let product = Product::with(|setup| setup.config.edge.limits.max_streams = MAX_STREAMS).await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    let (mut deviations, count) = (Vec::new(), cases.len());
    for Case { section, name, sent, reaction } in cases {
        let mut connection = Connection::open(&product, &key).await;
        connection.send(&sent).await;
        let observed = connection.reaction(reaction).await;
        if observed != reaction {
            deviations.push(format!("{section} {name}: {observed:?}, not {reaction:?}"));
        }
        assert_eq!(product.get("/healthz").answer().await.status, 200, "after {section} {name}");
    }
    let records = alice.records(count).await;
    let ids: HashSet<_> = records.iter().map(|record| &record.id).collect();
    assert_eq!((ids.len(), requests_of(&records)), (count, count), "one record for each request");
    deviations
}

#[tokio::test]
async fn malformed_frames_end_what_they_concern() {
    assert_eq!(deviations(layers::cases()).await, [""; 0]);
}

#[tokio::test]
async fn malformed_requests_are_reset() {
    assert_eq!(deviations(requests::cases()).await, [""; 0]);
}
