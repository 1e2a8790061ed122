//! Fuzzes the splitting of a byte stream into events. Invariants: the pieces in which a stream arrives do not change
//! its events, no byte is lost or repeated, and the fields of an event are those that the standard finds.
//!
//! An input is a number of cuts, two bytes for the position of each, and the stream.
#![no_main]

use std::borrow::Cow;

use domain::wire::sse::{Fields, Splitter, SseError, fields};
use libfuzzer_sys::fuzz_target;

/// The most cuts of one input.
const MAX_CUTS: usize = 8;

/// What a splitter found: the events and the rest, or the reason why the stream is none.
type Split = Result<(Vec<Vec<u8>>, Vec<u8>), SseError>;

fuzz_target!(|input: &[u8]| {
    let Some((&count, rest)) = input.split_first() else { return };
    let cuts = usize::from(count) % (MAX_CUTS + 1);
    let Some((cuts, stream)) = rest.split_at_checked(cuts * 2) else { return };
    let mut cuts: Vec<_> = cuts
        .chunks_exact(2)
        .map(|cut| usize::from(u16::from_be_bytes([cut[0], cut[1]])) % (stream.len() + 1))
        .chain([0, stream.len()])
        .collect();
    cuts.sort_unstable();

    let whole = split([stream]);
    assert_eq!(split(cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]])), whole, "{cuts:?}");
    assert_eq!(split(stream.chunks(1)), whole, "byte by byte");
    let Ok((events, rest)) = whole else { return };
    let found = [events.concat(), rest].concat();
    assert_eq!(found, stream.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stream), "bytes were lost");
    for event in &events {
        assert_eq!(fields(event), reference(event), "{}", event.escape_ascii());
    }
});

fn split<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Split {
    let (mut splitter, mut events) = (Splitter::default(), Vec::new());
    for piece in pieces {
        splitter.push(piece, |event| events.push(event.to_vec()))?;
    }
    Ok((events, splitter.finish().to_vec()))
}

/// Returns the fields of an event as the standard defines them (WHATWG HTML, 9.2.6), line by line.
fn reference(event: &[u8]) -> Fields<'static> {
    let text = with_line_feeds(event);
    let (mut data, mut kind): (Option<Vec<u8>>, &[u8]) = (None, b"");
    for line in text.split(|&byte| byte == b'\n') {
        let (name, value) = match line.iter().position(|&byte| byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match (name, &mut data) {
            (b"event", _) => kind = value,
            (b"data", None) => data = Some(value.to_vec()),
            (b"data", Some(earlier)) => {
                earlier.push(b'\n');
                earlier.extend_from_slice(value);
            }
            _ => {}
        }
    }
    Fields { data: data.map(Cow::Owned), is_error: kind == b"error" }
}

/// Returns `bytes` with LF for every line end.
fn with_line_feeds(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len());
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'\n' if at > 0 && bytes[at - 1] == b'\r' => {}
            b'\r' => text.push(b'\n'),
            byte => text.push(byte),
        }
    }
    text
}
