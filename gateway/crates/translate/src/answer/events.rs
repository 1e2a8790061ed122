//! Writes server-sent events directly into the output buffer, without intermediate values.

use bytes::{BufMut, BytesMut};

/// The reserved size of an event without its text, in bytes.
const FRAME: usize = 320;

/// Writes events and counts them.
pub(super) struct Events<'a> {
    /// The output and the next sequence number; `None` discards events, as for a non-streaming
    /// answer.
    target: Option<(&'a mut BytesMut, &'a mut u64)>,
}

/// Identifies the item that an event belongs to.
#[derive(Debug)]
pub(super) struct ItemRef {
    /// The item id.
    pub(super) id: String,
    /// The `output_index`.
    pub(super) index: u32,
}

/// The `status` of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemStatus {
    InProgress,
    Completed,
    Incomplete,
}

impl ItemStatus {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Incomplete => "incomplete",
        }
    }
}

impl<'a> Events<'a> {
    /// Appends events to `out`; `sequence` is the next `sequence_number`.
    pub(super) fn new(out: &'a mut BytesMut, sequence: &'a mut u64) -> Self {
        Self { target: Some((out, sequence)) }
    }

    /// Discards all events.
    pub(super) fn discarded() -> Self {
        Self { target: None }
    }

    /// Writes an event (`S-2`, `S-3`). `fields` writes the remaining members, each after a comma.
    pub(super) fn write(&mut self, name: &str, fields: impl FnOnce(&mut BytesMut)) {
        let Some((out, sequence)) = &mut self.target else { return };
        out.reserve(FRAME);
        put(out, "event: ");
        put(out, name);
        put(out, "\ndata: {\"type\":\"");
        put(out, name);
        put(out, "\",\"sequence_number\":");
        number(out, **sequence);
        **sequence += 1;
        fields(out);
        put(out, "}\n\n");
    }

    /// Writes an event with the `item_id` and `output_index` of an item.
    pub(super) fn write_for_item(
        &mut self,
        item_ref: &ItemRef,
        name: &str,
        fields: impl FnOnce(&mut BytesMut),
    ) {
        self.write(name, |out| {
            put(out, ",\"item_id\":\"");
            put(out, &item_ref.id);
            put(out, "\",\"output_index\":");
            number(out, item_ref.index);
            fields(out);
        });
    }

    /// Writes `output_item.added` or `output_item.done`; `item` writes the item.
    pub(super) fn item(&mut self, name: &str, index: u32, item: impl FnOnce(&mut BytesMut)) {
        self.write(name, |out| {
            put(out, ",\"output_index\":");
            number(out, index);
            put(out, ",\"item\":");
            item(out);
        });
    }
}

/// Appends text.
pub(super) fn put(out: &mut BytesMut, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// Appends a number.
pub(super) fn number(out: &mut BytesMut, number: impl itoa::Integer) {
    put(out, itoa::Buffer::new().format(number));
}

/// Appends `name` and a string value, which must be JSON-escaped already.
pub(super) fn quoted(out: &mut BytesMut, name: &str, escaped: &str) {
    put(out, name);
    put(out, "\"");
    put(out, escaped);
    put(out, "\"");
}

/// Appends text as a JSON string.
pub(super) fn string(out: &mut BytesMut, text: &str) {
    serde_json::to_writer(out.writer(), text).expect("strings always serialise");
}
