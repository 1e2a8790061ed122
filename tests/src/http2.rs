//! Frames of HTTP/2, written and read by hand. The fuzz targets use this file too, so it depends on nothing.

/// What a client sends first.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The header block of `GET /`, from the static table of HPACK.
pub const GET_ROOT: &[u8] = &[0x82, 0x86, 0x84];
/// The kind of frames that carry a part of a body.
pub const DATA: u8 = 0;
/// The kind of frames that begin a request.
pub const HEADERS: u8 = 1;
/// The kind of frames with priorities, which are deprecated.
pub const PRIORITY: u8 = 2;
/// The kind of frames that end a stream.
pub const RST_STREAM: u8 = 3;
/// The kind of frames with settings.
pub const SETTINGS: u8 = 4;
/// The kind of frames that announce a request by a server.
pub const PUSH_PROMISE: u8 = 5;
/// The kind of frames that must be answered.
pub const PING: u8 = 6;
/// The kind of frames that announce the end of a connection.
pub const GOAWAY: u8 = 7;
/// The kind of frames that enlarge a window.
pub const WINDOW_UPDATE: u8 = 8;
/// The kind of frames that carry the rest of a header block.
pub const CONTINUATION: u8 = 9;
/// The flag of a frame that ends its side of the stream.
pub const END_STREAM: u8 = 1;
/// The flag of a frame that acknowledges settings or a ping.
pub const ACK: u8 = 1;
/// The flag of a frame that ends its header block.
pub const END_HEADERS: u8 = 4;
/// The flag of a frame whose payload begins with the length of its padding.
pub const PADDED: u8 = 8;

/// A frame as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The kind.
    pub kind: u8,
    /// The flags.
    pub flags: u8,
    /// The stream; 0 is the connection.
    pub stream: u32,
    /// The payload.
    pub payload: Vec<u8>,
}

impl Frame {
    /// Returns the error code of a `RST_STREAM` or `GOAWAY` frame; `None` for other frames.
    pub fn error_code(&self) -> Option<u32> {
        let at = match self.kind {
            RST_STREAM => 0,
            GOAWAY => 4,
            _ => return None,
        };
        Some(u32::from_be_bytes(*self.payload.get(at..)?.first_chunk()?))
    }
}

/// Returns a frame of a stream; 0 is the connection.
///
/// # Panics
/// If the payload is longer than a frame can be.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    assert_eq!(length[0], 0, "a frame has up to 16 MiB");
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Returns the preface and empty settings.
pub fn opening() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

/// Returns a header block that has each header as a literal, whatever its name and value are.
///
/// # Panics
/// If a name or a value is longer than 126 bytes.
pub fn block(headers: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in headers {
        // A literal without indexing, with a new name.
        block.push(0);
        for text in [name, value] {
            assert!(text.len() < 127, "the length has one byte");
            block.push(u8::try_from(text.len()).unwrap());
            block.extend(text.as_bytes());
        }
    }
    block
}

/// Returns each complete frame in `bytes`.
pub fn frames(mut bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<9>() {
        let [l0, l1, l2, kind, flags, stream @ ..] = *head;
        let length = u32::from_be_bytes([0, l0, l1, l2]) as usize;
        let Some((payload, rest)) = rest.split_at_checked(length) else { break };
        let stream = u32::from_be_bytes(stream);
        frames.push(Frame { kind, flags, stream, payload: payload.to_vec() });
        bytes = rest;
    }
    frames
}
