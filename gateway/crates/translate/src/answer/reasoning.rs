//! A reasoning item (`R-8`, `R-9`, `S-9`).

use bytes::BytesMut;

use super::events::{Events, ItemRef, ItemStatus, put, quoted, string};
use super::text::EscapedText;
use crate::plan::{ReasoningOutput, ReasoningSealer};
use domain::wire::text::decode;

/// An open reasoning item.
#[derive(Debug)]
pub(super) struct ReasoningItem {
    item_ref: ItemRef,
    shown: ReasoningOutput,
    text: EscapedText,
}

/// The names that differ between the event families.
struct EventNames {
    part_added: &'static str,
    delta: &'static str,
    text_done: &'static str,
    part_done: &'static str,
    index: &'static str,
    part: &'static str,
}

const SUMMARY: EventNames = EventNames {
    part_added: "response.reasoning_summary_part.added",
    delta: "response.reasoning_summary_text.delta",
    text_done: "response.reasoning_summary_text.done",
    part_done: "response.reasoning_summary_part.done",
    index: ",\"summary_index\":0",
    part: "{\"type\":\"summary_text\",\"text\":",
};

const CONTENT: EventNames = EventNames {
    part_added: "response.content_part.added",
    delta: "response.reasoning_text.delta",
    text_done: "response.reasoning_text.done",
    part_done: "response.content_part.done",
    index: ",\"content_index\":0",
    part: "{\"type\":\"reasoning_text\",\"text\":",
};

impl EventNames {
    const fn of(shown: ReasoningOutput) -> Option<&'static Self> {
        match shown {
            ReasoningOutput::Summary => Some(&SUMMARY),
            ReasoningOutput::Content => Some(&CONTENT),
            ReasoningOutput::Hidden => None,
        }
    }

    fn write_part(&self, out: &mut BytesMut, text: &str) {
        quoted(out, self.part, text);
        put(out, "}");
    }
}

impl ReasoningItem {
    pub(super) fn open(item_ref: ItemRef, shown: ReasoningOutput, events: &mut Events<'_>) -> Self {
        let reasoning = Self { item_ref, shown, text: EscapedText::default() };
        events.item("response.output_item.added", reasoning.item_ref.index, |out| {
            reasoning.write_head(out, ItemStatus::InProgress);
            put(
                out,
                match shown {
                    ReasoningOutput::Content => ",\"summary\":[],\"content\":[]}",
                    _ => ",\"summary\":[]}",
                },
            );
        });
        if let Some(names) = EventNames::of(shown) {
            events.write_for_item(&reasoning.item_ref, names.part_added, |out| {
                put(out, names.index);
                put(out, ",\"part\":");
                names.write_part(out, "");
            });
        }
        reasoning
    }

    /// Returns the length of the text in bytes.
    pub(super) fn text_bytes(&self) -> usize {
        self.text.as_str().len()
    }

    pub(super) fn push(&mut self, piece: &str, events: &mut Events<'_>) {
        let delta = self.text.push(piece);
        write_delta(&self.item_ref, self.shown, delta, events);
    }

    /// Closes the item and appends it to `output`, with `encrypted_content` if there is a sealer.
    pub(super) fn close(
        mut self,
        status: ItemStatus,
        sealer: Option<&dyn ReasoningSealer>,
        output: &mut BytesMut,
        events: &mut Events<'_>,
    ) {
        write_delta(&self.item_ref, self.shown, self.text.finish(), events);
        let text = self.text.take();
        if let Some(names) = EventNames::of(self.shown) {
            events.write_for_item(&self.item_ref, names.text_done, |out| {
                put(out, names.index);
                quoted(out, ",\"text\":", &text);
            });
            events.write_for_item(&self.item_ref, names.part_done, |out| {
                put(out, names.index);
                put(out, ",\"part\":");
                names.write_part(out, &text);
            });
        }
        let start = output.len();
        self.write_head(output, status);
        match self.shown {
            ReasoningOutput::Summary => {
                put(output, ",\"summary\":[");
                SUMMARY.write_part(output, &text);
                put(output, "]");
            }
            ReasoningOutput::Content => {
                put(output, ",\"summary\":[],\"content\":[");
                CONTENT.write_part(output, &text);
                put(output, "]");
            }
            ReasoningOutput::Hidden => put(output, ",\"summary\":[]"),
        }
        if let Some(sealer) = sealer {
            put(output, ",\"encrypted_content\":");
            string(output, &sealer.seal(&decode(&text)));
        }
        put(output, "}");
        events.item("response.output_item.done", self.item_ref.index, |out| {
            out.extend_from_slice(&output[start..]);
        });
    }

    fn write_head(&self, out: &mut BytesMut, status: ItemStatus) {
        quoted(out, "{\"id\":", &self.item_ref.id);
        quoted(out, ",\"type\":\"reasoning\",\"status\":", status.as_str());
    }
}

fn write_delta(item_ref: &ItemRef, shown: ReasoningOutput, delta: &str, events: &mut Events<'_>) {
    let Some(names) = EventNames::of(shown).filter(|_| !delta.is_empty()) else { return };
    events.write_for_item(item_ref, names.delta, |out| {
        put(out, names.index);
        quoted(out, ",\"delta\":", delta);
    });
}
