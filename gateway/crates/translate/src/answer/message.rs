//! A message item: text and refusal parts (`R-1` to `R-4`).

use bytes::BytesMut;

use super::events::{Events, ItemRef, ItemStatus, number, put, quoted};
use super::text::EscapedText;

/// The type of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartKind {
    Text,
    Refusal,
}

/// An open message item.
#[derive(Debug)]
pub(super) struct MessageItem {
    item_ref: ItemRef,
    /// The closed parts as comma-separated JSON.
    done: BytesMut,
    /// The number of closed parts, which is the `content_index` of the next one.
    count: u32,
    part: Option<OpenPart>,
}

/// An open part.
#[derive(Debug)]
struct OpenPart {
    kind: PartKind,
    text: EscapedText,
    /// Comma-separated JSON.
    annotations: BytesMut,
    annotation_count: u32,
    /// Comma-separated JSON.
    logprobs: String,
}

impl MessageItem {
    pub(super) fn open(item_ref: ItemRef, events: &mut Events<'_>) -> Self {
        let message = Self { item_ref, done: BytesMut::new(), count: 0, part: None };
        events.item("response.output_item.added", message.item_ref.index, |out| {
            message.write(out, ItemStatus::InProgress);
        });
        message
    }

    /// Returns the length of the closed parts in bytes.
    pub(super) fn done_bytes(&self) -> usize {
        self.done.len()
    }

    /// Returns the length of all parts in bytes, metadata of the open one excluded.
    pub(super) fn text_bytes(&self) -> usize {
        self.done.len() + self.part.as_ref().map_or(0, |part| part.text.as_str().len())
    }

    /// Appends text; closes the open part first if it is of another kind.
    pub(super) fn push(
        &mut self,
        kind: PartKind,
        piece: &str,
        logprobs: &str,
        events: &mut Events<'_>,
    ) {
        if self.part.as_ref().is_none_or(|part| part.kind != kind) {
            self.open_part(kind, events);
        }
        let Some(part) = &mut self.part else { return };
        if !logprobs.is_empty() {
            append_list(&mut part.logprobs, logprobs);
        }
        let delta = part.text.push(piece);
        if delta.is_empty() {
            return;
        }
        write_delta(&self.item_ref, self.count, kind, delta, logprobs, events);
    }

    /// Opens a part; closes the open one first.
    pub(super) fn open_part(&mut self, kind: PartKind, events: &mut Events<'_>) {
        self.close_part(events);
        let part = OpenPart {
            kind,
            text: EscapedText::default(),
            annotations: BytesMut::new(),
            annotation_count: 0,
            logprobs: String::new(),
        };
        events.write_for_item(&self.item_ref, "response.content_part.added", |out| {
            self.write_index(out);
            put(out, ",\"part\":");
            part.write(out);
        });
        self.part = Some(part);
    }

    /// Appends annotations, each as JSON, to the open text part, if there is one.
    pub(super) fn annotate(&mut self, annotations: &[String], events: &mut Events<'_>) {
        let Some(part) = self.part.as_mut().filter(|part| part.kind == PartKind::Text) else {
            return;
        };
        for annotation in annotations {
            events.write_for_item(&self.item_ref, "response.output_text.annotation.added", |out| {
                put(out, ",\"content_index\":");
                number(out, self.count);
                put(out, ",\"annotation_index\":");
                number(out, part.annotation_count);
                put(out, ",\"annotation\":");
                put(out, annotation);
            });
            if part.annotation_count > 0 {
                put(&mut part.annotations, ",");
            }
            put(&mut part.annotations, annotation);
            part.annotation_count += 1;
        }
    }

    /// Appends log probabilities that arrived without text.
    pub(super) fn add_logprobs(&mut self, logprobs: &str) {
        if let Some(part) = self.part.as_mut().filter(|part| part.kind == PartKind::Text) {
            append_list(&mut part.logprobs, logprobs);
        }
    }

    /// Closes the message and appends it to `output`.
    pub(super) fn close(
        mut self,
        status: ItemStatus,
        output: &mut BytesMut,
        events: &mut Events<'_>,
    ) {
        self.close_part(events);
        let start = output.len();
        self.write(output, status);
        events.item("response.output_item.done", self.item_ref.index, |out| {
            out.extend_from_slice(&output[start..]);
        });
    }

    fn close_part(&mut self, events: &mut Events<'_>) {
        let Some(mut part) = self.part.take() else { return };
        let rest = part.text.finish();
        if !rest.is_empty() {
            write_delta(&self.item_ref, self.count, part.kind, rest, "", events);
        }
        let name = match part.kind {
            PartKind::Text => "response.output_text.done",
            PartKind::Refusal => "response.refusal.done",
        };
        events.write_for_item(&self.item_ref, name, |out| {
            self.write_index(out);
            match part.kind {
                PartKind::Text => {
                    quoted(out, ",\"text\":", part.text.as_str());
                    put(out, ",\"logprobs\":[");
                    put(out, &part.logprobs);
                    put(out, "]");
                }
                PartKind::Refusal => quoted(out, ",\"refusal\":", part.text.as_str()),
            }
        });
        if self.count > 0 {
            put(&mut self.done, ",");
        }
        let start = self.done.len();
        part.write(&mut self.done);
        events.write_for_item(&self.item_ref, "response.content_part.done", |out| {
            self.write_index(out);
            put(out, ",\"part\":");
            out.extend_from_slice(&self.done[start..]);
        });
        self.count += 1;
    }

    fn write_index(&self, out: &mut BytesMut) {
        put(out, ",\"content_index\":");
        number(out, self.count);
    }

    /// Writes the item with its closed parts.
    fn write(&self, out: &mut BytesMut, status: ItemStatus) {
        quoted(out, "{\"id\":", &self.item_ref.id);
        quoted(out, ",\"type\":\"message\",\"status\":", status.as_str());
        put(out, ",\"role\":\"assistant\",\"content\":[");
        out.extend_from_slice(&self.done);
        put(out, "]}");
    }
}

impl OpenPart {
    fn write(&self, out: &mut BytesMut) {
        match self.kind {
            PartKind::Text => {
                quoted(out, "{\"type\":\"output_text\",\"text\":", self.text.as_str());
                put(out, ",\"annotations\":[");
                out.extend_from_slice(&self.annotations);
                put(out, "],\"logprobs\":[");
                put(out, &self.logprobs);
                put(out, "]}");
            }
            PartKind::Refusal => {
                quoted(out, "{\"type\":\"refusal\",\"refusal\":", self.text.as_str());
                put(out, "}");
            }
        }
    }
}

/// Writes a text delta, the most frequent event of a stream.
fn write_delta(
    item_ref: &ItemRef,
    index: u32,
    kind: PartKind,
    delta: &str,
    logprobs: &str,
    events: &mut Events<'_>,
) {
    let name = match kind {
        PartKind::Text => "response.output_text.delta",
        PartKind::Refusal => "response.refusal.delta",
    };
    events.write_for_item(item_ref, name, |out| {
        put(out, ",\"content_index\":");
        number(out, index);
        quoted(out, ",\"delta\":", delta);
        if kind == PartKind::Text {
            put(out, ",\"logprobs\":[");
            put(out, logprobs);
            put(out, "]");
        }
    });
}

/// Appends to a comma-separated list.
pub(super) fn append_list(list: &mut String, more: &str) {
    if !list.is_empty() && !more.is_empty() {
        list.push(',');
    }
    list.push_str(more);
}
