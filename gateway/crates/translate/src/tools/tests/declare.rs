//! Declarations of tools in a chat request.

use serde_json::json;

use super::functions;
use crate::request::tests::{generic, losses, options, refused};
use domain::refusal::RequestFault::{InvalidType, InvalidValue, MissingRequiredParameter};
use domain::upstream::Profile;

#[test]
fn a_function_is_nested() {
    let none = json!({"type": "object", "properties": {}});
    for (rule, tool, expected) in [
        ("T-1", json!({"name": "f"}), json!({"name": "f", "parameters": none})),
        (
            "T-1",
            json!({"name": "f", "description": null, "parameters": null}),
            json!({"name": "f", "parameters": none}),
        ),
        (
            "T-1",
            json!({"name": "f", "description": "d", "parameters": {}}),
            json!({"name": "f", "description": "d", "parameters": none}),
        ),
        (
            "T-1",
            json!({"name": "f", "parameters": {"properties": {"a": true}}}),
            json!({"name": "f", "parameters": {"type": "object", "properties": {"a": true}}}),
        ),
        (
            "T-1",
            json!({"name": "f", "parameters": {"type": "object", "$defs": {"a": {"$ref": "#"}}}}),
            json!({"name": "f", "parameters": {"type": "object", "$defs": {"a": {"$ref": "#"}}}}),
        ),
        (
            "T-1",
            json!({"function": {"name": "f", "description": "d"}}),
            json!({"name": "f", "description": "d", "parameters": none}),
        ),
        (
            "T-1b",
            json!({"name": "f", "strict": true}),
            json!({"name": "f", "parameters": none, "strict": true}),
        ),
        (
            "T-1b",
            json!({"name": "f", "strict": false}),
            json!({"name": "f", "parameters": none, "strict": false}),
        ),
        ("T-1b", json!({"name": "f", "strict": null}), json!({"name": "f", "parameters": none})),
        (
            "T-4",
            json!({"name": "f", "output_schema": {}, "allowed_callers": ["direct", "x"], "defer_loading": false, "async": false}),
            json!({"name": "f", "parameters": none}),
        ),
    ] {
        let mut tool = tool;
        tool["type"] = json!("function");
        assert_eq!(functions(&json!([tool]), &generic()), json!([expected]), "{rule}: {tool}");
    }
}

#[test]
fn strict_is_sent_only_if_the_dialect_supports_it() {
    // T-1b
    let tools = json!([{"type": "function", "name": "f", "strict": true},
        {"type": "function", "name": "g", "strict": false}]);
    let vllm = options(Profile::Vllm);
    for function in functions(&tools, &vllm).as_array().unwrap() {
        assert_eq!(function.get("strict"), None);
    }
    assert_eq!(losses(&json!({"tools": tools}), &vllm).as_deref(), Some("strict_not_enforced=f"));
}

#[test]
fn invalid_tools_are_refused_by_path() {
    for (rule, tool, code, param) in [
        ("T-1", json!({"type": "function"}), MissingRequiredParameter, "tools[0].name"),
        ("T-1", json!({"type": "function", "name": "a b"}), InvalidValue, "tools[0].name"),
        ("T-1", json!({"type": "function", "name": "x".repeat(65)}), InvalidValue, "tools[0].name"),
        ("T-1", json!({"type": "function", "name": 1}), InvalidType, "tools[0].name"),
        (
            "T-1",
            json!({"type": "function", "name": "f", "parameters": []}),
            InvalidType,
            "tools[0].parameters",
        ),
        (
            "T-1",
            json!({"type": "function", "name": "f", "description": 1}),
            InvalidType,
            "tools[0].description",
        ),
        (
            "T-1b",
            json!({"type": "function", "name": "f", "strict": "yes"}),
            InvalidType,
            "tools[0].strict",
        ),
        ("T-1", json!("function"), InvalidType, "tools[0]"),
        ("T-5", json!({"type": 1}), InvalidType, "tools[0].type"),
        (
            "T-6",
            json!({"type": "namespace", "name": "n"}),
            MissingRequiredParameter,
            "tools[0].tools",
        ),
        (
            "T-6",
            json!({"type": "namespace", "name": "n.m", "tools": []}),
            InvalidValue,
            "tools[0].name",
        ),
        (
            "T-6",
            json!({"type": "namespace", "name": "n", "tools": [{"type": "function"}]}),
            MissingRequiredParameter,
            "tools[0].tools[0].name",
        ),
        (
            "T-8",
            json!({"type": "custom", "name": "c", "format": {"type": "xml"}}),
            InvalidValue,
            "tools[0].format.type",
        ),
        (
            "T-8",
            json!({"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "lark"}}),
            MissingRequiredParameter,
            "tools[0].format.definition",
        ),
    ] {
        println!("{rule}");
        refused(&json!({"tools": [tool]}), &generic(), (code, param));
    }
}

#[test]
fn a_custom_tool_becomes_a_function_with_one_text_argument() {
    // T-8
    let tools = json!([
        {"type": "custom", "name": "a", "description": "Does a."},
        {"type": "custom", "name": "b", "format": {"type": "grammar", "syntax": "lark", "definition": "start: x\nx: \"y\""}},
    ]);
    let schema = json!({"type": "object", "properties": {"input": {"type": "string"}},
        "required": ["input"], "additionalProperties": false});
    let rule = "Put the raw text, unmodified and not quoted in any way, into `input`.";
    let expected = json!([
        {"name": "a", "description": format!("Does a.\n\n{rule}"), "parameters": schema},
        {"name": "b", "parameters": schema,
            "description": format!("{rule}\n\nThe text must follow this grammar (lark):\nstart: x\nx: \"y\"")},
    ]);
    assert_eq!(functions(&tools, &generic()), expected);
    assert_eq!(
        losses(&json!({"tools": tools}), &generic()).as_deref(),
        Some("grammar_not_enforced=b")
    );
}
