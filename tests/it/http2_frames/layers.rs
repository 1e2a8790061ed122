//! Malformed frames, streams and connections (RFC 9113, 4 to 6).

use tests::http2::{
    ACK, CONTINUATION, DATA, END_HEADERS, GOAWAY, HEADERS, PADDED, PING, PRIORITY, PUSH_PROMISE,
    RST_STREAM, SETTINGS, WINDOW_UPDATE, block, frame,
};

use super::Reaction::{ConnectionError, Nothing, StreamError};
use super::{
    ANSWERED, Case, FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR, GET, MAX_STREAMS, PROTOCOL_ERROR,
    REFUSED_STREAM, STREAM, STREAM_CLOSED, case, data, get, open,
};

/// The largest payload that the gateway accepts.
const MAX_FRAME_BYTES: usize = 16 * 1024;
/// The flag of a head that begins with a priority.
const HAS_PRIORITY: u8 = 0x20;
/// The priority of a stream that depends on itself.
const ITSELF: [u8; 5] = [0, 0, 0, 3, 1];
/// The largest window.
const MAX_WINDOW: u32 = (1 << 31) - 1;
const UNKNOWN: u8 = 0x42;

// Settings (RFC 9113, 6.5.2).
const ENABLE_PUSH: u16 = 2;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;

pub(super) fn cases() -> Vec<Case> {
    [framing(), states(), kinds(), settings(), windows()].into_iter().flatten().collect()
}

fn framing() -> Vec<Case> {
    let long = vec![0; MAX_FRAME_BYTES + 1];
    let size = ConnectionError(FRAME_SIZE_ERROR);
    // The RFC's code is COMPRESSION_ERROR. The connection ends, as it must.
    let compression = ConnectionError(PROTOCOL_ERROR);
    let head = |bytes: &[u8]| frame(HEADERS, END_HEADERS, STREAM, bytes);
    let late_size = [&block(&GET)[..], &[0x20]].concat();
    vec![
        case("4.1", "an unknown kind", frame(UNKNOWN, 0xff, 0, &[1; 9]), Nothing),
        case("4.1", "unknown flags", frame(PING, 0xf6, 0, &[1; 8]), Nothing),
        case("4.1", "the reserved bit", frame(PING, 0, 1 << 31, &[1; 8]), Nothing),
        case("4.2", "long data", [open(STREAM), data(STREAM, &long)].concat(), size),
        case("4.2", "a long head", head(&long), size),
        case("4.3", "the index 0", head(&[0x80]), compression),
        case("4.3", "an index behind the table", head(&[0xff, 0x7f]), compression),
        case("4.3", "half of a header", head(&[0, 5, b'a']), compression),
        case("4.3", "a table that is too large", head(&[0x3f, 0xff, 0x7f]), compression),
        case("4.3", "a table size behind a header", head(&late_size), compression),
    ]
}

fn states() -> Vec<Case> {
    let protocol = ConnectionError(PROTOCOL_ERROR);
    // The RFC's error is STREAM_CLOSED, of the stream. An endpoint may treat it as one of the connection (5.4.1).
    let closed = ConnectionError(PROTOCOL_ERROR);
    let too_many: Vec<_> = (0..=MAX_STREAMS).map(|number| open(STREAM + 2 * number)).collect();
    let refused = StreamError(STREAM + 2 * MAX_STREAMS, REFUSED_STREAM);
    let itself = [&ITSELF[..], &block(&GET)].concat();
    let dependent = frame(HEADERS, END_HEADERS | HAS_PRIORITY | 1, STREAM, &itself);
    let part = frame(HEADERS, 0, STREAM, &block(&GET));
    let late = [window(ANSWERED, 1), reset(ANSWERED), priority(ANSWERED, &[0; 5])].concat();
    vec![
        case("5.1", "data on an idle stream", data(STREAM, b"a"), protocol),
        case("5.1", "a reset of an idle stream", reset(STREAM), protocol),
        case("5.1", "a window of an idle stream", window(STREAM, 1), protocol),
        case("5.1", "data after the end", [get(STREAM), data(STREAM, b"a")].concat(), closed),
        case("5.1", "a head after the end", [get(STREAM), get(STREAM)].concat(), closed),
        case(
            "5.1",
            "data after the answer",
            data(ANSWERED, b"a"),
            StreamError(ANSWERED, STREAM_CLOSED),
        ),
        case("5.1", "a head after the answer", get(ANSWERED), closed),
        case("5.1", "others after the answer", late, Nothing),
        case(
            "5.1",
            "data after a reset",
            [open(STREAM), reset(STREAM), data(STREAM, b"a")].concat(),
            StreamError(STREAM, STREAM_CLOSED),
        ),
        case(
            "5.1",
            "a head after a reset",
            [open(STREAM), reset(STREAM), get(STREAM)].concat(),
            closed,
        ),
        case("5.1.1", "an even stream", get(2), protocol),
        case(
            "5.1.1",
            "a stream before the last",
            [get(STREAM + 4), get(STREAM)].concat(),
            protocol,
        ),
        case("5.1.2", "more streams than allowed", too_many.concat(), refused),
        case(
            "5.3.1",
            "a head that depends on itself",
            dependent,
            StreamError(STREAM, PROTOCOL_ERROR),
        ),
        case(
            "5.3.1",
            "a priority that depends on itself",
            priority(STREAM, &ITSELF),
            StreamError(STREAM, PROTOCOL_ERROR),
        ),
        case(
            "5.5",
            "an unknown kind in a head",
            [part, frame(UNKNOWN, 0, 0, &[])].concat(),
            protocol,
        ),
    ]
}

