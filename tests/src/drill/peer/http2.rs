//! What a hostile upstream does with requests over HTTP/2.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::super::choices::Choices;
use super::{Step, is_stream, parts};
use crate::http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PREFACE, RST_STREAM,
    SETTINGS, WINDOW_UPDATE, frame,
};

/// A way to mistreat a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Behavior {
    /// Answers every request.
    Whole,
    /// Answers every request, and never acknowledges the settings of its client.
    IgnoreSettings,
    /// Sends nothing more from this step on, not even the answer to a ping.
    Stall(Step),
    /// Ends the stream with a random error code at this step.
    ResetStream(Step),
    /// Announces the end of the connection and closes it, at this step. Before the answer, it claims not to have processed
    /// the request.
    GoAway(Step),
    /// Announces the end of the connection, answers the request and closes the connection.
    Retire,
    /// Gives the requests no window for their bodies.
    CloseWindow,
    /// Sends more data than the window of its client permits.
    OverrunWindow,
    /// Sends the head of an answer in frames without an end.
    Continuations,
    /// Sends interim answers without an end.
    InterimFlood,
    /// Sends pings without an end.
    PingFlood,
    /// Sends settings without an end.
    SettingsFlood,
    /// Sends the head of an answer, and then empty frames of its body without an end.
    EmptyData,
    /// Sends bytes that are not frames.
    Garbage,
}

/// The flag of a frame that acknowledges another one.
const ACK: u8 = 1;
/// The `:status` of a head, from the static table of HPACK: 200.
const STATUS_OK: u8 = 0x88;
/// A head with the `:status` 103, as a literal.
const STATUS_EARLY_HINTS: &[u8] = &[0x08, 3, b'1', b'0', b'3'];
/// The error codes of streams that are reset: no error, internal error, refused, cancelled, calm down.
const ERROR_CODES: [u32; 5] = [0, 2, 7, 8, 11];
const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;

/// A received frame.
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

/// Answers requests until the connection is closed, and counts those that were read whole.
///
/// # Errors
/// It was closed.
pub(super) async fn serve(
    mut stream: TlsStream<TcpStream>,
    behavior: Behavior,
    choices: Choices,
    received: &AtomicUsize,
) -> io::Result<()> {
    if behavior == Behavior::Stall(Step::Accept) {
        return std::future::pending().await;
    }
    stream.read_exact(&mut [0; PREFACE.len()]).await?;
    // SETTINGS_INITIAL_WINDOW_SIZE
    let closed_window: &[u8] = &[0, 4, 0, 0, 0, 0];
    let settings = if behavior == Behavior::CloseWindow { closed_window } else { &[] };
    let window = frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
    stream.write_all(&[frame(SETTINGS, 0, 0, settings), window].concat()).await?;
    stream.flush().await?;
    let mut bodies = BTreeMap::<u32, Vec<u8>>::new();
    loop {
        let Frame { kind, flags, stream: id, payload } = read_frame(&mut stream).await?;
        match kind {
            SETTINGS if flags & ACK == 0 && behavior != Behavior::IgnoreSettings => {
                stream.write_all(&frame(SETTINGS, ACK, 0, &[])).await?;
            }
            PING if flags & ACK == 0 => stream.write_all(&frame(PING, ACK, 0, &payload)).await?,
            RST_STREAM => _ = bodies.remove(&id),
            HEADERS | DATA => {
                let body = bodies.entry(id).or_default();
                if kind == DATA {
                    body.extend_from_slice(&payload);
                }
                if flags & END_STREAM != 0
                    && let Some(request) = bodies.remove(&id)
                {
                    received.fetch_add(1, Ordering::Relaxed);
                    answer(&mut stream, id, &request, behavior, choices).await?;
                }
            }
            _ => {}
        }
        stream.flush().await?;
    }
}

async fn read_frame(stream: &mut TlsStream<TcpStream>) -> io::Result<Frame> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await?;
    let [l0, l1, l2, kind, flags, stream_id @ ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, l0, l1, l2]) as usize];
    stream.read_exact(&mut payload).await?;
    Ok(Frame { kind, flags, stream: u32::from_be_bytes(stream_id), payload })
}

