//! Splitting of a byte stream into server-sent events.
//!
//! The relay forwards events unchanged, so it needs their byte boundaries, which event stream
//! decoders do not expose. As in the standard (WHATWG HTML, 9.2.5), lines end in LF, CRLF or CR,
//! and a byte order mark may precede the first event.

use std::borrow::Cow;

use bytes::BytesMut;

/// The maximum size of an event.
pub const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// The `data` of the event that ends a chat stream.
pub const DONE: &[u8] = b"[DONE]";

/// The event that ends a chat stream.
pub const DONE_EVENT: &[u8] = b"data: [DONE]\n\n";

/// The error text for a stream that ends before its answer is complete.
pub const UNFINISHED: &str = "its stream ends in `[DONE]` without a `finish_reason`";

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// The first byte of gzip's magic number, with which no text begins.
const GZIP_START: u8 = 0x1f;

/// The reason why bytes are not an event stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// An event is larger than [`MAX_EVENT_BYTES`].
    #[error("an event is larger than {MAX_EVENT_BYTES} bytes")]
    TooLarge,
    /// The stream is compressed.
    #[error("it is compressed, which was not asked for")]
    Compressed,
}

/// The fields of an event that the gateway reads.
#[derive(Debug, PartialEq, Eq)]
pub struct Fields<'a> {
    /// The `data`; `None` without a data line, such as for a comment. Borrowed unless there are
    /// several data lines.
    pub data: Option<Cow<'a, [u8]>>,
    /// Whether the event type is `error`.
    pub is_error: bool,
}

/// Splits a byte stream, in chunks of any size, into complete events.
#[derive(Debug, Default)]
pub struct Splitter {
    /// The beginning of an incomplete event.
    partial: BytesMut,
    /// The length of the prefix of `partial` that contains no event end.
    searched: usize,
    /// Whether the first event was seen.
    has_begun: bool,
}

impl Splitter {
    /// Calls `each` with every event that `bytes` completes, including its blank line.
    ///
    /// # Errors
    /// The bytes are not an event stream. The splitter must not be used afterwards.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) -> Result<(), SseError> {
        let mut rest = bytes;
        if self.partial.is_empty() {
            if !self.has_begun && bytes.first() == Some(&GZIP_START) {
                return Err(SseError::Compressed);
            }
        } else {
            let before = self.partial.len();
            if before + bytes.len() > MAX_EVENT_BYTES {
                return Err(SseError::TooLarge);
            }
            self.partial.extend_from_slice(bytes);
            let Some(end) = event_end(&self.partial, self.searched) else {
                self.searched = self.partial.len().saturating_sub(2);
                return Ok(());
            };
            each(without_mark(&mut self.has_begun, &self.partial[..end]));
            self.partial.clear();
            rest = &bytes[end - before..];
        }
        while let Some(end) = event_end(rest, 0) {
            each(without_mark(&mut self.has_begun, &rest[..end]));
            rest = &rest[end..];
        }
        if rest.len() > MAX_EVENT_BYTES {
            return Err(SseError::TooLarge);
        }
        self.partial.extend_from_slice(rest);
        self.searched = rest.len().saturating_sub(2);
        Ok(())
    }

    /// Returns the length of the incomplete event, in bytes.
    pub fn partial_bytes(&self) -> usize {
        self.partial.len()
    }

    /// Returns the rest at the end of the stream: an event without its blank line, or nothing.
    pub fn finish(&mut self) -> BytesMut {
        self.searched = 0;
        let mut rest = std::mem::take(&mut self.partial);
        if !std::mem::replace(&mut self.has_begun, true) && rest.starts_with(BYTE_ORDER_MARK) {
            bytes::Buf::advance(&mut rest, BYTE_ORDER_MARK.len());
        }
        rest
    }
}

/// Strips the byte order mark that may precede the first event.
fn without_mark<'a>(has_begun: &mut bool, event: &'a [u8]) -> &'a [u8] {
    if std::mem::replace(has_begun, true) {
        return event;
    }
    event.strip_prefix(BYTE_ORDER_MARK).unwrap_or(event)
}

/// Parses an event.
pub fn fields(event: &[u8]) -> Fields<'_> {
    // Fast path: nearly every event is a single data line.
    if let Some(line) = event.strip_prefix(b"data: ")
        && let Some(end) = memchr::memchr2(b'\n', b'\r', line)
        && line[end..] == *b"\n\n"
    {
        return Fields { data: Some(Cow::Borrowed(&line[..end])), is_error: false };
    }
    let mut data: Option<Cow<'_, [u8]>> = None;
    let mut is_error = false;
    // Splitting CRLF yields an additional empty line, which is not a field.
    for line in event.split(|&byte| matches!(byte, b'\n' | b'\r')) {
        if let Some(value) = field(line, b"event") {
            is_error = value == b"error";
        }
        let Some(value) = field(line, b"data") else { continue };
        match &mut data {
            None => data = Some(Cow::Borrowed(value)),
            Some(earlier) => {
                let earlier = earlier.to_mut();
                earlier.push(b'\n');
                earlier.extend_from_slice(value);
            }
        }
    }
    Fields { data, is_error }
}

/// Returns the `data` of an event.
pub fn data(event: &[u8]) -> Option<Cow<'_, [u8]>> {
    fields(event).data
}

/// Returns the value of a line if its field is `name`.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let value = line.strip_prefix(name)?;
    if value.is_empty() {
        // A field without a colon has an empty value.
        return Some(value);
    }
    let value = value.strip_prefix(b":")?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}

