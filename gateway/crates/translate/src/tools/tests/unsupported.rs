//! Tools that cannot be converted.

use serde_json::json;

use super::{function, names};
use crate::request::tests::{chat, generic, losses, refused};
use crate::request::{HostedTools, TranslateOptions};
use domain::refusal::RequestFault::UnsupportedTools;

#[test]
fn a_request_with_an_unconvertible_tool_is_refused() {
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
fn every_unconvertible_tool_is_named_with_its_path() {
    // T-5
    let members = json!({
        "tools": [function("f"), {"type": "web_search"}, {"type": "namespace", "name": "n", "tools": [{"type": "mcp"}]}],
        "input": [{"type": "additional_tools", "tools": [{"name": "x"}]}, {"role": "user", "content": "hi"}],
    });
    let message = refused(&members, &generic(), (UnsupportedTools, "tools[1]"));
    insta::assert_snapshot!(message, @r#"unsupported tools: `web_search` at tools[1], `mcp` at tools[2].tools[0], no type at input[0].tools[0]; functions, custom tools, namespaces of them and client-side tool search are supported; in Codex, `web_search = "disabled"` removes web search"#);
    let image = json!({"tools": [{"type": "image_generation"}]});
    let message = refused(&image, &generic(), (UnsupportedTools, "tools[0]"));
    insta::assert_snapshot!(message, @"unsupported tools: `image_generation` at tools[0]; functions, custom tools, namespaces of them and client-side tool search are supported; in Codex, `[features] image_generation = false` removes image generation");
    let many = json!({"tools": vec![json!({"type": "x".repeat(1_000)}); 10_000]});
    let message = refused(&many, &generic(), (UnsupportedTools, "tools[0]"));
    assert!(message.len() < 6_000 && message.contains("and 9950 more"), "{message}");
}

#[test]
fn hosted_tools_are_omitted_if_configured() {
    // §9.7
    let omit = TranslateOptions { hosted_tools: HostedTools::Omit, ..generic() };
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
