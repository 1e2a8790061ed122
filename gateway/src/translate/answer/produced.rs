//! What an answer holds, for a count of its tokens.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::slots::Slot;
use super::text::{encode, inner};
use crate::wire::first_byte;

/// What a model has produced. Made when asked for, since nearly every upstream counts for us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Produced {
    /// Text, refusals included, as JSON text without its quotes.
    pub content: String,
    /// Reasoning, as JSON text without its quotes.
    pub reasoning: String,
    /// Calls, a line each: a JSON array of the name and the arguments, both strings.
    pub calls: String,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow, default)]
    content: Vec<Part<'a>>,
    #[serde(borrow, default)]
    summary: Vec<Part<'a>>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
}

impl Produced {
    /// Reads items, a comma between, as this gateway writes them.
    pub(super) fn of_items(items: &[u8]) -> Self {
        let mut produced = Self::default();
        let json = listed(items);
        let items: Vec<Item<'_>> = serde_json::from_str(&json).expect("these are our own items");
        for item in items {
            if item.kind == "reasoning" {
                push_texts(&mut produced.reasoning, &item.summary);
                push_texts(&mut produced.reasoning, &item.content);
            } else if let Some(arguments) = item.arguments.or(item.input) {
                let name = item.name.map_or("tool_search", inner);
                if first_byte(arguments) == b'"' {
                    produced.add_call(name, inner(arguments));
                } else {
                    produced.add_call(name, &encode(arguments.get()));
                }
            } else {
                push_texts(&mut produced.content, &item.content);
            }
        }
        produced
    }

    /// Adds a message's parts, a comma between.
    pub(super) fn add_parts(&mut self, parts: &[u8]) {
        let json = listed(parts);
        let parts: Vec<Part<'_>> = serde_json::from_str(&json).expect("these are our own parts");
        push_texts(&mut self.content, &parts);
    }

    /// Adds a call that is not done.
    pub(super) fn add_slot(&mut self, slot: &Slot) {
        self.add_call(&encode(&slot.name), slot.arguments.as_str());
    }

    fn add_call(&mut self, name: &str, arguments: &str) {
        for piece in ["[\"", name, "\",\"", arguments, "\"]\n"] {
            self.calls.push_str(piece);
        }
    }
}

fn listed(json: &[u8]) -> String {
    format!("[{}]", std::str::from_utf8(json).expect("made of texts"))
}

fn push_texts(to: &mut String, parts: &[Part<'_>]) {
    for text in parts.iter().filter_map(|part| part.text.or(part.refusal)) {
        to.push_str(inner(text));
    }
}