/// Returns the end of the first event, after its blank line. The search starts at `from`. A CR at
/// the end of `bytes` may be the first half of a CRLF, so it does not end an event until the next
/// byte arrives.
pub fn event_end(bytes: &[u8], from: usize) -> Option<usize> {
    memchr::memchr2_iter(b'\n', b'\r', bytes.get(from..)?).find_map(|at| {
        let next = from + at + 1;
        match (bytes[from + at], &bytes[next..]) {
            // The first half of a CRLF, or unknown until the next byte.
            (b'\r', [] | [b'\n', ..]) => None,
            (_, [b'\r', b'\n', ..]) => Some(next + 2),
            (_, [b'\n', ..] | [b'\r', _, ..]) => Some(next + 1),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str =
        ": hello\n\ndata: {\"a\":1}\n\nevent: x\r\ndata: one\r\ndata:two\r\n\r\ndata: [DONE]\n\n";

    fn split(pieces: &[&str]) -> Vec<String> {
        let mut splitter = Splitter::default();
        let mut events = Vec::new();
        for piece in pieces {
            splitter
                .push(piece.as_bytes(), |event| {
                    events.push(String::from_utf8(event.to_vec()).unwrap());
                })
                .unwrap();
        }
        assert!(splitter.finish().is_empty());
        events
    }

    #[test]
    fn any_split_gives_the_same_events() {
        let whole = split(&[STREAM]);
        assert_eq!(whole.len(), 4);
        assert_eq!(whole.concat(), STREAM);
        for first in 0..=STREAM.len() {
            for second in first..=STREAM.len() {
                let pieces = [&STREAM[..first], &STREAM[first..second], &STREAM[second..]];
                assert_eq!(split(&pieces), whole, "{first} {second}");
            }
        }
        let single: Vec<_> = (0..STREAM.len()).map(|i| &STREAM[i..=i]).collect();
        assert_eq!(split(&single), whole);
    }

    #[test]
    fn any_split_of_any_line_ends_gives_the_same_events() {
        for stream in [
            "data: 1\r\rdata: 2\r\r: end",
            "data: 1\r\n\rdata: 2\n\r\ndata: 3\r\n\n: end",
            "data: 1\n\rdata: 2\n\n: end",
            "\u{feff}data: 1\n\ndata: 2\n\n: end",
        ] {
            let events = |pieces: &[&[u8]]| {
                let (mut splitter, mut events) = (Splitter::default(), Vec::new());
                for piece in pieces {
                    splitter.push(piece, |event| events.push(event.to_vec())).unwrap();
                }
                assert_eq!(splitter.finish(), ": end", "{stream:?}");
                events
            };
            let bytes = stream.as_bytes();
            let whole = events(&[bytes]);
            let data: Vec<_> = whole.iter().map(|event| data(event).unwrap()).collect();
            assert_eq!(data[..2], [&b"1"[..], b"2"], "{stream:?}");
            for at in 0..=bytes.len() {
                assert_eq!(events(&[&bytes[..at], &bytes[at..]]), whole, "{stream:?} at {at}");
            }
        }
    }

    #[test]
    fn only_the_first_event_may_have_a_byte_order_mark() {
        let mut splitter = Splitter::default();
        let mut seen = Vec::new();
        splitter
            .push("\u{feff}data: 1\n\n\u{feff}data: 2\n\n".as_bytes(), |event| {
                seen.push(data(event).map(Cow::into_owned));
            })
            .unwrap();
        assert_eq!(seen, [Some(b"1".to_vec()), None]);
        let mut splitter = Splitter::default();
        splitter.push("\u{feff}data: 1".as_bytes(), |_| {}).unwrap();
        assert_eq!(splitter.finish(), "data: 1");
    }

    #[test]
    fn rejects_compressed_streams() {
        let mut splitter = Splitter::default();
        assert_eq!(splitter.push(b"\x1f\x8b\x08", |_| {}), Err(SseError::Compressed));
    }

    #[test]
    fn recognises_error_events_by_type() {
        let check = |event: &str, data: Option<&str>, is_error: bool| {
            let data = data.map(|data| Cow::Borrowed(data.as_bytes()));
            assert_eq!(fields(event.as_bytes()), Fields { data, is_error }, "{event:?}");
        };
        check("event: error\ndata: x\n\n", Some("x"), true);
        check("data: x\r\nevent:error\r\n\r\n", Some("x"), true);
        check("event: error\n\n", None, true);
        check("event: errors\ndata: error\n\n", Some("error"), false);
        check("data: event: error\n\n", Some("event: error"), false);
        check("data\n\n", Some(""), false);
        check("database: x\n\n", None, false);
    }

    #[test]
    fn reads_data_in_every_form() {
        let check = |event: &str, expected: Option<&str>| {
            assert_eq!(data(event.as_bytes()).as_deref(), expected.map(str::as_bytes), "{event:?}");
        };
        check(": comment\n\n", None);
        check("data: {}\n\n", Some("{}"));
        check("data:{}\r\n\r\n", Some("{}"));
        check("event: x\r\ndata: one\r\ndata:two\r\n\r\n", Some("one\ntwo"));
        check("data:\n\n", Some(""));
        check("data: cut off", Some("cut off"));
    }

    #[test]
    fn finish_returns_an_incomplete_event() {
        let mut splitter = Splitter::default();
        splitter.push(b"data: 1\n\ndata: 2", |event| assert_eq!(event, b"data: 1\n\n")).unwrap();
        assert_eq!(splitter.finish(), "data: 2");
    }

    #[test]
    fn rejects_an_event_that_exceeds_the_size_limit() {
        let mut splitter = Splitter::default();
        let mebibyte = vec![b'x'; 1024 * 1024];
        let outcome = (0..17).try_for_each(|_| splitter.push(&mebibyte, |_| {}));
        assert_eq!(outcome, Err(SseError::TooLarge));
    }
}
