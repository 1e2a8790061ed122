//! Strict options refuse every loss.

use super::*;
use RequestFault::{InvalidValue, UnsupportedInputItem, UnsupportedParameter, UnsupportedTools};

#[test]
fn strict_options_refuse_every_loss() {
    let call = |call_id: &str, arguments: &str| json!({"type": "function_call", "call_id": call_id, "name": "f", "arguments": arguments});
    let output =
        |call_id: &str| json!({"type": "function_call_output", "call_id": call_id, "output": "k"});
    let user = json!({"role": "user", "content": "hi"});
    let reasoning = json!({"type": "reasoning", "summary": [{"text": "s"}]});
    let grammar = json!({"type": "grammar", "syntax": "lark", "definition": "start: x"});
    for (rule, members, code, param) in [
        ("Q-22", json!({"text": {"verbosity": "low"}}), UnsupportedParameter, "text.verbosity"),
        ("Q-23", json!({"service_tier": "flex"}), UnsupportedParameter, "service_tier"),
        ("Q-35", json!({"future": 1}), UnsupportedParameter, "future"),
        (
            "I-9b",
            json!({"input": [call("1", "{"), output("1")]}),
            InvalidValue,
            "input[0].arguments",
        ),
        (
            "I-15",
            json!({"input": [user, {"type": "web_search_call"}]}),
            UnsupportedInputItem,
            "input[1].type",
        ),
        ("I-23", json!({"input": [user, call("1", "{}")]}), InvalidValue, "input[1]"),
        (
            "I-24",
            json!({"input": [call("1", "{}"), call("1", "{}")]}),
            InvalidValue,
            "input[1].call_id",
        ),
        ("I-27", json!({"input": [user, reasoning]}), InvalidValue, "input[1]"),
        (
            "T-1b",
            json!({"tools": [{"type": "function", "name": "f", "strict": true}]}),
            UnsupportedTools,
            "tools[0].strict",
        ),
        ("T-5", json!({"tools": [{"type": "web_search"}]}), UnsupportedTools, "tools[0]"),
        (
            "T-8",
            json!({"tools": [{"type": "custom", "name": "c", "format": grammar}]}),
            UnsupportedTools,
            "tools[0].format",
        ),
    ] {
        println!("{rule}");
        let lenient =
            TranslateOptions { hosted_tools: HostedTools::Omit, ..options(Profile::LlamaCpp) };
        assert!(losses(&members, &lenient).is_some(), "{members} is a loss");
        let strict = TranslateOptions { strict: true, ..lenient };
        let message = refused(&members, &strict, (code, param));
        assert!(message.len() > 30, "{message}");
    }
}

#[test]
fn strict_options_accept_lossless_requests() {
    let strict = TranslateOptions { strict: true, ..generic() };
    let members = json!({
        "instructions": "a", "store": false, "client_metadata": {"a": 1}, "prompt_cache_key": "k",
        "include": ["reasoning.encrypted_content"], "reasoning": {"effort": "low", "summary": "auto"},
        "tools": [
            {"type": "function", "name": "f", "strict": true},
            {"type": "custom", "name": "c", "format": {"type": "text"}},
            {"type": "namespace", "name": "n", "description": "d", "tools": [{"type": "function", "name": "f"}]},
        ],
    });
    assert_eq!(losses(&members, &strict), None);
}