/// Returns the header block of an answer.
fn head(request: &[u8]) -> Vec<u8> {
    let kind = if is_stream(request) { "text/event-stream" } else { "application/json" };
    let length = u8::try_from(kind.len()).unwrap_or_default();
    // A literal `content-type`, whose index in the static table is 31.
    [&[STATUS_OK, 0x0f, 0x10, length], kind.as_bytes()].concat()
}

fn go_away(last: u32, code: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat())
}

/// Answers the request of stream `id`. An error closes the connection.
async fn answer(
    stream: &mut TlsStream<TcpStream>,
    id: u32,
    request: &[u8],
    behavior: Behavior,
    choices: Choices,
) -> io::Result<()> {
    let headers = frame(HEADERS, END_HEADERS, id, &head(request));
    let data = |part: &str| frame(DATA, 0, id, part.as_bytes());
    let parts = parts(request);
    let beginning = |step| match step {
        Step::Accept | Step::Request => Vec::new(),
        Step::Head => headers.clone(),
        Step::Event => [&*headers, &data(parts[0])].concat(),
        Step::End => [&*headers, &data(&parts[..parts.len() - 1].concat())].concat(),
    };
    let whole = || [&*headers, &frame(DATA, END_STREAM, id, parts.concat().as_bytes())].concat();
    match behavior {
        Behavior::Whole | Behavior::IgnoreSettings => stream.write_all(&whole()).await,
        Behavior::Stall(step) => {
            stream.write_all(&beginning(step)).await?;
            stream.flush().await?;
            std::future::pending().await
        }
        Behavior::ResetStream(step) => {
            let code = choices.one_of(&ERROR_CODES, request);
            let reset = frame(RST_STREAM, 0, id, &code.to_be_bytes());
            stream.write_all(&[beginning(step), reset].concat()).await
        }
        Behavior::GoAway(step) => {
            let (last, code) =
                if step == Step::Request { (0, NO_ERROR) } else { (id, INTERNAL_ERROR) };
            stream.write_all(&[beginning(step), go_away(last, code)].concat()).await?;
            stream.shutdown().await?;
            Err(io::ErrorKind::ConnectionAborted.into())
        }
        Behavior::Retire => {
            stream.write_all(&[go_away(id, NO_ERROR), whole()].concat()).await?;
            stream.shutdown().await?;
            Err(io::ErrorKind::ConnectionAborted.into())
        }
        // A request whose body needs no window.
        Behavior::CloseWindow => Ok(()),
        Behavior::OverrunWindow => {
            let data = frame(DATA, 0, id, &[b' '; 16 * 1024]);
            repeat(stream, &headers, &data).await
        }
        Behavior::Continuations => {
            let more = frame(CONTINUATION, 0, id, b"\x00\x01x\x01y");
            repeat(stream, &frame(HEADERS, 0, id, &head(request)), &more).await
        }
        Behavior::InterimFlood => {
            repeat(stream, &[], &frame(HEADERS, END_HEADERS, id, STATUS_EARLY_HINTS)).await
        }
        Behavior::PingFlood => repeat(stream, &[], &frame(PING, 0, 0, &[0; 8])).await,
        Behavior::SettingsFlood => repeat(stream, &[], &frame(SETTINGS, 0, 0, &[])).await,
        Behavior::EmptyData => repeat(stream, &headers, &frame(DATA, 0, id, &[])).await,
        Behavior::Garbage => repeat(stream, &[], &[0xff; 64]).await,
    }
}

/// Sends `first`, and then `repeated` until the connection is closed. What the client sends is not read.
async fn repeat(
    stream: &mut TlsStream<TcpStream>,
    first: &[u8],
    repeated: &[u8],
) -> io::Result<()> {
    stream.write_all(first).await?;
    let burst = repeated.repeat(256);
    loop {
        stream.write_all(&burst).await?;
    }
}
