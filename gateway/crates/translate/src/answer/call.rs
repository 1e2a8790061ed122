//! A call item: of a function, of a custom tool or of the client's tool search (`R-5`, `R-6`, `T-7` to
//! `T-10`).

use bytes::BytesMut;

use super::custom::{unwrap_input, write_search};
use super::events::{Events, ItemRef, ItemStatus, put, quoted};
use super::text::EscapedText;
use crate::plan::{Tool, ToolKind};
use domain::wire::text::{decode, encode};

/// A call that is open. Its arguments are its slot's.
#[derive(Debug)]
pub(super) struct CallItem {
    /// Whose it is.
    pub(super) slot: usize,
    item_ref: ItemRef,
    kind: ToolKind,
    /// What the client answers it by. This and the names are JSON text without quotes.
    id: String,
    name: String,
    namespace: Option<String>,
}

/// The prefix of the ids of a kind's items.
pub(super) const fn id_prefix(kind: ToolKind) -> &'static str {
    match kind {
        ToolKind::Function => "fc_",
        ToolKind::Custom => "ctc_",
        ToolKind::ToolSearch => "tsc_",
    }
}

impl CallItem {
    /// Begins a call of `tool`, which the client's declaration names (`T-7`), with the arguments that
    /// came so far.
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

    /// Shows what was appended to the arguments. Only a function's are shown as they come: the others
    /// are taken out of their wrapper first.
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

    /// Ends the call; `output` gets the item.
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
