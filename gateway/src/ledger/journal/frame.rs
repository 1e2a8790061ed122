//! Frames entries in a segment: length, checksum, entry.
//!
//! A process that dies during a write leaves a partial frame, which the checksum detects. The zeros of
//! preallocated space read as the end of the segment.

use bytes::BufMut;

/// The maximum length of an entry, in bytes; a larger length is damage. Entries are shorter, because texts are
/// cut when they are encoded (`fields.rs`).
pub(super) const MAX_PAYLOAD_BYTES: usize = 1024 * 1024;
const HEAD: usize = 8;

/// The next item in a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextFrame<'a> {
    /// A whole entry.
    Entry(&'a [u8]),
    /// A frame whose checksum does not match; others may follow.
    Damaged,
    /// The regular end.
    End,
    /// A partial frame at the end.
    Torn,
    /// Bytes that are not a frame; the position of the next frame is unknown.
    Garbage,
}

/// Appends a frame around what `put` appends to `out`.
pub(super) fn append(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.put_slice(&[0; HEAD]);
    put(out);
    let (head, entry) = out[start..].split_at_mut(HEAD);
    debug_assert!(entry.len() <= MAX_PAYLOAD_BYTES, "an entry of {} bytes", entry.len());
    let length = u32::try_from(entry.len()).unwrap_or(u32::MAX);
    let checksum = crc32fast::hash(entry);
    head[..4].copy_from_slice(&length.to_be_bytes());
    head[4..].copy_from_slice(&checksum.to_be_bytes());
}

/// Reads the next frame from the front of `from`.
pub(super) fn next<'a>(from: &mut &'a [u8]) -> NextFrame<'a> {
    let rest = *from;
    *from = &[];
    let Some((length, after)) = rest.split_first_chunk() else {
        return if is_blank(rest) { NextFrame::End } else { NextFrame::Torn };
    };
    let Some((checksum, body)) = after.split_first_chunk() else {
        return if is_blank(rest) { NextFrame::End } else { NextFrame::Torn };
    };
    let (length, checksum) = (u32::from_be_bytes(*length), u32::from_be_bytes(*checksum));
    let length = length as usize;
    if length == 0 || length > MAX_PAYLOAD_BYTES {
        return if is_blank(rest) { NextFrame::End } else { NextFrame::Garbage };
    }
    let Some((entry, after)) = body.split_at_checked(length) else { return NextFrame::Torn };
    if crc32fast::hash(entry) == checksum {
        *from = after;
        return NextFrame::Entry(entry);
    }
    if is_blank(after) {
        return NextFrame::Torn;
    }
    *from = after;
    NextFrame::Damaged
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(entries: &[&[u8]]) -> Vec<u8> {
        let mut all = Vec::new();
        for entry in entries {
            append(&mut all, |out| out.extend_from_slice(entry));
        }
        all
    }

    /// Returns all readable entries, and how the segment ends.
    fn read(bytes: &[u8]) -> (Vec<&[u8]>, Vec<NextFrame<'_>>) {
        let (mut from, mut entries, mut rest) = (bytes, Vec::new(), Vec::new());
        loop {
            match next(&mut from) {
                NextFrame::Entry(entry) => entries.push(entry),
                NextFrame::Damaged => rest.push(NextFrame::Damaged),
                end => {
                    rest.push(end);
                    return (entries, rest);
                }
            }
        }
    }

    #[test]
    fn what_was_written_is_read_with_zeros_after_it_or_not() {
        let entries: [&[u8]; 3] = [b"one", b"\0", &[7; 3000]];
        let mut bytes = frames(&entries);
        assert_eq!(read(&bytes), (entries.to_vec(), vec![NextFrame::End]));
        bytes.resize(bytes.len() + 100, 0);
        assert_eq!(read(&bytes), (entries.to_vec(), vec![NextFrame::End]));
        bytes.truncate(bytes.len() - 97);
        assert_eq!(read(&bytes), (entries.to_vec(), vec![NextFrame::End]));
    }

    #[test]
    fn a_tail_torn_at_any_byte_is_cut() {
        let whole = frames(&[b"first", b"the second one"]);
        let first = frames(&[b"first"]).len();
        for end in first + 1..whole.len() {
            let torn = (vec![&b"first"[..]], vec![NextFrame::Torn]);
            assert_eq!(read(&whole[..end]).0, torn.0, "{end}");
            // The segment was preallocated with zeros, and only part of the frame was written.
            let mut laid_out = whole[..end].to_vec();
            laid_out.resize(whole.len() + 50, 0);
            let (entries, rest) = read(&laid_out);
            assert_eq!(entries, torn.0, "{end}");
            assert!(rest.len() == 1, "{end}: {rest:?}");
        }
    }

    #[test]
    fn a_damaged_entry_is_stepped_over() {
        let whole = frames(&[b"first", b"second", b"third"]);
        let first = frames(&[b"first"]).len();
        for at in first + 4..first + HEAD + 6 {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            let expected: (Vec<&[u8]>, _) =
                (vec![b"first", b"third"], vec![NextFrame::Damaged, NextFrame::End]);
            assert_eq!(read(&bytes), expected, "{at}");
        }
    }

    #[test]
    fn garbage_is_never_read_as_an_entry() {
        for garbage in
            [&b"<html>nothing of ours</html>"[..], &[0xff; 64], &[0, 0, 0, 0, 1, 2, 3, 4, 5]]
        {
            let (entries, rest) = read(garbage);
            assert!(entries.is_empty() && rest != [NextFrame::End], "{garbage:?}");
        }
    }
}
