//! Parses the answers of an HTTP/2 connection.

use std::collections::BTreeMap;

use hpack::Decoder;

use crate::answer::Answer;
use crate::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, RST_STREAM, SETTINGS,
    frames,
};

/// The state of a stream, as its answer shows it.
#[derive(Default)]
struct Stream {
    answer: Option<Answer>,
    is_reset: bool,
}

/// Returns the answers in `bytes`.
///
/// # Panics
/// If the bytes are not frames that a server may send in this order.
pub fn answers(bytes: &[u8]) -> Vec<Answer> {
    let (mut streams, mut decoder) = (BTreeMap::<u32, Stream>::new(), Decoder::new());
    // The stream of a header block that has not ended, whether the stream ends with it, and its bytes so far.
    let mut open_block: Option<(u32, bool, Vec<u8>)> = None;
    for (number, frame) in frames(bytes).into_iter().enumerate() {
        let Frame { kind, flags, stream: id, payload } = frame;
        assert!(number > 0 || kind == SETTINGS, "settings come first");
        assert!(open_block.is_none() || kind == CONTINUATION, "a header block is interrupted");
        match kind {
            HEADERS => {
                assert_eq!(id % 2, 1, "an answer to no request");
                open_block = Some((id, flags & END_STREAM != 0, payload));
            }
            CONTINUATION => {
                let (open, _, block) = open_block.as_mut().expect("a header block is open");
                assert_eq!(*open, id);
                block.extend(payload);
            }
            DATA => {
                let stream = streams.get_mut(&id).expect("a body without a head");
                let answer = stream.answer.as_mut().expect("a body without a head");
                assert!(!answer.is_whole && !stream.is_reset, "data after the end of a stream");
                answer.body.extend(payload);
                answer.is_whole = flags & END_STREAM != 0;
            }
            RST_STREAM => streams.entry(id).or_default().is_reset = true,
            GOAWAY => assert_eq!(id, 0),
            _ => {}
        }
        if matches!(kind, HEADERS | CONTINUATION)
            && flags & END_HEADERS != 0
            && let Some((id, is_end, block)) = open_block.take()
        {
            let headers = decoder.decode(&block).expect("a header block is valid");
            streams.entry(id).or_default().head(headers, is_end);
        }
    }
    streams.into_values().filter_map(|stream| stream.answer).collect()
}

impl Stream {
    fn head(&mut self, headers: Vec<(Vec<u8>, Vec<u8>)>, is_end: bool) {
        assert!(!self.is_reset, "a head after the end of a stream");
        if let Some(answer) = &mut self.answer {
            assert!(is_end && !answer.is_whole, "a second head that is no trailer");
            answer.is_whole = true;
            return;
        }
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("a header is text");
        let headers = headers.into_iter().map(|(name, value)| (text(name), text(value)));
        let mut answer =
            Answer { headers: headers.collect(), is_whole: is_end, ..Answer::default() };
        let status = answer.header(":status").expect("an answer has a status");
        answer.status = status.parse().expect("a status is a number");
        if answer.status >= 200 {
            self.answer = Some(answer);
        }
    }
}
