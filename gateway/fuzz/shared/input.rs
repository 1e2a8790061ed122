//! Turns the input of the target `connection` into what one client sends, in which pieces, and how it ends.
//!
//! The first byte selects the version of HTTP, the size of the pieces and the end. The rest is text of HTTP/1.1, or a
//! program of steps that write frames of HTTP/2, so that a mutation rarely breaks all frames behind it.

use crate::frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, RST_STREAM, WINDOW_UPDATE, block, frame,
    opening,
};

/// What stands for the key in text of HTTP/1.1.
pub const KEY_PLACEHOLDER: &[u8] = b"$K";
/// The most pieces in which bytes are sent.
const MAX_PIECES: usize = 64;
/// Paths and bodies of requests that the steps of HTTP/2 write.
const REQUESTS: [(&str, &str, &str); 5] = [
    ("GET", "/v1/models", ""),
    (
        "POST",
        "/v1/chat/completions",
        r#"{"model":"sim-chat","messages":[{"role":"user","content":"hi"}]}"#,
    ),
    (
        "POST",
        "/v1/chat/completions",
        r#"{"model":"sim-chat","stream":true,"messages":[{"role":"user","content":"[sim words=99 pace_ms=7]"}]}"#,
    ),
    ("POST", "/v1/responses", r#"{"model":"sim-chat","input":"hi"}"#),
    ("POST", "/v1/responses", r#"{"model":"sim-reasoner","input":"[sim cut=3]","stream":true}"#),
];

/// What the client does once it has sent everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It waits for the end of the connection.
    Wait,
    /// It ends its side of the connection, and waits.
    HalfClose,
    /// It resets the connection.
    Reset,
}

/// What one client does.
#[derive(Debug)]
pub struct Input {
    /// Whether it uses HTTP/2.
    pub is_http2: bool,
    /// What it sends; the gateway has processed a piece before the next one is sent.
    pub pieces: Vec<Vec<u8>>,
    /// What it does then.
    pub ending: Ending,
}

impl Input {
    /// Reads an input of a client with this key; `None` if it is empty.
    pub fn read(bytes: &[u8], key: &str) -> Option<Self> {
        let (&how, rest) = bytes.split_first()?;
        let ending = match how >> 1 & 3 {
            1 => Ending::HalfClose,
            2 => Ending::Reset,
            _ => Ending::Wait,
        };
        let is_program = how & 1 != 0;
        let pieces = if is_program { run(rest, key) } else { vec![with_key(rest, key)] };
        // The bytes decide, and text may be the preface of HTTP/2.
        let is_http2 = pieces.concat().starts_with(PREFACE);
        let pieces = match how >> 3 & 7 {
            0 => pieces,
            size => split(&pieces.concat(), 1 << (size * 2 - 1)),
        };
        Some(Self { is_http2, pieces, ending })
    }

    /// Returns all bytes that the client sends.
    pub fn sent(&self) -> Vec<u8> {
        self.pieces.concat()
    }
}

/// Splits bytes into pieces of `size` bytes, the last of which has the rest.
fn split(bytes: &[u8], size: usize) -> Vec<Vec<u8>> {
    let (short, rest) = bytes.split_at(bytes.len().min(size * MAX_PIECES));
    let pieces = short.chunks(size).chain([rest]).filter(|piece| !piece.is_empty());
    pieces.map(<[u8]>::to_vec).collect()
}

/// Returns `text` with the key at each placeholder.
fn with_key(mut text: &[u8], key: &str) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some((&first, rest)) = text.split_first() {
        if let Some(rest) = text.strip_prefix(KEY_PLACEHOLDER) {
            out.extend(key.as_bytes());
            text = rest;
        } else {
            out.push(first);
            text = rest;
        }
    }
    out
}

/// Runs a program of steps after the opening of a connection.
fn run(mut program: &[u8], key: &str) -> Vec<Vec<u8>> {
    let mut pieces = vec![opening()];
    while let Some((&step, rest)) = program.split_first() {
        program = rest;
        let mut next = || {
            let (&byte, rest) = program.split_first().unwrap_or((&0, &[]));
            program = rest;
            byte
        };
        let frames = match step % 8 {
            0 => {
                let length = usize::from(next()).min(program.len());
                let (bytes, rest) = program.split_at(length);
                program = rest;
                bytes.to_vec()
            }
            1 => {
                let (kind, flags, stream) = (next(), next(), next());
                let length = usize::from(next()).min(program.len());
                let (payload, rest) = program.split_at(length);
                program = rest;
                frame(kind, flags, stream.into(), payload)
            }
            2 => head(next().into(), next(), key),
            3 => body(next().into(), next()),
            4 => {
                let (stream, which) = (next().into(), next() & !1);
                let mut frames = head(stream, which, key);
                frames.extend(body(stream, which | 1));
                frames
            }
            5 => {
                let (stream, increment) = (next().into(), [0, next(), next(), next()]);
                frame(WINDOW_UPDATE, 0, stream, &increment)
            }
            6 => frame(RST_STREAM, 0, next().into(), &[0, 0, 0, 8]),
            // What follows is the next piece.
            _ => {
                pieces.push(Vec::new());
                continue;
            }
        };
        if let Some(piece) = pieces.last_mut() {
            piece.extend(frames);
        }
    }
    pieces
}

/// Returns the head of a request. The first bit of `which` ends the stream, the others select the request.
fn head(stream: u32, which: u8, key: &str) -> Vec<u8> {
    let (method, path, _) = REQUESTS[usize::from(which >> 1) % REQUESTS.len()];
    let authorization = format!("Bearer {key}");
    let headers = block(&[
        (":method", method),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", path),
        ("authorization", &authorization),
    ]);
    let end = if which & 1 != 0 { END_STREAM } else { 0 };
    frame(HEADERS, END_HEADERS | end, stream, &headers)
}

/// Returns the body of a request. The first bit of `which` ends the stream, the others select the request.
fn body(stream: u32, which: u8) -> Vec<u8> {
    let (_, _, body) = REQUESTS[usize::from(which >> 1) % REQUESTS.len()];
    frame(DATA, which & END_STREAM, stream, body.as_bytes())
}
