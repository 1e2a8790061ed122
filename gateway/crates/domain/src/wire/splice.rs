//! Edits of a few bytes of a body without copying the rest.

use std::ops::Range;

use bytes::buf::Chain;
use bytes::{Buf, Bytes, BytesMut};

/// A body to send: the bytes before an edit, the replacement, the bytes after it.
pub type Payload = Chain<Chain<Bytes, Bytes>, Bytes>;

/// A replacement of a byte range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The range to replace; empty for an insertion.
    pub range: Range<usize>,
    /// The replacement.
    pub with: Bytes,
}

/// Applies `edits`, which must be sorted and must not overlap. A single edit, the usual case, only
/// slices `body`; several edits are assembled in a new buffer.
pub fn splice(body: &Bytes, edits: &[Edit]) -> Payload {
    let parts = match edits {
        [] => [body.clone(), Bytes::new(), Bytes::new()],
        [one] => [body.slice(..one.range.start), one.with.clone(), body.slice(one.range.end..)],
        several => [join(body, several), Bytes::new(), Bytes::new()],
    };
    let [before, edit, after] = parts;
    before.chain(edit).chain(after)
}

/// Appends `body` to `out` with one range replaced.
pub fn splice_into(out: &mut BytesMut, body: &[u8], range: Range<usize>, with: &[u8]) {
    out.extend_from_slice(&body[..range.start]);
    out.extend_from_slice(with);
    out.extend_from_slice(&body[range.end..]);
}

/// Applies `edits`, which must be sorted and must not overlap, to a copy of `body`.
pub fn join(body: &[u8], edits: &[Edit]) -> Bytes {
    let grown: usize = edits.iter().map(|edit| edit.with.len()).sum();
    let mut out = BytesMut::with_capacity(body.len() + grown);
    pieces(body, edits).for_each(|piece| out.extend_from_slice(piece));
    out.freeze()
}

/// Returns the pieces of `body` with `edits` applied, which must be sorted and must not overlap. Nothing is copied.
pub fn pieces<'a>(body: &'a [u8], edits: &'a [Edit]) -> impl Iterator<Item = &'a [u8]> {
    let starts = std::iter::once(0).chain(edits.iter().map(|edit| edit.range.end));
    let ends = edits.iter().map(|edit| edit.range.start).chain([body.len()]);
    let replacements = edits.iter().map(|edit| &edit.with[..]).chain([&[][..]]);
    let between = starts.zip(ends).map(|(start, end)| &body[start..end]);
    between.zip(replacements).flat_map(|(between, with)| [between, with])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(edits: &[(Range<usize>, &'static str)], expected: &str) {
        let edits: Vec<_> = edits
            .iter()
            .map(|(range, with)| Edit {
                range: range.clone(),
                with: Bytes::from_static(with.as_bytes()),
            })
            .collect();
        let mut payload = splice(&Bytes::from_static(b"0123456789"), &edits);
        assert_eq!(payload.remaining(), expected.len());
        assert_eq!(payload.copy_to_bytes(payload.remaining()), expected);
    }

    #[test]
    fn replaces_and_inserts() {
        check(&[], "0123456789");
        check(&[(2..4, "ab")], "01ab456789");
        check(&[(0..0, "ab")], "ab0123456789");
        check(&[(1..1, "a"), (9..10, "")], "0a12345678");
    }
}
