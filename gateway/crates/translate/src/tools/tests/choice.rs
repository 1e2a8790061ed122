//! `tool_choice`.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::function;
use crate::request::TranslateOptions;
use crate::request::tests::{chat, generic, options, refused, request, translate};
use domain::refusal::RequestFault::{
    InvalidType, InvalidValue, MissingRequiredParameter, UnsupportedToolChoice,
};
use domain::upstream::Profile;

/// Returns the sent `tool_choice`, the names of the declared tools, and the allowed names.
fn chosen(
    choice: &Value,
    options: &TranslateOptions<'_>,
) -> (Value, Vec<String>, Option<HashSet<String>>) {
    let tools = json!([
        function("f"), {"type": "custom", "name": "c"},
        {"type": "namespace", "name": "n", "tools": [function("f")]},
    ]);
    let members = json!({"tools": tools, "tool_choice": choice});
    let sent = chat(&members, options);
    let list = sent["tools"].as_array().cloned().unwrap_or_default();
    let names = list.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned());
    let plan = translate(&request(&members), options).unwrap().plan;
    (sent["tool_choice"].clone(), names.collect(), plan.allowed.clone())
}

#[test]
fn a_tool_choice_becomes_its_chat_equivalent() {
    // §3.6
    let one = |name: &str| json!({"type": "function", "function": {"name": name}});
    for (choice, expected) in [
        (json!(null), json!(null)),
        (json!("auto"), json!("auto")),
        (json!("none"), json!("none")),
        (json!("required"), json!("required")),
        (json!({"type": "function", "name": "f"}), one("f")),
        (json!({"type": "function", "function": {"name": "f"}}), one("f")),
        (json!({"type": "function", "namespace": "n", "name": "f"}), one("n__f")),
        (json!({"type": "custom", "name": "c"}), one("c")),
    ] {
        let (sent, names, allowed) = chosen(&choice, &generic());
        assert_eq!((sent, allowed), (expected, None), "{choice}");
        assert_eq!(names, ["f", "c", "n__f"], "{choice}");
    }
}

#[test]
fn allowed_tools_restricts_the_declared_tools() {
    // §3.6
    let choice = json!({"type": "allowed_tools", "mode": "required", "tools": [
        {"type": "function", "name": "f"}, {"type": "custom", "name": "c"},
    ]});
    let both: HashSet<String> = ["f".to_owned(), "c".to_owned()].into();
    let (sent, names, allowed) = chosen(&choice, &generic());
    assert_eq!((sent, names), (json!("required"), vec!["f".to_owned(), "c".to_owned()]));
    assert_eq!(allowed.as_ref(), Some(&both));
    let (sent, names, allowed) = chosen(&choice, &options(Profile::OpenAi));
    let functions = json!([
        {"type": "function", "function": {"name": "f"}},
        {"type": "function", "function": {"name": "c"}},
    ]);
    let restricted = json!({"mode": "required", "tools": functions});
    assert_eq!(sent, json!({"type": "allowed_tools", "allowed_tools": restricted}));
    assert_eq!((names.len(), allowed), (3, Some(both)));
}

#[test]
fn an_invalid_tool_choice_is_refused() {
    // §3.6
    let f = json!({"type": "function", "name": "f"});
    let restricted =
        |mode: &str, tools: Value| json!({"type": "allowed_tools", "mode": mode, "tools": tools});
    for (choice, code, param) in [
        (json!("always"), InvalidValue, "tool_choice"),
        (json!(7), InvalidType, "tool_choice"),
        (json!({}), MissingRequiredParameter, "tool_choice.type"),
        (json!({"type": "function"}), MissingRequiredParameter, "tool_choice.name"),
        (json!({"type": "function", "name": "g"}), InvalidValue, "tool_choice"),
        (json!({"type": "custom", "name": "f"}), InvalidValue, "tool_choice"),
        (json!({"type": "tool_search"}), InvalidValue, "tool_choice"),
        (json!({"type": "web_search"}), UnsupportedToolChoice, "tool_choice"),
        (json!({"type": "mcp", "server_label": "x"}), UnsupportedToolChoice, "tool_choice"),
        (restricted("auto", json!([])), InvalidValue, "tool_choice.tools"),
        (restricted("auto", json!(vec![f.clone(); 129])), InvalidValue, "tool_choice.tools"),
        (
            restricted("auto", json!([{"type": "function", "name": "g"}])),
            InvalidValue,
            "tool_choice",
        ),
        (restricted("auto", json!([{"type": "mcp"}])), UnsupportedToolChoice, "tool_choice"),
        (restricted("some", json!([f])), InvalidValue, "tool_choice.mode"),
    ] {
        let members = json!({"tools": [f], "tool_choice": choice});
        refused(&members, &generic(), (code, param));
    }
    refused(&json!({"tool_choice": "required"}), &generic(), (InvalidValue, "tool_choice"));
    for choice in ["auto", "none"] {
        let sent = chat(
            &json!({"tools": [], "tool_choice": choice, "parallel_tool_calls": true}),
            &generic(),
        );
        assert_eq!((sent.get("tool_choice"), sent.get("parallel_tool_calls")), (None, None));
    }
}

#[test]
fn no_tool_choice_is_sent_if_the_dialect_ignores_it() {
    // §3.6
    let ollama = options(Profile::Ollama);
    let all = ["f", "c", "n__f"];
    assert_eq!(
        chosen(&json!("auto"), &ollama),
        (json!(null), all.map(str::to_owned).to_vec(), None)
    );
    assert_eq!(chosen(&json!("none"), &ollama), (json!(null), vec![], None));
    let f = json!({"type": "function", "name": "f"});
    for choice in [
        json!("required"),
        f.clone(),
        json!({"type": "allowed_tools", "mode": "required", "tools": [f]}),
    ] {
        let members = json!({"tools": [f], "tool_choice": choice});
        refused(&members, &ollama, (UnsupportedToolChoice, "tool_choice"));
    }
    let auto = json!({"type": "allowed_tools", "mode": "auto", "tools": [f]});
    let (sent, names, allowed) = chosen(&auto, &ollama);
    assert_eq!((sent, names), (json!(null), vec!["f".to_owned()]));
    assert!(allowed.is_some());
}
