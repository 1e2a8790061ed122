//! Rebuilds `output` from events as a client does, without the terminal event.

use serde_json::{Value, json};

/// Returns the items that the events describe; checks the order of the events.
pub(super) fn rebuild_output(events: &[Value]) -> Vec<Value> {
    let mut builder = OutputBuilder::default();
    for (at, event) in events.iter().enumerate() {
        let kind = event["type"].as_str().unwrap();
        match (at, kind) {
            (0, "response.created") | (1, "response.in_progress") => {
                assert_eq!(event["response"]["output"], json!([]));
                assert_eq!(event["response"]["status"], "in_progress");
            }
            (0 | 1, _) => panic!("{kind} comes before the first two"),
            (_, "response.completed" | "response.incomplete" | "response.failed") => {
                assert_eq!(at + 1, events.len(), "one terminal event, and it is the last");
                assert_eq!(event["response"]["id"], events[0]["response"]["id"]);
            }
            (_, "error") => assert_eq!(events[at + 1]["type"], "response.failed"),
            (_, "response.in_progress" | "keepalive") => {}
            _ => builder.event(kind, event),
        }
    }
    let failed = events.last().unwrap()["type"] == "response.failed";
    assert!(failed || builder.open.is_none(), "an item is still open");
    builder.done
}

#[derive(Default)]
struct OutputBuilder {
    /// The closed items.
    done: Vec<Value>,
    /// The index of the next item.
    next: u64,
    /// The open item (`S-8b`).
    open: Option<Value>,
    /// Whether a part of it is open.
    has_part: bool,
    /// The number of deltas of the open item.
    deltas: usize,
}

impl OutputBuilder {
    fn event(&mut self, kind: &str, event: &Value) {
        if kind == "response.output_item.added" {
            assert!(self.open.is_none(), "S-8b: one item is open at a time");
            assert_eq!(event["output_index"], self.next, "indexes have no gap and no repeat");
            assert_eq!(event["item"]["status"], "in_progress");
            (self.open, self.deltas, self.has_part) = (Some(event["item"].clone()), 0, false);
            self.next += 1;
            return;
        }
        let item = self.open.as_mut().unwrap_or_else(|| panic!("{kind} without an item"));
        assert_eq!(event["output_index"], self.next - 1);
        if kind != "response.output_item.done" {
            assert_eq!(event["item_id"], item["id"]);
        }
        if event.get("delta").is_some() {
            assert_ne!(event["delta"], "", "an empty delta");
            self.deltas += 1;
        }
        match kind {
            "response.content_part.added" => self.add_part("content", "content_index", event),
            "response.reasoning_summary_part.added" => {
                self.add_part("summary", "summary_index", event);
            }
            "response.output_text.delta" | "response.reasoning_text.delta" => {
                append(part(item, "content", event), "text", event);
            }
            "response.refusal.delta" => append(part(item, "content", event), "refusal", event),
            "response.reasoning_summary_text.delta" => {
                append(part(item, "summary", event), "text", event);
            }
            "response.output_text.annotation.added" => {
                let part = part(item, "content", event);
                let annotations = part["annotations"].as_array_mut().unwrap();
                assert_eq!(event["annotation_index"], annotations.len());
                annotations.push(event["annotation"].clone());
            }
            "response.output_text.done" => {
                let part = part(item, "content", event);
                assert_eq!(part["text"], event["text"]);
                part["logprobs"] = event["logprobs"].clone();
            }
            "response.reasoning_text.done" => {
                assert_eq!(part(item, "content", event)["text"], event["text"]);
            }
            "response.reasoning_summary_text.done" => {
                assert_eq!(part(item, "summary", event)["text"], event["text"]);
            }
            "response.refusal.done" => {
                assert_eq!(part(item, "content", event)["refusal"], event["refusal"]);
            }
            "response.content_part.done" => {
                assert_eq!(*part(item, "content", event), event["part"]);
                self.has_part = false;
            }
            "response.reasoning_summary_part.done" => {
                assert_eq!(*part(item, "summary", event), event["part"]);
                self.has_part = false;
            }
            "response.function_call_arguments.delta" => append(item, "arguments", event),
            "response.custom_tool_call_input.delta" => append(item, "input", event),
            "response.function_call_arguments.done" => {
                assert_eq!(item["arguments"], event["arguments"]);
                assert_eq!(item["name"], event["name"]);
            }
            "response.custom_tool_call_input.done" => assert_eq!(item["input"], event["input"]),
            "response.output_item.done" => self.close(event),
            other => panic!("no event of ours: {other}"),
        }
    }

    fn add_part(&mut self, list: &str, index: &str, event: &Value) {
        assert!(!self.has_part, "a part is open still");
        self.has_part = true;
        let parts = self.open.as_mut().unwrap()[list].as_array_mut().unwrap();
        assert_eq!(event[index], parts.len());
        parts.push(event["part"].clone());
    }

    fn close(&mut self, event: &Value) {
        assert!(!self.has_part, "a part is open still");
        let mut item = self.open.take().unwrap();
        let done = &event["item"];
        item["status"] = done["status"].clone();
        assert_ne!(item["status"], "in_progress");
        if done["type"] == "function_call" {
            assert_ne!(self.deltas, 0, "a call has one delta at least");
        }
        // Members without an event before `output_item.done`.
        if done["type"] == "tool_search_call" {
            item["arguments"] = done["arguments"].clone();
        }
        if let Some(sealed) = done.get("encrypted_content") {
            item["encrypted_content"] = sealed.clone();
        }
        assert_eq!(item, *done);
        self.done.push(item);
    }
}

fn part<'a>(item: &'a mut Value, list: &str, event: &Value) -> &'a mut Value {
    let index = if list == "summary" { "summary_index" } else { "content_index" };
    let index = usize::try_from(event[index].as_u64().unwrap()).unwrap();
    let parts = item[list].as_array_mut().unwrap();
    assert_eq!(index + 1, parts.len(), "only the last part grows");
    &mut parts[index]
}

fn append(to: &mut Value, field: &str, event: &Value) {
    let text = to[field].as_str().unwrap().to_owned() + event["delta"].as_str().unwrap();
    to[field] = text.into();
}