fn kinds() -> Vec<Case> {
    let protocol = ConnectionError(PROTOCOL_ERROR);
    // The RFC's code is FRAME_SIZE_ERROR, for a priority that of the stream. An endpoint may end the connection.
    let size = ConnectionError(PROTOCOL_ERROR);
    let padding = frame(DATA, PADDED, STREAM, &[9, 1, 2]);
    let padded_head = frame(HEADERS, END_HEADERS | PADDED, STREAM, &[200, 0x82, 0x86, 0x84]);
    let part = frame(HEADERS, 0, STREAM, &[0x82]);
    let rest = frame(CONTINUATION, END_HEADERS, STREAM, &block(&GET)[..]);
    let whole = [frame(HEADERS, 1, STREAM, &[]), rest.clone()].concat();
    vec![
        case("6.1", "data on no stream", data(0, b"a"), protocol),
        case("6.1", "data with too much padding", [open(STREAM), padding].concat(), protocol),
        case("6.2", "a head on no stream", get(0), protocol),
        case("6.2", "a head with too much padding", padded_head, protocol),
        case("6.2", "a head within a head", [part.clone(), get(STREAM + 2)].concat(), protocol),
        case("6.2", "data within a head", [part.clone(), data(STREAM, b"a")].concat(), protocol),
        case("6.3", "a priority of no stream", priority(0, &[0; 5]), protocol),
        case("6.3", "a short priority", priority(STREAM, &[0; 4]), size),
        case("6.4", "a reset of no stream", reset(0), protocol),
        case(
            "6.4",
            "a short reset",
            [open(STREAM), frame(RST_STREAM, 0, STREAM, &[0; 3])].concat(),
            size,
        ),
        case(
            "6.6",
            "a promise by a client",
            frame(PUSH_PROMISE, END_HEADERS, STREAM, &[0, 0, 0, 2]),
            protocol,
        ),
        case("6.7", "a ping on a stream", frame(PING, 0, STREAM, &[0; 8]), protocol),
        case("6.7", "a short ping", frame(PING, 0, 0, &[0; 7]), size),
        case("6.7", "an answer to no ping", frame(PING, ACK, 0, &[0; 8]), Nothing),
        case("6.8", "a goodbye on a stream", frame(GOAWAY, 0, STREAM, &[0; 8]), protocol),
        case("6.10", "the rest of no head", rest.clone(), protocol),
        case("6.10", "the rest of a whole head", [whole, rest.clone()].concat(), protocol),
        case(
            "6.10",
            "the rest on another stream",
            [part.clone(), frame(CONTINUATION, END_HEADERS, STREAM + 2, &[0x86])].concat(),
            protocol,
        ),
        case(
            "6.10",
            "the rest on no stream",
            [part, frame(CONTINUATION, END_HEADERS, 0, &[0x86])].concat(),
            protocol,
        ),
    ]
}

fn settings() -> Vec<Case> {
    let protocol = ConnectionError(PROTOCOL_ERROR);
    // The RFC's codes are FRAME_SIZE_ERROR, and FLOW_CONTROL_ERROR for a window. The connection ends, as it must.
    let (size, flow) = (protocol, protocol);
    let acknowledgement = frame(SETTINGS, ACK, 0, &[]);
    vec![
        case("6.5", "settings on a stream", frame(SETTINGS, 0, STREAM, &[]), protocol),
        case("6.5", "half of a setting", frame(SETTINGS, 0, 0, &[0; 5]), size),
        case("6.5", "settings in an acknowledgement", frame(SETTINGS, ACK, 0, &[0; 6]), size),
        case("6.5.2", "a push that is neither on nor off", setting(ENABLE_PUSH, 2), protocol),
        case("6.5.2", "a large initial window", setting(INITIAL_WINDOW_SIZE, MAX_WINDOW + 1), flow),
        case("6.5.2", "small frames", setting(MAX_FRAME_SIZE, (1 << 14) - 1), protocol),
        case("6.5.2", "large frames", setting(MAX_FRAME_SIZE, 1 << 24), protocol),
        case("6.5.2", "an unknown setting", setting(0xff, 1), Nothing),
        case("6.5.3", "an acknowledgement", acknowledgement.clone(), Nothing),
        case("6.5.3", "an acknowledgement of nothing", acknowledgement.repeat(2), protocol),
    ]
}

fn windows() -> Vec<Case> {
    let (protocol, flow) = (ConnectionError(PROTOCOL_ERROR), ConnectionError(FLOW_CONTROL_ERROR));
    let on_stream = |increment| [open(STREAM), window(STREAM, increment)].concat();
    let initial = [open(STREAM), window(STREAM, 1 << 16), setting(INITIAL_WINDOW_SIZE, MAX_WINDOW)];
    let short = frame(WINDOW_UPDATE, 0, 0, &[0; 3]);
    vec![
        case("6.9", "a window of no bytes", window(0, 0), protocol),
        // The RFC's error is one of the stream; an endpoint may treat it as one of the connection (5.4.1).
        case("6.9", "a window of no bytes, of a stream", on_stream(0), protocol),
        // The RFC's code is FRAME_SIZE_ERROR.
        case("6.9", "a short window", short, protocol),
        case("6.9.1", "a window that overflows", window(0, MAX_WINDOW), flow),
        case(
            "6.9.1",
            "a window that overflows, of a stream",
            on_stream(MAX_WINDOW),
            StreamError(STREAM, FLOW_CONTROL_ERROR),
        ),
        case("6.9.2", "an initial window that overflows a stream's", initial.concat(), flow),
    ]
}

fn reset(stream: u32) -> Vec<u8> {
    const CANCEL: u32 = 8;
    frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())
}

fn priority(stream: u32, payload: &[u8]) -> Vec<u8> {
    frame(PRIORITY, 0, stream, payload)
}

fn window(stream: u32, increment: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

fn setting(id: u16, value: u32) -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
}
