//! Tests of the rules of §3, a file per source file.

mod choice;
mod collect;
mod declare;
mod unsupported;

use serde_json::{Value, json};

use crate::request::TranslateOptions;
use crate::request::tests::chat;

/// Returns the functions that the tools become.
fn functions(tools: &Value, options: &TranslateOptions<'_>) -> Value {
    let sent = chat(&json!({"tools": tools}), options);
    let list = sent["tools"].as_array().cloned().unwrap_or_default();
    list.into_iter()
        .map(|mut tool| {
            assert_eq!(tool["type"], "function");
            tool["function"].take()
        })
        .collect()
}

fn names(tools: &Value, options: &TranslateOptions<'_>) -> Vec<String> {
    let functions = functions(tools, options);
    let names = functions.as_array().unwrap().iter();
    names.map(|function| function["name"].as_str().unwrap().to_owned()).collect()
}

fn function(name: &str) -> Value {
    json!({"type": "function", "name": name})
}
