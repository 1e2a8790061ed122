//! What the rules of §3 say, rule by rule.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::wire_name;
use crate::domain::refusal::RequestFault::{
    InvalidType, InvalidValue, MissingRequiredParameter, UnsupportedToolChoice, UnsupportedTools,
};
use crate::domain::upstream::Profile;
use crate::translate::plan::{Tool, ToolKind};
use crate::translate::request::tests::{chat, generic, losses, refused, request, terms, translate};
use crate::translate::request::{HostedTools, Terms};

/// The functions that these tools become.
fn functions(tools: &Value, terms: &Terms<'_>) -> Value {
    let sent = chat(&json!({"tools": tools}), terms);
    let list = sent["tools"].as_array().cloned().unwrap_or_default();
    list.into_iter()
        .map(|mut tool| {
            assert_eq!(tool["type"], "function");
            tool["function"].take()
        })
        .collect()
}

fn names(tools: &Value, terms: &Terms<'_>) -> Vec<String> {
    let functions = functions(tools, terms);
    let names = functions.as_array().unwrap().iter();
    names.map(|function| function["name"].as_str().unwrap().to_owned()).collect()
}

fn function(name: &str) -> Value {
    json!({"type": "function", "name": name})
}

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
fn strict_goes_only_where_it_is_understood() {
    // T-1b
    let tools = json!([{"type": "function", "name": "f", "strict": true},
        {"type": "function", "name": "g", "strict": false}]);
    let vllm = terms(Profile::Vllm);
    for function in functions(&tools, &vllm).as_array().unwrap() {
        assert_eq!(function.get("strict"), None);
    }
    assert_eq!(losses(&json!({"tools": tools}), &vllm).as_deref(), Some("strict_not_enforced=f"));
}

