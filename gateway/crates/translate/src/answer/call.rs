//! A call item: of a function, of a custom tool or of the client's tool search (`R-5`, `R-6`, `T-7`
//! to `T-10`).

use bytes::BytesMut;

use super::custom::{unwrap_input, write_search};
use super::events::{Events, ItemRef, ItemStatus, put, quoted};
use super::text::EscapedText;
use crate::plan::{Tool, ToolKind};
use domain::wire::text::{decode, encode};

/// An open call item. Its arguments are stored in its slot.
#[derive(Debug)]
pub(super) struct CallItem {
    /// The index of the slot in [`Slots`](super::slots::Slots).
    pub(super) slot: usize,
    item_ref: ItemRef,
    kind: ToolKind,
    /// The `call_id`. It and the names are JSON-escaped text without quotes.
    id: String,
    name: String,
    namespace: Option<String>,
}

/// Returns the prefix of the item ids of `kind`.
pub(super) const fn id_prefix(kind: ToolKind) -> &'static str {
    match kind {
        ToolKind::Function => "fc_",
        ToolKind::Custom => "ctc_",
        ToolKind::ToolSearch => "tsc_",
    }
}

impl CallItem {
    /// Opens the item of a call of `tool`, under the name that the client declared (`T-7`), and
    /// writes the arguments received so far.
    pub(super) fn open(
        slot: usize,
        item_ref: ItemRef,
        tool: &Tool,
        call_id: &str,
        arguments: &EscapedText,
        events: &mut Events<'_>,
    ) -> Self {
        let call = Self {
            slot,
            item_ref,
            kind: tool.kind,
            id: encode(call_id),
            name: encode(&tool.name),
            namespace: tool.namespace.as_deref().map(encode),
        };
        events.item("response.output_item.added", call.item_ref.index, |out| {
            call.write(out, ItemStatus::InProgress, "");
        });
        call.delta(arguments.as_str(), events);
        call
    }

    /// Writes a delta of the arguments. Only function calls stream their arguments; those of the
    /// other kinds must be unwrapped first and are written on close.
    pub(super) fn delta(&self, delta: &str, events: &mut Events<'_>) {
        if self.kind == ToolKind::Function && !delta.is_empty() {
            events.write_for_item(
                &self.item_ref,
                "response.function_call_arguments.delta",
                |out| {
                    quoted(out, ",\"delta\":", delta);
                },
            );
        }
    }

    /// Closes the item and appends it to `output`.
    pub(super) fn close(
        self,
        status: ItemStatus,
        arguments: &mut EscapedText,
        output: &mut BytesMut,
        events: &mut Events<'_>,
    ) {
        self.delta(arguments.finish(), events);
        if self.kind == ToolKind::Function && decode(arguments.as_str()).trim().is_empty() {
            self.delta(arguments.push("{}"), events);
        }
        let mut arguments = arguments.take();
        match self.kind {
            ToolKind::Function => {
                events.write_for_item(
                    &self.item_ref,
                    "response.function_call_arguments.done",
                    |out| {
                        quoted(out, ",\"name\":", &self.name);
                        quoted(out, ",\"arguments\":", &arguments);
                    },
                );
            }
            ToolKind::Custom => {
                arguments = encode(&unwrap_input(&arguments));
                if !arguments.is_empty() {
                    events.write_for_item(
                        &self.item_ref,
                        "response.custom_tool_call_input.delta",
                        |out| {
                            quoted(out, ",\"delta\":", &arguments);
                        },
                    );
                }
                events.write_for_item(
                    &self.item_ref,
                    "response.custom_tool_call_input.done",
                    |out| {
                        quoted(out, ",\"input\":", &arguments);
                    },
                );
            }
            ToolKind::ToolSearch => {}
        }
        let start = output.len();
        self.write(output, status, &arguments);
        events.item("response.output_item.done", self.item_ref.index, |out| {
            out.extend_from_slice(&output[start..]);
        });
    }

    fn write(&self, out: &mut BytesMut, status: ItemStatus, arguments: &str) {
        quoted(out, "{\"id\":", &self.item_ref.id);
        let kind = match self.kind {
            ToolKind::Function => "function_call",
            ToolKind::Custom => "custom_tool_call",
            ToolKind::ToolSearch => "tool_search_call",
        };
        quoted(out, ",\"type\":", kind);
        quoted(out, ",\"status\":", status.as_str());
        quoted(out, ",\"call_id\":", &self.id);
        match self.kind {
            ToolKind::Function => {
                quoted(out, ",\"name\":", &self.name);
                quoted(out, ",\"arguments\":", arguments);
            }
            ToolKind::Custom => {
                quoted(out, ",\"name\":", &self.name);
                quoted(out, ",\"input\":", arguments);
            }
            ToolKind::ToolSearch => {
                put(out, ",\"execution\":\"client\",\"arguments\":");
                write_search(out, arguments);
            }
        }
        if let (Some(namespace), true) = (&self.namespace, self.kind != ToolKind::ToolSearch) {
            quoted(out, ",\"namespace\":", namespace);
        }
        put(out, "}");
    }
}
