//! Counts the small frames that a client of HTTP/2 sends. They cost the gateway more time than their sender.

/// What a client of HTTP/2 sends first (RFC 9113, 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The length of a frame header, in bytes (RFC 9113, 4.1).
const HEADER_LENGTH: usize = 9;
/// The type of the frames that begin requests, which have their own limits.
const HEADERS: u8 = 1;
/// Frames with a shorter payload, in bytes, are small.
const SMALL: usize = 256;

/// Follows the frames in the bytes of a client.
#[derive(Debug)]
pub(super) enum SmallFrames {
    /// The number of bytes of the preface that have arrived.
    Preface(usize),
    /// The client speaks HTTP/1.
    Http1,
    /// A frame header, and the number of its bytes that have arrived.
    Header([u8; HEADER_LENGTH], usize),
    /// The number of bytes of a frame's payload that are still to arrive.
    Payload(usize),
}

impl Default for SmallFrames {
    fn default() -> Self {
        Self::Preface(0)
    }
}

impl SmallFrames {
    /// Returns how many small frames, other than those that begin requests, have their headers completed in `bytes`,
    /// which follow those of the last call.
    pub(super) fn count(&mut self, mut bytes: &[u8]) -> u32 {
        let mut count = 0;
        while !bytes.is_empty() {
            match self {
                Self::Http1 => break,
                Self::Preface(arrived) => {
                    let (part, rest) = bytes.split_at(bytes.len().min(PREFACE.len() - *arrived));
                    if !PREFACE[*arrived..].starts_with(part) {
                        *self = Self::Http1;
                        break;
                    }
                    bytes = rest;
                    *arrived += part.len();
                    if *arrived == PREFACE.len() {
                        *self = Self::Header([0; HEADER_LENGTH], 0);
                    }
                }
                Self::Header(header, arrived) => {
                    let (part, rest) = bytes.split_at(bytes.len().min(HEADER_LENGTH - *arrived));
                    header[*arrived..*arrived + part.len()].copy_from_slice(part);
                    bytes = rest;
                    *arrived += part.len();
                    if *arrived == HEADER_LENGTH {
                        let length =
                            u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
                        count += u32::from(length < SMALL && header[3] != HEADERS);
                        *self = Self::Payload(length);
                    }
                }
                Self::Payload(left) => {
                    let part = bytes.len().min(*left);
                    bytes = &bytes[part..];
                    *left -= part;
                }
            }
            if matches!(self, Self::Payload(0)) {
                *self = Self::Header([0; HEADER_LENGTH], 0);
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(frame_type: u8, length: usize) -> Vec<u8> {
        let size = u32::try_from(length).unwrap().to_be_bytes();
        [&size[1..], &[frame_type, 0, 0, 0, 0, 1], &vec![0; length]].concat()
    }

    #[test]
    fn frames_are_counted_however_they_are_cut() {
        let sent = [
            PREFACE.to_vec(),
            frame(4, 0),
            frame(HEADERS, 3),
            frame(0, SMALL),
            frame(0, SMALL - 1),
            frame(6, 8),
            frame(0, 0),
        ];
        let sent = sent.concat();
        for size in [1, 2, 9, 10, 100, sent.len()] {
            let mut frames = SmallFrames::default();
            let count: u32 = sent.chunks(size).map(|part| frames.count(part)).sum();
            assert_eq!(count, 4, "{size}");
        }
    }

    #[test]
    fn http1_has_no_frames() {
        for head in ["GET / HTTP/1.1\r\n", "PRI * HTTP/2.1\r\n\r\nSM\r\n\r\n"] {
            let mut frames = SmallFrames::default();
            let sent = [head.as_bytes(), &[0; 900]].concat();
            let count: u32 = sent.chunks(7).map(|part| frames.count(part)).sum();
            assert_eq!(count, 0);
        }
    }
}
