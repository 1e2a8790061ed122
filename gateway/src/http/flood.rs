//! Detects clients that send ever more of what only costs time: bytes or small frames of HTTP/2 without a request, or a
//! head in small pieces.

use super::small_frames::SmallFrames;
use crate::connections::Activity;

/// The most bytes that a client may send while it has no request: more than the head of one, and than a client of
/// HTTP/2 may send of the body of one that was refused.
pub(super) const MAX_UNREQUESTED: usize = 2 * 1024 * 1024;
/// The most small frames of HTTP/2 that a client may send while it has no request.
const MAX_SMALL_FRAMES: u32 = 1_024;
/// How often an incomplete head may be parsed, multiplied by the size that it may have. hyper parses it from its
/// beginning after each read, so that a long head in short pieces would take a time that is quadratic in its length.
const MAX_PARSES: usize = 128;

/// Follows the bytes that a client sends.
pub(super) struct FloodDetector {
    /// The longest head, in bytes.
    max_head_bytes: usize,
    unrequested: Unrequested,
    small_frames: SmallFrames,
}

/// What was read without a request in progress.
#[derive(Default)]
struct Unrequested {
    /// The number of requests before it.
    requests: u64,
    bytes: usize,
    small_frames: u32,
    /// The bytes that hyper has parsed, if the protocol is HTTP/1.
    parsed: usize,
}

impl FloodDetector {
    /// Creates the detector of a new connection.
    pub(super) fn new(max_head_bytes: usize) -> Self {
        Self {
            max_head_bytes,
            unrequested: Unrequested::default(),
            small_frames: SmallFrames::default(),
        }
    }

    /// Counts bytes that were read, and returns whether the connection must end. A request begins a new count.
    /// `is_http2` is whether the connection is known to be HTTP/2.
    pub(super) fn observe(&mut self, bytes: &[u8], activity: &Activity, is_http2: bool) -> bool {
        let small_frames = self.small_frames.count(bytes);
        let (requests, unrequested) = (activity.started(), &mut self.unrequested);
        if !activity.is_idle() || unrequested.requests != requests {
            *unrequested = Unrequested { requests, ..Unrequested::default() };
            return false;
        }
        unrequested.bytes += bytes.len();
        unrequested.small_frames += small_frames;
        if !is_http2 {
            unrequested.parsed += unrequested.bytes;
        }
        unrequested.bytes > MAX_UNREQUESTED
            || unrequested.small_frames > MAX_SMALL_FRAMES
            || unrequested.parsed / MAX_PARSES > self.max_head_bytes
    }
}