#[test]
fn tools_out_of_rule_are_refused_by_place() {
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
fn tools_come_from_everywhere_in_order() {
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
fn the_first_place_and_the_newest_definition_count() {
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
fn one_wire_name_is_one_tool() {
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
fn what_is_not_convertible_is_refused_as_a_whole() {
    // T-4, T-5
    for tool in [
        "web_search",
        "web_search_preview_2025_03_11",
        "file_search",
        "code_interpreter",
        "computer",
        "computer_use_preview",
        "image_generation",
        "mcp",
        "local_shell",
        "shell",
        "apply_patch",
        "tool_search",
        "programmatic_tool_calling",
        "teleport",
    ] {
        for choice in ["auto", "none"] {
            let members = json!({"tools": [function("f"), {"type": tool}], "tool_choice": choice});
            let message = refused(&members, &generic(), (UnsupportedTools, "tools[1]"));
            assert!(message.contains(&format!("`{tool}` at tools[1]")), "{message}");
        }
    }
    for (tool, param) in [
        (json!({}), "tools[0]"),
        (json!({"type": null, "name": "f"}), "tools[0]"),
        (json!({"type": "tool_search", "execution": "server"}), "tools[0]"),
        (json!({"type": "function", "name": "f", "defer_loading": true}), "tools[0]"),
        (json!({"type": "function", "name": "f", "async": true}), "tools[0]"),
        (json!({"type": "function", "name": "f", "allowed_callers": ["programmatic"]}), "tools[0]"),
        (
            json!({"type": "namespace", "name": "n", "tools": [function("f"), {"type": "mcp"}]}),
            "tools[0].tools[1]",
        ),
        (
            json!({"type": "namespace", "name": "n", "tools": [{"type": "namespace", "name": "m", "tools": []}]}),
            "tools[0].tools[0]",
        ),
    ] {
        refused(&json!({"tools": [tool]}), &generic(), (UnsupportedTools, param));
    }
    let input = json!([{"type": "additional_tools", "tools": [function("f"), {"type": "mcp"}]}]);
    refused(&json!({"input": input}), &generic(), (UnsupportedTools, "input[0].tools[1]"));
}

#[test]
fn every_offender_is_named_with_its_place() {
    // T-5
    let members = json!({
        "tools": [function("f"), {"type": "web_search"}, {"type": "namespace", "name": "n", "tools": [{"type": "mcp"}]}],
        "input": [{"type": "additional_tools", "tools": [{"name": "x"}]}, {"role": "user", "content": "hi"}],
    });
    let message = refused(&members, &generic(), (UnsupportedTools, "tools[1]"));
    insta::assert_snapshot!(message, @r#"tools that this model cannot be given: `web_search` at tools[1], `mcp` at tools[2].tools[0], no type at input[0].tools[0]; functions, custom tools, namespaces of them and tool search by the client work; in Codex, `web_search = "disabled"` removes web search"#);
    let image = json!({"tools": [{"type": "image_generation"}]});
    let message = refused(&image, &generic(), (UnsupportedTools, "tools[0]"));
    insta::assert_snapshot!(message, @"tools that this model cannot be given: `image_generation` at tools[0]; functions, custom tools, namespaces of them and tool search by the client work; in Codex, `[features] image_generation = false` removes image generation");
    let many = json!({"tools": vec![json!({"type": "x".repeat(1_000)}); 10_000]});
    let message = refused(&many, &generic(), (UnsupportedTools, "tools[0]"));
    assert!(message.len() < 6_000 && message.contains("and 9950 more"), "{message}");
}

#[test]
fn hosted_tools_are_left_out_where_the_operator_says_so() {
    // §9.7
    let omit = Terms { hosted_tools: HostedTools::Omit, ..generic() };
    let tools = json!([function("f"), {"type": "web_search"}, {"type": "image_generation"}]);
    assert_eq!(names(&tools, &omit), ["f"]);
    assert_eq!(
        losses(&json!({"tools": tools}), &omit).as_deref(),
        Some("hosted_tool_omitted=web_search; hosted_tool_omitted=image_generation")
    );
    assert_eq!(chat(&json!({"tools": [{"type": "mcp"}]}), &omit).get("tools"), None);
    let unknown = json!({"tools": [{"type": "mcp"}, {"type": "teleport"}]});
    refused(&unknown, &omit, (UnsupportedTools, "tools[1]"));
}

#[test]
fn members_of_namespaces_have_one_name() {
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
fn the_plan_knows_the_way_back() {
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
fn a_custom_tool_takes_one_text() {
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

#[test]
fn tools_that_the_client_finds_can_be_called() {
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

/// The `tool_choice` and the names of the tools that go upstream, and the names that are allowed.
fn chosen(choice: &Value, terms: &Terms<'_>) -> (Value, Vec<String>, Option<HashSet<String>>) {
    let tools = json!([
        function("f"), {"type": "custom", "name": "c"},
        {"type": "namespace", "name": "n", "tools": [function("f")]},
    ]);
    let members = json!({"tools": tools, "tool_choice": choice});
    let sent = chat(&members, terms);
    let list = sent["tools"].as_array().cloned().unwrap_or_default();
    let names = list.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned());
    let plan = translate(&request(&members), terms).unwrap().plan;
    (sent["tool_choice"].clone(), names.collect(), plan.allowed.clone())
}

#[test]
fn a_choice_is_put_in_chats_words() {
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
fn a_restriction_is_kept_and_enforced() {
    // §3.6
    let choice = json!({"type": "allowed_tools", "mode": "required", "tools": [
        {"type": "function", "name": "f"}, {"type": "custom", "name": "c"},
    ]});
    let both: HashSet<String> = ["f".to_owned(), "c".to_owned()].into();
    let (sent, names, allowed) = chosen(&choice, &generic());
    assert_eq!((sent, names), (json!("required"), vec!["f".to_owned(), "c".to_owned()]));
    assert_eq!(allowed.as_ref(), Some(&both));
    let (sent, names, allowed) = chosen(&choice, &terms(Profile::OpenAi));
    let functions = json!([
        {"type": "function", "function": {"name": "f"}},
        {"type": "function", "function": {"name": "c"}},
    ]);
    let restricted = json!({"mode": "required", "tools": functions});
    assert_eq!(sent, json!({"type": "allowed_tools", "allowed_tools": restricted}));
    assert_eq!((names.len(), allowed), (3, Some(both)));
}

#[test]
fn a_choice_out_of_rule_is_refused() {
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
fn an_upstream_that_ignores_choices_is_told_none() {
    // §3.6
    let ollama = terms(Profile::Ollama);
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
