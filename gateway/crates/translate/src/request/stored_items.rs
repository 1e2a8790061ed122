//! Normalizes the input items of a request for the response store and `GET …/input_items` (§9.5).

use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::super::path::Path;
use super::super::raw::{Object, ObjectWriter, raw_value, string};
use super::item::Item;
use super::{Input, Request};
use domain::wire::json::RawJson;

/// An input item to store.
#[derive(Clone, Debug)]
pub struct InputItem {
    /// The item id: the client's or a generated one.
    pub id: String,
    /// The item, with that id.
    pub json: Box<RawValue>,
}

impl Request<'_> {
    /// Returns the input items in normalized form: each with `type` and `id`, messages with an
    /// array of parts. References are replaced by the items in `references`, or left out if absent
    /// there. Ids are unique; missing ids are generated from `seed`, which must be unique per
    /// request.
    pub fn input_items(
        &self,
        seed: u128,
        references: &HashMap<String, Box<RawValue>>,
    ) -> Vec<InputItem> {
        let items = match &self.input {
            Input::Text(text) => {
                let mut part = ObjectWriter::default();
                part.put("type", "input_text");
                part.put("text", text.as_ref());
                let id = generate_id("msg", seed, 0);
                let mut message = ObjectWriter::default();
                message.put("id", &id);
                message.put("type", "message");
                message.put("status", "completed");
                message.put("role", "user");
                message.put_json("content", &format!("[{}]", part.into_object()));
                return vec![InputItem { id, json: raw_value(message.into_object()) }];
            }
            Input::Items(items) => items,
        };
        let mut used_ids = HashSet::new();
        let items = items.iter().enumerate().filter_map(|(index, (item, raw))| {
            let raw: RawJson<'_> = match item {
                Item::Reference(id) => RawJson::from(&**references.get(id.as_ref())?),
                _ => *raw,
            };
            normalize(raw, &mut used_ids, |prefix| generate_id(prefix, seed, index))
        });
        items.collect()
    }
}

/// Returns an item in normalized form; `None` if it is malformed.
fn normalize(
    raw: RawJson<'_>,
    used_ids: &mut HashSet<String>,
    make_id: impl FnOnce(&str) -> String,
) -> Option<InputItem> {
    let object = Object::read(raw, Path::Root).ok()?;
    let kind = object.string("type").ok()?.unwrap_or("message".into());
    let id = match object.string("id").ok()? {
        Some(id) if !id.is_empty() && used_ids.insert(id.clone().into_owned()) => id.into_owned(),
        _ => make_id(prefix(&kind)),
    };
    let mut item = ObjectWriter::default();
    item.put("id", &id);
    item.put("type", kind.as_ref());
    let has_status = matches!(kind.as_ref(), "message" | "reasoning") || kind.contains("call");
    if has_status && object.get("status").is_none() {
        item.put("status", "completed");
    }
    let assistant = object.get("role").map(RawJson::get) == Some("\"assistant\"");
    for (name, value) in object.members() {
        let value = *value;
        match (kind.as_ref(), name.as_ref()) {
            (_, "id" | "type") => {}
            (_, "status" | "output") if value.is_null() => {}
            ("message", "content") => item.put_json("content", &content(value, assistant)?),
            ("function_call", "arguments") if value.first_byte() != b'"' => {
                item.put("arguments", value.get());
            }
            _ => item.put_json(name, value.get()),
        }
    }
    for (of, name, absent) in [
        ("function_call", "arguments", "\"{}\""),
        ("function_call_output", "output", "\"\""),
        ("custom_tool_call_output", "output", "\"\""),
        ("reasoning", "summary", "[]"),
    ] {
        let is_absent = object.get(name).is_none() && (name == "output" || !object.has(name));
        if kind == of && is_absent {
            item.put_json(name, absent);
        }
    }
    Some(InputItem { id, json: raw_value(item.into_object()) })
}

/// Returns the content of a message as an array of parts; assistant parts have all their keys.
fn content(raw: RawJson<'_>, assistant: bool) -> Option<String> {
    let kind = if assistant { "output_text" } else { "input_text" };
    if raw.first_byte() == b'"' {
        let text = string(raw, &Path::Root).ok()?;
        return Some(format!("[{}]", text_part(kind, &text)));
    }
    let mut parts = Vec::new();
    for raw in super::super::raw::elements(raw, &Path::Root).ok()? {
        let part = Object::read(raw, Path::Root).ok()?;
        let part_type = part.string("type").ok()??;
        let part_type = if part_type == "text" { kind } else { &part_type };
        let mut members = ObjectWriter::default();
        members.put("type", part_type);
        for (name, value) in part.members().iter().filter(|(name, _)| name != "type") {
            members.put_json(name, value.get());
        }
        for name in ["annotations", "logprobs"] {
            if part_type == "output_text" && !part.has(name) {
                members.put_json(name, "[]");
            }
        }
        parts.push(members.into_object());
    }
    Some(format!("[{}]", parts.join(",")))
}

fn text_part(kind: &str, text: &str) -> String {
    let mut part = ObjectWriter::default();
    part.put("type", kind);
    part.put("text", text);
    if kind == "output_text" {
        part.put_json("annotations", "[]");
        part.put_json("logprobs", "[]");
    }
    part.into_object()
}

fn prefix(kind: &str) -> &'static str {
    match kind {
        "message" => "msg",
        "function_call" => "fc",
        "function_call_output" => "fco",
        "custom_tool_call" => "ctc",
        "custom_tool_call_output" => "ctco",
        "reasoning" => "rs",
        "tool_search_call" => "tsc",
        "tool_search_output" => "tso",
        "additional_tools" => "at",
        _ => "item",
    }
}

/// Returns an id of 32 hexadecimal digits, distinct from other ids generated from the same seed.
fn generate_id(prefix: &str, seed: u128, index: usize) -> String {
    let mut hash = Sha256::new_with_prefix(b"input item");
    hash.update(seed.to_be_bytes());
    hash.update(index.to_be_bytes());
    format!("{prefix}_{}", data_encoding::HEXLOWER.encode(&hash.finalize()[..16]))
}
