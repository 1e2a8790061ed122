//! Recognizes the events of a chat stream that differ from an earlier one only in their text.
//!
//! Nearly all events of a stream do: the id, the model and the form are the same in each. Comparing them takes a
//! fraction of the time of parsing them. The result is exact: the bytes around the text are those of an event that
//! was parsed, and the text is one JSON string, so the parser would find the same fields.

use std::ops::Range;

use bytes::BytesMut;

use domain::wire::chunk::OnlyText;
use domain::wire::json::JsonReader;
use domain::wire::piece::TextKind;

/// The number of events in a row that may differ in more than the text before the comparison is given up: some
/// servers send a random field with each event.
const MAX_MISSES: u8 = 8;
/// The longest event that is kept, in bytes.
const MAX_EVENT_BYTES: usize = 2 * 1024;

/// The last event that was parsed and has nothing else to observe than its text.
#[derive(Default)]
pub(super) struct EventPattern {
    sample: Option<Box<Sample>>,
    /// The number of events learnt since the last one that was recognized.
    misses: u8,
}

/// An event, split around its text.
struct Sample {
    index: u32,
    kind: TextKind,
    /// As the upstream sends it.
    received: AroundText,
    /// As the client gets it; `None` if that is the same.
    sent: Option<AroundText>,
}

/// The bytes before and after a text and its quotes.
struct AroundText {
    before: Vec<u8>,
    after: Vec<u8>,
}

// === impl EventPattern ===

impl EventPattern {
    /// Returns the text of `event` if it differs in nothing else from the event that was learnt last.
    pub(super) fn text_in<'e>(&mut self, event: &'e [u8]) -> Option<OnlyText<'e>> {
        let Sample { index, kind, received, .. } = self.sample.as_deref()?;
        let text = event.strip_prefix(&*received.before)?.strip_suffix(&*received.after)?;
        let text = std::str::from_utf8(text).ok().filter(|text| text.starts_with('"'))?;
        let raw = JsonReader::new(text).value().ok()?;
        // What follows it would not be part of the value.
        if raw.get().len() != text.len() {
            return None;
        }
        self.misses = 0;
        Some(OnlyText { index: *index, kind: *kind, raw })
    }

    /// Appends the event with the text that [`text_in`](Self::text_in) has returned, as the client gets it.
    pub(super) fn append(&self, text: &OnlyText<'_>, out: &mut BytesMut) {
        let Some(Sample { received, sent, .. }) = self.sample.as_deref() else { return };
        let AroundText { before, after } = sent.as_ref().unwrap_or(received);
        out.extend_from_slice(before);
        out.extend_from_slice(text.raw.get().as_bytes());
        out.extend_from_slice(after);
    }

    /// Keeps an event of one data line, which has only `text`, in the range `text_range`. The client gets `model` in
    /// place of the range `renamed`.
    pub(super) fn learn(
        &mut self,
        event: &[u8],
        text: &OnlyText<'_>,
        text_range: Range<usize>,
        renamed: Option<Range<usize>>,
        model: &str,
    ) {
        if self.misses == MAX_MISSES || event.len() > MAX_EVENT_BYTES {
            self.sample = None;
            return;
        }
        self.misses += 1;
        let (before, after) = (&event[..text_range.start], &event[text_range.end..]);
        let sent = renamed.map(|Range { start, end }| {
            let renamed = |part: &[u8], range: Range<usize>| {
                [&part[..range.start], model.as_bytes(), &part[range.end..]].concat()
            };
            if end <= text_range.start {
                AroundText { before: renamed(before, start..end), after: after.to_vec() }
            } else {
                let range = start - text_range.end..end - text_range.end;
                AroundText { before: before.to_vec(), after: renamed(after, range) }
            }
        });
        let received = AroundText { before: before.to_vec(), after: after.to_vec() };
        let sample = Sample { index: text.index, kind: text.kind, received, sent };
        self.sample = Some(Box::new(sample));
    }
}
