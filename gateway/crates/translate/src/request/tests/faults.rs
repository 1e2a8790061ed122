//! Invalid requests are refused with a code and a path.

use super::*;
use RequestFault::{
    InvalidJson, InvalidType, InvalidValue, MissingRequiredParameter, UnsupportedContentPart,
    UnsupportedInputItem, UnsupportedParameter,
};

fn check(rule: &str, members: &Value, code: RequestFault, param: &str) {
    println!("{rule}");
    let message = refused(members, &generic(), (code, param));
    assert!(message.len() < 500, "{message}");
}

#[test]
fn a_body_that_is_not_a_json_object_is_refused() {
    let twice = r#"{"model":"a","model":"b","input":"hi"}"#;
    let twice_inside = r#"{"model":"a","input":[{"role":"user","role":"user","content":"hi"}]}"#;
    let open = format!(r#"{{"model":"m","input":{}"#, "[".repeat(100_000));
    for body in ["", "[]", "{", "{} {}", "null", "\"x\"", twice, twice_inside, &open] {
        match Request::parse(body.as_bytes()) {
            Err(Refusal::InvalidRequest { code: InvalidJson, .. }) => {}
            other => panic!("{}: {other:?}", body.chars().take(60).collect::<String>()),
        }
    }
    assert!(Request::parse(b"{\"model\":\"\xff\"}").is_err());
}

#[test]
fn invalid_fields_are_refused_by_name() {
    let many: serde_json::Map<String, Value> =
        (0..17).map(|n| (n.to_string(), json!("x"))).collect();
    for (rule, members, code, param) in [
        ("Q-1", json!({"model": null}), MissingRequiredParameter, "model"),
        ("Q-1", json!({"model": ""}), MissingRequiredParameter, "model"),
        ("Q-1", json!({"model": 7}), InvalidType, "model"),
        ("Q-2", json!({"input": ""}), InvalidValue, "input"),
        ("Q-3", json!({"input": []}), InvalidValue, "input"),
        ("Q-4", json!({"input": null}), MissingRequiredParameter, "input"),
        ("Q-4", json!({"input": 7}), InvalidType, "input"),
        ("Q-5", json!({"instructions": ["x"]}), InvalidType, "instructions"),
        ("Q-6", json!({"stream": "yes"}), InvalidType, "stream"),
        ("Q-7", json!({"stream_options": 1}), InvalidType, "stream_options"),
        ("Q-8", json!({"max_output_tokens": 0}), InvalidValue, "max_output_tokens"),
        ("Q-8", json!({"max_output_tokens": 1.5}), InvalidValue, "max_output_tokens"),
        ("Q-8", json!({"max_output_tokens": "9"}), InvalidType, "max_output_tokens"),
        ("Q-9", json!({"temperature": "hot"}), InvalidType, "temperature"),
        ("Q-9", json!({"top_p": []}), InvalidType, "top_p"),
        ("Q-10", json!({"top_logprobs": 21}), InvalidValue, "top_logprobs"),
        ("Q-10", json!({"top_logprobs": -1}), InvalidValue, "top_logprobs"),
        ("Q-11", json!({"include": ["x"]}), InvalidValue, "include[0]"),
        ("Q-11", json!({"include": [1]}), InvalidType, "include[0]"),
        ("Q-12", json!({"tools": {}}), InvalidType, "tools"),
        ("Q-14", json!({"parallel_tool_calls": 1}), InvalidType, "parallel_tool_calls"),
        ("Q-15", json!({"max_tool_calls": 0}), InvalidValue, "max_tool_calls"),
        ("Q-16", json!({"reasoning": "low"}), InvalidType, "reasoning"),
        ("Q-16", json!({"reasoning": {"effort": 1}}), InvalidType, "reasoning.effort"),
        ("Q-21", json!({"text": {"format": {"type": "xml"}}}), InvalidValue, "text.format.type"),
        (
            "Q-21",
            json!({"text": {"format": {"type": "json_schema", "schema": {}}}}),
            MissingRequiredParameter,
            "text.format.name",
        ),
        (
            "Q-21",
            json!({"text": {"format": {"type": "json_schema", "name": "n"}}}),
            MissingRequiredParameter,
            "text.format.schema",
        ),
        ("Q-22", json!({"text": {"verbosity": 1}}), InvalidType, "text.verbosity"),
        ("Q-23", json!({"service_tier": 1}), InvalidType, "service_tier"),
        ("Q-24", json!({"metadata": many}), InvalidValue, "metadata"),
        ("Q-24", json!({"metadata": {"k".repeat(65): "v"}}), InvalidValue, "metadata"),
        ("Q-24", json!({"metadata": {"k": "v".repeat(513)}}), InvalidValue, "metadata"),
        ("Q-24", json!({"metadata": {"k": 1}}), InvalidType, "metadata"),
        ("Q-25", json!({"user": 1}), InvalidType, "user"),
        ("Q-26", json!({"store": 1}), InvalidType, "store"),
        (
            "Q-27",
            json!({"previous_response_id": "resp_1"}),
            UnsupportedParameter,
            "previous_response_id",
        ),
        ("Q-28", json!({"conversation": "conv_1"}), UnsupportedParameter, "conversation"),
        ("Q-29", json!({"prompt": {"id": "p"}}), UnsupportedParameter, "prompt"),
        ("Q-30", json!({"background": true}), UnsupportedParameter, "background"),
        ("Q-31", json!({"truncation": "all"}), InvalidValue, "truncation"),
        ("Q-32", json!({"context_management": []}), UnsupportedParameter, "context_management"),
        ("Q-32", json!({"moderation": {}}), UnsupportedParameter, "moderation"),
        ("Q-32", json!({"access_programs": []}), UnsupportedParameter, "access_programs"),
        ("Q-32", json!({"image": {}}), UnsupportedParameter, "image"),
        ("Q-34", json!({"messages": []}), UnsupportedParameter, "messages"),
        ("Q-34", json!({"max_tokens": 1}), UnsupportedParameter, "max_tokens"),
        (
            "Q-34",
            json!({"max_completion_tokens": 1}),
            UnsupportedParameter,
            "max_completion_tokens",
        ),
        ("Q-34", json!({"response_format": {}}), UnsupportedParameter, "response_format"),
        ("Q-34", json!({"functions": []}), UnsupportedParameter, "functions"),
        ("Q-34", json!({"function_call": "auto"}), UnsupportedParameter, "function_call"),
        ("Q-34", json!({"n": 1}), UnsupportedParameter, "n"),
        ("Q-34", json!({"stop": "x"}), UnsupportedParameter, "stop"),
        ("Q-34", json!({"seed": 1}), UnsupportedParameter, "seed"),
        ("Q-34", json!({"logit_bias": {}}), UnsupportedParameter, "logit_bias"),
    ] {
        check(rule, &members, code, param);
    }
}

#[test]
fn a_chat_field_is_refused_with_its_responses_equivalent() {
    // Q-34
    for (field, instead) in [
        ("messages", "`input`"),
        ("max_tokens", "`max_output_tokens`"),
        ("response_format", "`text.format`"),
        ("functions", "`tools`"),
        ("stop", "without a Responses equivalent"),
    ] {
        let message = refused(&json!({field: 1}), &generic(), (UnsupportedParameter, field));
        assert!(message.contains(instead), "{message}");
    }
}

#[test]
fn invalid_items_are_refused_by_path() {
    let ok = json!({"role": "user", "content": "hi"});
    for (rule, item, code, param) in [
        ("I-1", json!("hi"), InvalidType, "input[1]"),
        ("I-1", json!({}), InvalidValue, "input[1]"),
        ("I-1", json!({"id": "x", "content": "hi"}), InvalidValue, "input[1]"),
        ("I-1", json!({"type": 1, "role": "user"}), InvalidType, "input[1].type"),
        ("I-2", json!({"role": "tool", "content": "hi"}), InvalidValue, "input[1].role"),
        (
            "I-2",
            json!({"type": "message", "content": "hi"}),
            MissingRequiredParameter,
            "input[1].role",
        ),
        ("I-6", json!({"role": "user"}), MissingRequiredParameter, "input[1].content"),
        ("I-6", json!({"role": "user", "content": 1}), InvalidType, "input[1].content"),
        (
            "I-9",
            json!({"type": "function_call", "name": "f", "arguments": "{}"}),
            MissingRequiredParameter,
            "input[1].call_id",
        ),
        (
            "I-9",
            json!({"type": "function_call", "call_id": "", "name": "f"}),
            InvalidValue,
            "input[1].call_id",
        ),
        (
            "I-9",
            json!({"type": "function_call", "call_id": "c", "name": ""}),
            InvalidValue,
            "input[1].name",
        ),
        (
            "I-9",
            json!({"type": "function_call", "call_id": "c", "name": "f", "namespace": 1}),
            InvalidType,
            "input[1].namespace",
        ),
        (
            "I-10",
            json!({"type": "function_call_output", "output": "x"}),
            MissingRequiredParameter,
            "input[1].call_id",
        ),
        (
            "I-10",
            json!({"type": "function_call_output", "call_id": "c"}),
            MissingRequiredParameter,
            "input[1].output",
        ),
        (
            "I-10",
            json!({"type": "custom_tool_call_output", "call_id": "c"}),
            MissingRequiredParameter,
            "input[1].output",
        ),
        (
            "I-11",
            json!({"type": "custom_tool_call", "call_id": "c", "name": "f"}),
            MissingRequiredParameter,
            "input[1].input",
        ),
        (
            "I-11",
            json!({"type": "custom_tool_call", "call_id": "c", "name": "f", "input": {}}),
            InvalidType,
            "input[1].input",
        ),
        ("I-12", json!({"type": "reasoning", "summary": "x"}), InvalidType, "input[1].summary"),
        (
            "I-12",
            json!({"type": "reasoning", "summary": [{}]}),
            MissingRequiredParameter,
            "input[1].summary[0].text",
        ),
        (
            "I-13",
            json!({"type": "item_reference", "id": "msg_1"}),
            UnsupportedInputItem,
            "input[1].type",
        ),
        ("I-13", json!({"type": "item_reference"}), MissingRequiredParameter, "input[1].id"),
        ("I-14", json!({"type": "additional_tools"}), MissingRequiredParameter, "input[1].tools"),
        ("I-14", json!({"type": "additional_tools", "tools": {}}), InvalidType, "input[1].tools"),
        ("I-15", json!({"type": "web_search_call"}), UnsupportedInputItem, "input[1].type"),
        ("I-15", json!({"type": "file_search_call"}), UnsupportedInputItem, "input[1].type"),
        ("I-15", json!({"type": "mcp_list_tools"}), UnsupportedInputItem, "input[1].type"),
        ("I-15", json!({"type": "local_shell_call_output"}), UnsupportedInputItem, "input[1].type"),
        (
            "I-16",
            json!({"type": "tool_search_call", "execution": "server", "call_id": null, "arguments": {}}),
            UnsupportedInputItem,
            "input[1].type",
        ),
        (
            "I-16",
            json!({"type": "tool_search_output", "call_id": null, "tools": []}),
            UnsupportedInputItem,
            "input[1].type",
        ),
        (
            "I-17",
            json!({"type": "compaction", "encrypted_content": "x"}),
            UnsupportedInputItem,
            "input[1].type",
        ),
        ("I-17", json!({"type": "compaction_trigger"}), UnsupportedInputItem, "input[1].type"),
        (
            "I-17",
            json!({"type": "agent_message", "role": "user", "content": "x"}),
            UnsupportedInputItem,
            "input[1].type",
        ),
        (
            "I-22",
            json!({"type": "function_call_output", "call_id": "c", "output": "x"}),
            InvalidValue,
            "input[1].call_id",
        ),
    ] {
        check(rule, &json!({"input": [ok, item]}), code, param);
    }
}

#[test]
fn invalid_parts_are_refused_by_path() {
    // §2.1
    for (role, part, code, param) in [
        ("user", json!({"type": "refusal", "refusal": "no"}), UnsupportedContentPart, "type"),
        ("user", json!({"type": "input_image", "file_id": "f"}), UnsupportedContentPart, "file_id"),
        ("user", json!({"type": "input_image"}), MissingRequiredParameter, "image_url"),
        (
            "user",
            json!({"type": "input_image", "image_url": {"url": "x"}}),
            InvalidType,
            "image_url",
        ),
        (
            "user",
            json!({"type": "input_image", "image_url": "x", "detail": "all"}),
            InvalidValue,
            "detail",
        ),
        ("user", json!({"type": "input_file", "file_id": "f"}), UnsupportedContentPart, "file_id"),
        (
            "user",
            json!({"type": "input_file", "file_url": "f"}),
            UnsupportedContentPart,
            "file_url",
        ),
        ("user", json!({"type": "input_video"}), UnsupportedContentPart, "type"),
        (
            "user",
            json!({"type": "encrypted_content", "encrypted_content": "x"}),
            UnsupportedContentPart,
            "type",
        ),
        (
            "user",
            json!({"type": "image_url", "image_url": {"url": "x"}}),
            UnsupportedContentPart,
            "type",
        ),
        ("user", json!({"type": "input_text"}), MissingRequiredParameter, "text"),
        ("user", json!({"text": "x"}), MissingRequiredParameter, "type"),
        (
            "assistant",
            json!({"type": "input_image", "image_url": "x"}),
            UnsupportedContentPart,
            "type",
        ),
    ] {
        let content = json!([{"type": "input_text", "text": "hi"}, part]);
        let input = json!([{"role": role, "content": content}]);
        check("§2.1", &json!({"input": input}), code, &format!("input[0].content[1].{param}"));
    }
    for part in ["input_image", "nonsense"] {
        let input = json!([
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": ""},
            {"type": "function_call_output", "call_id": "c", "output": [{"type": part, "file_id": "f"}]},
        ]);
        let param = if part == "nonsense" {
            "input[1].output[0].type"
        } else {
            "input[1].output[0].file_id"
        };
        check("I-19", &json!({"input": input}), UnsupportedContentPart, param);
    }
}

#[test]
fn unpaired_surrogates_are_refused() {
    for (body, param) in [
        (r#"{"model":"m","input":"\ud800"}"#, "input"),
        (r#"{"model":"\udfff","input":"hi"}"#, "model"),
        (r#"{"model":"m","input":[{"role":"user","content":"\ud83d x"}]}"#, "input[0].content"),
    ] {
        match Request::parse(body.as_bytes()) {
            Err(Refusal::InvalidRequest { code: InvalidValue, param: at, .. }) => {
                assert_eq!(at.as_deref(), Some(param));
            }
            other => panic!("{body}: {other:?}"),
        }
    }
}

#[test]
fn numbers_out_of_range_are_refused() {
    for number in ["1e999", "-1e999", "99999999999999999999999999", &"9".repeat(100_000)] {
        for field in ["max_output_tokens", "top_logprobs", "max_tool_calls"] {
            let body = format!(r#"{{"model":"m","input":"hi","{field}":{number}}}"#);
            let refusal = Request::parse(body.as_bytes()).unwrap_err();
            assert!(
                matches!(&refusal, Refusal::InvalidRequest { code: InvalidValue, param, .. } if param.as_deref() == Some(field)),
                "{refusal:?}"
            );
        }
    }
}
