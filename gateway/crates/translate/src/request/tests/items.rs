//! Input items (`I-1` to `I-18`).

use super::*;

fn user(content: &Value) -> Value {
    json!({"role": "user", "content": content})
}

#[test]
fn message_items_become_chat_messages() {
    for (rule, input, expected) in [
        ("I-1", json!([{"role": "user", "content": "hi"}]), json!([user(&json!("hi"))])),
        (
            "I-1",
            json!([{"type": null, "role": "user", "content": "hi"}]),
            json!([user(&json!("hi"))]),
        ),
        (
            "I-2",
            json!([
                {"role": "user", "content": "a"},
                {"type": "message", "role": "assistant", "content": "b"},
                {"type": "message", "role": "user", "content": "c"},
            ]),
            json!([user(&json!("a")), {"role": "assistant", "content": "b"}, user(&json!("c"))]),
        ),
        (
            "I-6",
            json!([{"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "text", "text": "b"}]}]),
            json!([user(&json!("ab"))]),
        ),
        (
            "I-7",
            json!([
                {"role": "user", "content": "a", "id": "msg_1", "status": "completed", "phase": "x"},
                {
                    "type": "message", "role": "assistant", "id": "msg_2", "status": "completed",
                    "content": [{"type": "output_text", "text": "b", "annotations": [], "logprobs": []}],
                },
            ]),
            json!([user(&json!("a")), {"role": "assistant", "content": "b"}]),
        ),
        (
            "I-8",
            json!([
                {"role": "user", "content": []},
                {"role": "assistant", "content": ""},
                {"role": "assistant", "content": []},
                {"role": "user", "content": ""},
            ]),
            json!([user(&json!(""))]),
        ),
    ] {
        println!("{rule}");
        check_messages(&input, &generic(), &expected);
    }
}

#[test]
fn leading_system_messages_are_merged() {
    // Q-5, I-3, I-4
    let input = json!([
        {"role": "system", "content": "b"},
        {"type": "additional_tools", "role": "developer", "tools": []},
        {"role": "developer", "content": [{"type": "input_text", "text": "c"}]},
        {"role": "user", "content": "hi"},
    ]);
    let members = json!({"instructions": "a", "input": input});
    for (profile, role) in [(Profile::Generic, "system"), (Profile::OpenAi, "developer")] {
        let expected = json!([{"role": role, "content": "a\n\nb\n\nc"}, user(&json!("hi"))]);
        assert_eq!(chat(&members, &options(profile))["messages"], expected);
    }
    let sent = chat(&json!({"instructions": ""}), &generic());
    assert_eq!(sent["messages"], json!([user(&json!("hi"))]));
    let sent = chat(&json!({"instructions": "a", "input": []}), &generic());
    assert_eq!(sent["messages"], json!([{"role": "system", "content": "a"}]), "Q-3");
}

#[test]
fn a_late_system_message_is_kept_or_hoisted() {
    // I-5
    let input = json!([
        {"role": "developer", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "developer", "content": "c"},
        {"role": "user", "content": "d"},
    ]);
    let (a, b, c) = (json!("b"), json!("c"), json!("d"));
    let stored = json!([{"role": "system", "content": "a"}, user(&a), {"role": "system", "content": b}, user(&c)]);
    check_messages(&input, &generic(), &stored);
    let hoisted = json!([{"role": "system", "content": "a\n\nc"}, user(&a), user(&c)]);
    check_messages(&input, &options(Profile::Vllm), &hoisted);
    let sent = chat(&json!({"input": input}), &options(Profile::OpenAi));
    assert_eq!(sent["messages"][2], json!({"role": "developer", "content": "c"}));
}

#[test]
fn parts_become_chat_parts() {
    // §2.1
    let text = json!({"type": "input_text", "text": "see"});
    for (part, expected) in [
        (
            json!({"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "original"}),
            json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA", "detail": "high"}}),
        ),
        (
            json!({"type": "input_image", "image_url": "https://x/y", "file_id": null}),
            json!({"type": "image_url", "image_url": {"url": "https://x/y"}}),
        ),
        (
            json!({"type": "input_image", "image_url": "https://x/y", "detail": "auto"}),
            json!({"type": "image_url", "image_url": {"url": "https://x/y", "detail": "auto"}}),
        ),
        (
            json!({"type": "input_file", "file_data": "data:x", "filename": "a.pdf"}),
            json!({"type": "file", "file": {"file_data": "data:x", "filename": "a.pdf"}}),
        ),
        (
            json!({"type": "input_audio", "input_audio": {"data": "AA", "format": "mp3"}}),
            json!({"type": "input_audio", "input_audio": {"data": "AA", "format": "mp3"}}),
        ),
    ] {
        let input = json!([{"role": "user", "content": [text, part]}]);
        let expected = json!([user(&json!([{"type": "text", "text": "see"}, expected]))]);
        check_messages(&input, &options(Profile::OpenAi), &expected);
    }
}

/// §2.1. Regression: images were sent to such models.
#[test]
fn images_are_refused_if_the_model_does_not_accept_them() {
    let blind = InputModalities { images: false, ..generic().inputs };
    let blind = TranslateOptions { inputs: blind, ..generic() };
    let image = json!({"type": "input_image", "image_url": "data:x"});
    let text = json!({"type": "input_text", "text": "see"});
    let call = json!({"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"});
    let output =
        |output: Value| json!({"type": "function_call_output", "call_id": "c1", "output": output});
    let code = RequestFault::UnsupportedContentPart;
    let prompt = json!({"input": [user(&json!([text, image]))]});
    let message = refused(&prompt, &blind, (code, "input[0].content[1].type"));
    assert!(message.contains("does not accept images"), "{message}");
    let listed = json!([image, text]);
    for result in [listed.clone(), json!(listed.to_string())] {
        let members = json!({"input": [call, output(result)]});
        refused(&members, &blind, (code, "input[1].output[0].type"));
        let inline = TranslateOptions { inputs: blind.inputs, ..options(Profile::Vllm) };
        refused(&members, &inline, (code, "input[1].output[0].type"));
    }
    let earlier = StoredItems::new(&[user(&json!([image]))], &[]);
    let stored = TranslateOptions { inputs: blind.inputs, ..earlier.options() };
    let members = json!({"previous_response_id": "resp_1"});
    refused(&members, &stored, (code, "previous_response_id"));
    check_messages(&json!([user(&json!([text]))]), &blind, &json!([user(&json!("see"))]));
}

/// §2.1: the model decides, not the profile of its upstream.
#[test]
fn files_and_audio_are_sent_only_to_models_that_accept_them() {
    let file = json!({"type": "input_file", "file_data": "data:x", "filename": "a.pdf"});
    let audio = json!({"type": "input_audio", "input_audio": {"data": "AA", "format": "mp3"}});
    let text = json!({"type": "input_text", "text": "see"});
    let code = RequestFault::UnsupportedContentPart;
    for (part, kind) in [(file, "file"), (audio, "input_audio")] {
        let members = json!({"input": [user(&json!([text, part]))]});
        let sent = |options: &TranslateOptions<'_>| {
            chat(&members, options)["messages"][0]["content"][1].clone()
        };
        assert_eq!(sent(&generic())["type"], kind);
        let none = InputModalities { images: true, files: false, audio: false };
        let refuses = TranslateOptions { inputs: none, ..generic() };
        let message = refused(&members, &refuses, (code, "input[0].content[1].type"));
        assert!(message.contains("this model does not accept"), "{message}");
        // Without a catalogue entry, the dialect decides.
        refused(&members, &options(Profile::Ollama), (code, "input[0].content[1].type"));
        let all = InputModalities { images: true, files: true, audio: true };
        let takes = TranslateOptions { inputs: all, ..options(Profile::Ollama) };
        assert_eq!(sent(&takes)["type"], kind);
    }
}

#[test]
fn an_assistant_refusal_is_text_unless_the_dialect_has_refusal_parts() {
    let input = json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": [
        {"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "no"},
    ]}]);
    let sent = chat(&json!({"input": input}), &generic());
    assert_eq!(sent["messages"][1], json!({"role": "assistant", "content": "ano"}));
    let sent = chat(&json!({"input": input}), &options(Profile::OpenAi));
    let parts = json!([{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "no"}]);
    assert_eq!(sent["messages"][1], json!({"role": "assistant", "content": parts}));
}

/// Returns the tool call of a call item.
fn tool_call_of(item: &Value) -> Value {
    let input = json!([{"role": "user", "content": "hi"}, item]);
    chat(&json!({"input": input}), &generic())["messages"][1]["tool_calls"][0].clone()
}

#[test]
fn call_items_become_tool_calls() {
    for (rule, item, name, arguments) in [
        (
            "I-9",
            json!({"type": "function_call", "name": "f", "arguments": "{\"a\": 1}"}),
            "f",
            "{\"a\": 1}",
        ),
        (
            "I-9",
            json!({"type": "function_call", "name": "f", "arguments": {"a": 1}}),
            "f",
            "{\"a\":1}",
        ),
        ("I-9", json!({"type": "function_call", "name": "f", "arguments": " \n"}), "f", "{}"),
        ("I-9", json!({"type": "function_call", "name": "f"}), "f", "{}"),
        (
            "I-9",
            json!({"type": "function_call", "name": "f", "namespace": "n", "arguments": "{}"}),
            "n__f",
            "{}",
        ),
        (
            "I-9b",
            json!({"type": "function_call", "name": "f", "arguments": "{\"a\": tru"}),
            "f",
            "{\"__invalid_arguments\":\"{\\\"a\\\": tru\"}",
        ),
        (
            "I-11",
            json!({"type": "custom_tool_call", "name": "c", "input": "a \"b\"\n"}),
            "c",
            "{\"input\":\"a \\\"b\\\"\\n\"}",
        ),
        (
            "I-11",
            json!({"type": "custom_tool_call", "name": "c", "namespace": "n", "input": ""}),
            "n__c",
            "{\"input\":\"\"}",
        ),
        (
            "T-10",
            json!({"type": "tool_search_call", "execution": "client", "arguments": {"query": "x"}}),
            "tool_search",
            "{\"query\":\"x\"}",
        ),
    ] {
        let mut item = item;
        item["call_id"] = json!("c1");
        let expected = json!({"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}});
        assert_eq!(tool_call_of(&item), expected, "{rule}: {item}");
    }
}

/// Returns the content of the tool message of an output.
fn tool_content_of(output: &Value) -> Value {
    let input = json!([
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": output},
    ]);
    let sent = chat(&json!({"input": input}), &generic());
    assert_eq!(sent["messages"][1]["tool_call_id"], "c1");
    sent["messages"][1]["content"].clone()
}

#[test]
fn outputs_become_text_content() {
    for (rule, output, expected) in [
        ("I-10", json!("x"), "x"),
        ("I-10", json!("{\"a\":1}"), "{\"a\":1}"),
        (
            "I-10",
            json!("[{\"type\":\"input_text\",\"text\":\"x\"}]"),
            "[{\"type\":\"input_text\",\"text\":\"x\"}]",
        ),
        ("I-10", json!(null), ""),
        ("I-10", json!({"a": 1}), "{\"a\":1}"),
        ("I-10", json!(7), "7"),
        (
            "I-18",
            json!([{"type": "input_text", "text": "a"}, {"type": "output_text", "text": "b"}]),
            "ab",
        ),
        ("I-18", json!([]), ""),
    ] {
        assert_eq!(tool_content_of(&output), json!(expected), "{rule}: {output}");
    }
}

#[test]
fn a_stringified_image_is_sent_as_an_image() {
    // I-11b
    let list = json!([{"type": "input_text", "text": "x"}, {"type": "input_image", "image_url": "data:a"}]);
    assert_eq!(tool_content_of(&json!(list.to_string())), "x");
    for text in [
        "[{\"type\":\"input_image\"}]",
        "[{\"type\":\"input_image\",\"image_url\":\"a\"},7]",
        "[\"input_image\"]",
        "[input_image",
        "{\"type\":\"input_image\",\"image_url\":\"a\"}",
    ] {
        assert_eq!(tool_content_of(&json!(text)), text, "stays text");
    }
}

/// Returns the assistant message that a reasoning item is attached to.
fn assistant_message_of(item: Value, options: &TranslateOptions<'_>) -> Value {
    let mut item = item;
    item["type"] = json!("reasoning");
    let input = json!([
        {"role": "user", "content": "hi"}, item, {"role": "assistant", "content": "ok"},
    ]);
    chat(&json!({"input": input}), options)["messages"][1].clone()
}

#[test]
fn reasoning_is_sent_in_the_field_of_the_dialect() {
    // I-12
    let part = |text: &str| json!({"text": text});
    for (item, expected) in [
        (json!({"summary": [part("s")], "content": [part("c"), part("d")]}), Some("c\nd")),
        (json!({"summary": [part("s"), part("t")], "content": null}), Some("s\n\nt")),
        (json!({"summary": [part("s")], "encrypted_content": "sealed:raw"}), Some("raw")),
        (json!({"summary": [part("s")], "encrypted_content": "gAAAA"}), Some("s")),
        (json!({"summary": [], "encrypted_content": "gAAAA"}), None),
        (json!({"summary": [], "content": []}), None),
    ] {
        let mut message = json!({"role": "assistant", "content": "ok"});
        assert_eq!(
            assistant_message_of(item.clone(), &options(Profile::OpenAi)),
            message,
            "OpenAI takes none"
        );
        if let Some(expected) = expected {
            message["reasoning_content"] = json!(expected);
        }
        assert_eq!(assistant_message_of(item, &generic()), message);
    }
    let message = assistant_message_of(json!({"summary": [part("s")]}), &options(Profile::Vllm));
    assert_eq!(message, json!({"role": "assistant", "content": "ok", "reasoning": "s"}));
}

#[test]
fn references_are_resolved() {
    // I-13
    let stored = StoredItems::new(
        &[],
        &[json!({"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "a", "annotations": [], "logprobs": []}]})],
    );
    let input = json!([
        {"role": "user", "content": "hi"},
        {"type": "item_reference", "id": "msg_1"},
        {"role": "user", "content": "go on"},
    ]);
    let expected = json!([
        user(&json!("hi")), {"role": "assistant", "content": "a"}, user(&json!("go on")),
    ]);
    check_messages(&input, &stored.options(), &expected);
    let unknown = json!({"input": [{"type": "item_reference", "id": "msg_2"}]});
    refused(&unknown, &stored.options(), (RequestFault::InvalidValue, "input[0].id"));
}

#[test]
fn stored_items_precede_the_input() {
    // Q-27, §9.5
    let stored = StoredItems::new(
        &[
            json!({"id": "msg_0", "type": "message", "role": "user", "status": "completed",
                "content": [{"type": "input_text", "text": "hi"}]}),
            json!({"id": "rs_1", "type": "reasoning", "status": "completed",
                "summary": [{"type": "summary_text", "text": "s"}]}),
            json!({"id": "fc_1", "type": "function_call", "status": "completed", "call_id": "c1",
                "namespace": "n", "name": "f", "arguments": "{}"}),
            json!({"id": "ctc_1", "type": "custom_tool_call", "status": "completed",
                "call_id": "c2", "name": "patch", "input": "x"}),
        ],
        &[],
    );
    let members = json!({
        "instructions": "new", "previous_response_id": "resp_1",
        "input": [
            {"type": "function_call_output", "call_id": "c1", "output": "1"},
            {"type": "custom_tool_call_output", "call_id": "c2", "output": "2"},
        ],
    });
    let expected = json!([
        {"role": "system", "content": "new"},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": null, "reasoning_content": "s", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "n__f", "arguments": "{}"}},
            {"id": "c2", "type": "function", "function": {"name": "patch", "arguments": "{\"input\":\"x\"}"}},
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
        {"role": "tool", "tool_call_id": "c2", "content": "2"},
    ]);
    assert_eq!(chat(&members, &stored.options())["messages"], expected);
    assert_eq!(echo(&members, &stored.options())["previous_response_id"], "resp_1");
}

#[test]
fn an_error_in_a_stored_item_names_previous_response_id() {
    let stored = StoredItems::new(
        &[json!({"role": "user", "content": [{"type": "input_file", "file_data": "x"}]})],
        &[],
    );
    let expected = (RequestFault::UnsupportedContentPart, "previous_response_id");
    let none = InputModalities { images: true, files: false, audio: false };
    let options = TranslateOptions { inputs: none, ..stored.options() };
    refused(&json!({"previous_response_id": "resp_1"}), &options, expected);
}

#[test]
fn records_of_hosted_tools_are_omitted_if_configured() {
    // I-15
    let input = json!([
        {"role": "user", "content": "hi"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}},
        {"type": "image_generation_call", "id": "ig_1", "result": "AA"},
        {"role": "assistant", "content": "ok"},
    ]);
    let options = TranslateOptions { hosted_tools: HostedTools::Omit, ..generic() };
    let expected = json!([user(&json!("hi")), {"role": "assistant", "content": "ok"}]);
    check_messages(&input, &options, &expected);
    assert_eq!(
        losses(&json!({"input": input}), &options).as_deref(),
        Some("hosted_tool_omitted=web_search_call; hosted_tool_omitted=image_generation_call")
    );
    let other = json!({"input": [{"type": "file_search_call"}]});
    refused(&other, &options, (RequestFault::UnsupportedInputItem, "input[0].type"));
}
