//! Server-sent events as raw bytes.
//!
//! A relay passes events on as the bytes that they were, so it needs to know where each one ends,
//! which decoders (they hand out decoded strings) do not tell. Lines end in LF or CRLF; a lone CR,
//! which the standard allows and no chat server sends, is not taken for a line end.

use std::borrow::Cow;

use bytes::BytesMut;

/// The largest event that is taken in.
pub const LARGEST_EVENT: usize = 16 * 1024 * 1024;

/// The `data` of the event that ends a chat stream.
pub const DONE: &[u8] = b"[DONE]";

/// The event that ends a chat stream.
pub const DONE_EVENT: &[u8] = b"data: [DONE]\n\n";

/// An event larger than [`LARGEST_EVENT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event is larger than {LARGEST_EVENT} bytes")]
pub struct TooLarge;

/// Cuts a byte stream into whole events, however it was split on its way.
#[derive(Debug, Default)]
pub struct Splitter {
    /// The beginning of an event whose end has not come.
    partial: BytesMut,
    /// How much of `partial` is known to hold no event's end.
    searched: usize,
}

impl Splitter {
    /// Calls `each` with every event that `bytes` completes, its blank line included.
    ///
    /// # Errors
    /// [`TooLarge`]; the stream is of no use from there on.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) -> Result<(), TooLarge> {
        let mut rest = bytes;
        if !self.partial.is_empty() {
            let before = self.partial.len();
            if before + bytes.len() > LARGEST_EVENT {
                return Err(TooLarge);
            }
            self.partial.extend_from_slice(bytes);
            let Some(end) = event_end(&self.partial, self.searched) else {
                self.searched = self.partial.len().saturating_sub(2);
                return Ok(());
            };
            each(&self.partial[..end]);
            self.partial.clear();
            rest = &bytes[end - before..];
        }
        while let Some(end) = event_end(rest, 0) {
            each(&rest[..end]);
            rest = &rest[end..];
        }
        if rest.len() > LARGEST_EVENT {
            return Err(TooLarge);
        }
        self.partial.extend_from_slice(rest);
        self.searched = rest.len().saturating_sub(2);
        Ok(())
    }

    /// Takes what is left when the stream has ended: an event whose blank line never came, if any.
    pub fn finish(&mut self) -> BytesMut {
        self.searched = 0;
        std::mem::take(&mut self.partial)
    }
}

/// The `data` of an event; `None` if it has none (a comment, say). Borrowed unless it is spread over
/// several lines.
pub fn data(event: &[u8]) -> Option<Cow<'_, [u8]>> {
    // nearly every event is one line of data
    if let Some(line) = event.strip_prefix(b"data: ")
        && let Some(end) = memchr::memchr(b'\n', line)
        && line[end..] == *b"\n\n"
        && line[..end].last() != Some(&b'\r')
    {
        return Some(Cow::Borrowed(&line[..end]));
    }
    let mut found: Option<Cow<'_, [u8]>> = None;
    for line in event.split(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(value) = line.strip_prefix(b"data:") else { continue };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &mut found {
            None => found = Some(Cow::Borrowed(value)),
            Some(earlier) => {
                let earlier = earlier.to_mut();
                earlier.push(b'\n');
                earlier.extend_from_slice(value);
            }
        }
    }
    found
}

/// The end of the first event: behind its blank line, searched from `from` on.
fn event_end(bytes: &[u8], from: usize) -> Option<usize> {
    memchr::memchr_iter(b'\n', bytes.get(from..)?).find_map(|at| match bytes[from + at + 1..] {
        [b'\n', ..] => Some(from + at + 2),
        [b'\r', b'\n', ..] => Some(from + at + 3),
        _ => None,
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
    fn data_is_found_in_any_form() {
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
    fn an_unfinished_event_is_handed_out_at_the_end() {
        let mut splitter = Splitter::default();
        splitter.push(b"data: 1\n\ndata: 2", |event| assert_eq!(event, b"data: 1\n\n")).unwrap();
        assert_eq!(splitter.finish(), "data: 2");
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut splitter = Splitter::default();
        let mebibyte = vec![b'x'; 1024 * 1024];
        let outcome = (0..17).try_for_each(|_| splitter.push(&mebibyte, |_| {}));
        assert_eq!(outcome, Err(TooLarge));
    }
}
