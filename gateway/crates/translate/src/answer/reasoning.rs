//! A reasoning item (`R-8`, `R-9`, `S-9`).

use bytes::BytesMut;

use super::events::{Events, Place, Status, put, quoted, string};
use super::text::Text;
use crate::plan::{ReasoningOutput, ReasoningSealer};
use domain::wire::text::decode;

/// Reasoning that is open.
#[derive(Debug)]
pub(super) struct Reasoning {
    place: Place,
    shown: ReasoningOutput,
    text: Text,
}

/// The names that each family of events has for the same things.
struct Family {
    part_added: &'static str,
    delta: &'static str,
    text_done: &'static str,
    part_done: &'static str,
    index: &'static str,
    part: &'static str,
}

const SUMMARY: Family = Family {
    part_added: "response.reasoning_summary_part.added",
    delta: "response.reasoning_summary_text.delta",
    text_done: "response.reasoning_summary_text.done",
    part_done: "response.reasoning_summary_part.done",
    index: ",\"summary_index\":0",
    part: "{\"type\":\"summary_text\",\"text\":",
};

const CONTENT: Family = Family {
    part_added: "response.content_part.added",
    delta: "response.reasoning_text.delta",
    text_done: "response.reasoning_text.done",
    part_done: "response.content_part.done",
    index: ",\"content_index\":0",
    part: "{\"type\":\"reasoning_text\",\"text\":",
};

impl Family {
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

impl Reasoning {
    pub(super) fn open(place: Place, shown: ReasoningOutput, events: &mut Events<'_>) -> Self {
        let reasoning = Self { place, shown, text: Text::default() };
        events.item("response.output_item.added", reasoning.place.index, |out| {
            reasoning.write_head(out, Status::InProgress);
            put(
                out,
                match shown {
                    ReasoningOutput::Content => ",\"summary\":[],\"content\":[]}",
                    _ => ",\"summary\":[]}",
                },
            );
        });
        if let Some(family) = Family::of(shown) {
            events.write_at(&reasoning.place, family.part_added, |out| {
                put(out, family.index);
                put(out, ",\"part\":");
                family.write_part(out, "");
            });
        }
        reasoning
    }

    pub(super) fn push(&mut self, piece: &str, events: &mut Events<'_>) {
        let delta = self.text.push(piece);
        write_delta(&self.place, self.shown, delta, events);
    }

    /// Ends it; `output` gets the item, sealed too if there is a sealer.
    pub(super) fn close(
        mut self,
        status: Status,
        sealer: Option<&dyn ReasoningSealer>,
        output: &mut BytesMut,
        events: &mut Events<'_>,
    ) {
        write_delta(&self.place, self.shown, self.text.finish(), events);
        let text = self.text.take();
        if let Some(family) = Family::of(self.shown) {
            events.write_at(&self.place, family.text_done, |out| {
                put(out, family.index);
                quoted(out, ",\"text\":", &text);
            });
            events.write_at(&self.place, family.part_done, |out| {
                put(out, family.index);
                put(out, ",\"part\":");
                family.write_part(out, &text);
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
        events.item("response.output_item.done", self.place.index, |out| {
            out.extend_from_slice(&output[start..]);
        });
    }

    fn write_head(&self, out: &mut BytesMut, status: Status) {
        quoted(out, "{\"id\":", &self.place.id);
        quoted(out, ",\"type\":\"reasoning\",\"status\":", status.as_str());
    }
}

fn write_delta(place: &Place, shown: ReasoningOutput, delta: &str, events: &mut Events<'_>) {
    let Some(family) = Family::of(shown).filter(|_| !delta.is_empty()) else { return };
    events.write_at(place, family.delta, |out| {
        put(out, family.index);
        quoted(out, ",\"delta\":", delta);
    });
}
