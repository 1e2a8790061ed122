//! Sources and wire names of tools.

use serde_json::json;

use super::super::wire_name;
use super::{function, functions, names};
use crate::plan::{Tool, ToolKind};
use crate::request::tests::{chat, generic, refused, request, translate};
use domain::refusal::RequestFault::InvalidValue;

#[test]
fn tools_are_collected_from_all_lists_in_order() {
    // T-2, I-14
    let members = json!({
        "tools": [function("a")],
        "additional_tools": [function("b")],
        "input": [
            {"type": "additional_tools", "role": "developer", "tools": [function("c"), function("a")]},
            {"role": "user", "content": "hi"},
            {"type": "additional_tools", "role": "developer", "tools": [function("d")]},
        ],
    });
    let sent = chat(&members, &generic());
    let names: Vec<_> =
        sent["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    assert_eq!(names, ["a", "b", "c", "d"]);
    assert_eq!(sent["messages"], json!([{"role": "user", "content": "hi"}]));
    let echo = translate(&request(&members), &generic()).unwrap().plan.echo.clone();
    assert!(!echo.contains("\"name\":\"b\""), "only `tools` is repeated: {echo}");
}

#[test]
fn a_duplicate_tool_keeps_the_first_position_and_the_newest_definition() {
    // T-2
    let described =
        |description: &str| json!({"type": "function", "name": "f", "description": description});
    let tools = json!([described("old"), function("g"), described("new")]);
    let functions = functions(&tools, &generic());
    assert_eq!((&functions[0]["name"], &functions[0]["description"]), (&json!("f"), &json!("new")));
    assert_eq!(functions.as_array().unwrap().len(), 2);
    let tools = json!([
        {"type": "namespace", "name": "n", "tools": [function("f")]},
        {"type": "namespace", "name": "n", "tools": [function("f"), function("g")]},
    ]);
    assert_eq!(names(&tools, &generic()), ["n__f", "n__g"]);
}

#[test]
fn two_tools_with_one_wire_name_are_refused() {
    // T-3
    for (tools, param) in [
        (json!([function("f"), {"type": "custom", "name": "f"}]), "tools[1]"),
        (
            json!([function("n__f"), {"type": "namespace", "name": "n", "tools": [function("f")]}]),
            "tools[1].tools[0]",
        ),
        (
            json!([function("tool_search"), {"type": "tool_search", "execution": "client"}]),
            "tools[1]",
        ),
    ] {
        let message = refused(&json!({"tools": tools}), &generic(), (InvalidValue, param));
        assert!(message.contains("tool name collision"), "{message}");
    }
}

#[test]
fn namespace_members_have_qualified_wire_names() {
    // T-6
    let long = "l".repeat(40);
    for (namespace, name, expected) in [
        (None, "f", "f"),
        (Some("n"), "f", "n__f"),
        (Some("mcp__x__"), "f", "mcp__x__f"),
        (Some("n"), "n_f", "n_f"),
    ] {
        assert_eq!(wire_name(namespace, name), expected);
    }
    let short = wire_name(Some(&long), &long.replace('l', "k"));
    assert_eq!(short.len(), 64);
    assert!(short.starts_with(&format!("{long}__kkkkkkkkkkkkk_")), "{short}");
    assert_ne!(short, wire_name(Some(&long), &long.replace('l', "m")));
    assert_eq!(wire_name(Some("ü"), &"ö".repeat(80)).chars().count(), 64, "cut between characters");
}

#[test]
fn the_plan_maps_wire_names_to_tools() {
    // T-7
    let tools = json!([
        function("f"),
        {"type": "namespace", "name": "n", "tools": [function("f"), {"type": "custom", "name": "c"}]},
        {"type": "tool_search", "execution": "client"},
    ]);
    let plan = translate(&request(&json!({"tools": tools})), &generic()).unwrap().plan;
    let tool = |kind, namespace: Option<&str>, name: &str| Tool {
        kind,
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    };
    for (wire_name, expected) in [
        ("f", tool(ToolKind::Function, None, "f")),
        ("n__f", tool(ToolKind::Function, Some("n"), "f")),
        ("n__c", tool(ToolKind::Custom, Some("n"), "c")),
        ("tool_search", tool(ToolKind::ToolSearch, None, "tool_search")),
    ] {
        assert_eq!(plan.tools.find(wire_name), Some(&expected));
    }
    assert_eq!(plan.tools.wire_names().count(), 4);
}

#[test]
fn tools_found_by_a_search_are_declared() {
    // T-10
    let found = json!([
        {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f", "defer_loading": true}]},
    ]);
    let members = json!({
        "tools": [{"type": "tool_search", "execution": "client"}],
        "input": [
            {"role": "user", "content": "hi"},
            {"type": "tool_search_call", "call_id": "c1", "execution": "client", "arguments": {"query": "x"}},
            {"type": "tool_search_output", "call_id": "c1", "execution": "client", "tools": found},
            {"type": "tool_search_call", "call_id": "c2", "arguments": {}},
            {"type": "tool_search_output", "call_id": "c2", "tools": []},
        ],
    });
    let sent = chat(&members, &generic());
    let names: Vec<_> =
        sent["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    assert_eq!(names, ["tool_search", "n__f"]);
    let query = json!({"type": "object", "required": ["query"],
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}}});
    assert_eq!(sent["tools"][0]["function"]["parameters"], query);
    assert_eq!(sent["messages"][1]["tool_calls"][0]["function"]["arguments"], "{\"query\":\"x\"}");
    assert_eq!(sent["messages"][2]["content"], "These tools can be called now: n__f");
    assert_eq!(sent["messages"][4]["content"], "No tools were found.");
}
