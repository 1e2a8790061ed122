//! Top-level fields: mapping, echo and reported losses (`Q-1` to `Q-35`).

use super::*;

/// Checks members of the chat request; `null` means absent.
fn check(members: &Value, options: &TranslateOptions<'_>, expected: &Value) {
    let sent = chat(members, options);
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(sent[name], *value, "`{name}` for {members}");
        assert_eq!(sent.get(name).is_none(), value.is_null(), "`{name}` for {members}");
    }
}

fn openai() -> TranslateOptions<'static> {
    options(Profile::OpenAi)
}

#[test]
fn model_and_input_become_model_and_messages() {
    // Q-1, Q-2, Q-6
    let body = request(&json!({}));
    let translated = translate(&body, &generic()).unwrap();
    assert_eq!(translated.plan.model, "m");
    assert_eq!(
        &translated.chat_body("up/\"stream\"", None)[..],
        br#"{"model":"up/\"stream\"","messages":[{"role":"user","content":"hi"}],"stream":false}"#
    );
}

#[test]
fn request_fields_are_available_before_translation() {
    let body = json!({
        "model": "m", "stream": true, "store": false, "previous_response_id": "resp_1",
        "max_output_tokens": 9, "input": [
            {"type": "item_reference", "id": "a"}, {"id": "b"}, {"type": null, "id": "c"},
            {"role": "user", "content": "hi"},
        ],
    })
    .to_string();
    let request = Request::parse(body.as_bytes()).unwrap();
    assert_eq!(request.model, "m");
    assert!(request.stream);
    assert_eq!(request.store, Some(false));
    assert_eq!(request.previous_response_id.as_deref(), Some("resp_1"));
    assert_eq!(request.max_output_tokens, Some(9));
    assert_eq!(request.references().collect::<Vec<_>>(), ["a", "b", "c"]);
}

#[test]
fn fields_are_mapped_by_rule() {
    for (rule, members, expected) in [
        ("Q-6", json!({"stream": true}), json!({"stream": true})),
        (
            "Q-7",
            json!({"stream": true, "stream_options": {"include_obfuscation": true}}),
            json!({"stream_options": {"include_usage": true}}),
        ),
        ("Q-7", json!({"stream_options": {}}), json!({"stream": false, "stream_options": null})),
        (
            "Q-8",
            json!({"max_output_tokens": 1}),
            json!({"max_tokens": 1, "max_completion_tokens": null}),
        ),
        (
            "Q-9",
            json!({}),
            json!({"temperature": null, "top_p": null, "presence_penalty": null, "frequency_penalty": null}),
        ),
        (
            "Q-9",
            json!({"temperature": 0, "top_p": 0.5, "presence_penalty": -1, "frequency_penalty": 2}),
            json!({"temperature": 0, "top_p": 0.5, "presence_penalty": -1, "frequency_penalty": 2}),
        ),
        ("Q-10", json!({"top_logprobs": 3}), json!({"logprobs": true, "top_logprobs": 3})),
        ("Q-10", json!({"top_logprobs": 0}), json!({"logprobs": null, "top_logprobs": null})),
        (
            "Q-11",
            json!({"include": ["message.output_text.logprobs"]}),
            json!({"logprobs": true, "top_logprobs": null}),
        ),
        (
            "Q-11",
            json!({"include": ["reasoning.encrypted_content", "web_search_call.results"]}),
            json!({"logprobs": null, "include": null}),
        ),
        ("Q-14", json!({"parallel_tool_calls": false}), json!({"parallel_tool_calls": null})),
        (
            "Q-14",
            json!({"parallel_tool_calls": false, "tools": [{"type": "function", "name": "f"}]}),
            json!({"parallel_tool_calls": false}),
        ),
        ("Q-15", json!({"max_tool_calls": 1}), json!({"max_tool_calls": null})),
        (
            "Q-16",
            json!({"reasoning": {"effort": "ultra"}}),
            json!({"reasoning_effort": "ultra", "reasoning": null}),
        ),
        ("Q-17", json!({"reasoning": {"summary": "detailed"}}), json!({"reasoning_effort": null})),
        (
            "Q-19",
            json!({"text": {"format": {"type": "text"}}}),
            json!({"response_format": null, "text": null}),
        ),
        (
            "Q-20",
            json!({"text": {"format": {"type": "json_object"}}}),
            json!({"response_format": {"type": "json_object"}}),
        ),
        (
            "Q-21",
            json!({"text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}}}),
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}}),
        ),
        (
            "Q-21",
            json!({"text": {"format": {"type": "json_schema", "name": "n", "schema": {}, "strict": true, "description": "d"}}}),
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}, "strict": true, "description": "d"}}}),
        ),
        ("Q-22", json!({"text": {"verbosity": "low"}}), json!({"verbosity": null})),
        ("Q-23", json!({"service_tier": "flex"}), json!({"service_tier": null})),
        ("Q-24", json!({"metadata": {"a": "b"}}), json!({"metadata": null})),
        (
            "Q-25",
            json!({"user": "u", "safety_identifier": "s", "prompt_cache_key": "k", "prompt_cache_retention": "24h"}),
            json!({"user": null, "safety_identifier": null, "prompt_cache_key": null, "prompt_cache_retention": null}),
        ),
        ("Q-26", json!({"store": true}), json!({"store": null})),
        ("Q-30", json!({"background": false}), json!({"background": null})),
        ("Q-31", json!({"truncation": "auto"}), json!({"truncation": null})),
        ("Q-33", json!({"client_metadata": {"a": 1}}), json!({"client_metadata": null})),
        (
            "Q-35",
            json!({"verbosity": "low", "future": 1}),
            json!({"verbosity": null, "future": null}),
        ),
    ] {
        println!("{rule}");
        check(&members, &generic(), &expected);
    }
}

#[test]
fn the_openai_dialect_forwards_more_fields() {
    for (rule, members, expected) in [
        (
            "Q-8",
            json!({"max_output_tokens": 16}),
            json!({"max_tokens": null, "max_completion_tokens": 16}),
        ),
        (
            "Q-22",
            json!({"text": {"verbosity": "low"}, "verbosity": "high"}),
            json!({"verbosity": "low"}),
        ),
        ("Q-22", json!({"verbosity": "high"}), json!({"verbosity": null})),
        ("Q-23", json!({"service_tier": "ultrafast"}), json!({"service_tier": "ultrafast"})),
        ("Q-24", json!({"metadata": {"a": "b"}}), json!({"metadata": null})),
        (
            "Q-25",
            json!({"user": "u", "safety_identifier": "s", "prompt_cache_key": "k", "prompt_cache_retention": "24h"}),
            json!({"user": "u", "safety_identifier": "s", "prompt_cache_key": "k", "prompt_cache_retention": "24h"}),
        ),
    ] {
        println!("{rule}");
        check(&members, &openai(), &expected);
    }
}

#[test]
fn null_means_absent() {
    let names = [
        "instructions",
        "stream",
        "stream_options",
        "max_output_tokens",
        "temperature",
        "top_p",
        "presence_penalty",
        "frequency_penalty",
        "top_logprobs",
        "include",
        "tools",
        "additional_tools",
        "tool_choice",
        "parallel_tool_calls",
        "max_tool_calls",
        "reasoning",
        "text",
        "service_tier",
        "metadata",
        "user",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "store",
        "previous_response_id",
        "conversation",
        "prompt",
        "background",
        "truncation",
        "moderation",
        "client_metadata",
        "messages",
        "stop",
        "future",
    ];
    for name in names {
        let members = json!({name: null});
        assert_eq!(chat(&members, &generic()), chat(&json!({}), &generic()), "{name}");
        assert_eq!(echo(&members, &generic()), echo(&json!({}), &generic()), "{name}");
        assert_eq!(losses(&members, &generic()), None, "{name}");
    }
    for members in [
        json!({"reasoning": {"effort": null, "summary": null}}),
        json!({"text": {"format": null, "verbosity": null}}),
    ] {
        assert_eq!(chat(&members, &generic()), chat(&json!({}), &generic()), "{members}");
    }
}

/// `Q-22`. Regression: verbosity was sent to OpenAI upstreams only.
#[test]
fn verbosity_is_forwarded_if_the_model_accepts_it() {
    let takes = TranslateOptions { verbosity: true, ..generic() };
    let members = json!({"text": {"verbosity": "low"}});
    assert_eq!(chat(&members, &takes)["verbosity"], "low");
    assert_eq!(losses(&members, &takes), None);
}

#[test]
fn ignored_fields_are_reported() {
    for (rule, members, expected) in [
        ("Q-22", json!({"text": {"verbosity": "low"}}), Some("field_ignored=text.verbosity")),
        ("Q-22", json!({"text": {"verbosity": "medium"}}), None),
        ("Q-23", json!({"service_tier": "priority"}), Some("field_ignored=service_tier")),
        ("Q-23", json!({"service_tier": "auto"}), None),
        ("Q-33", json!({"client_metadata": {}}), None),
        (
            "Q-35",
            json!({"future": 1, "other": 2}),
            Some("field_ignored=future; field_ignored=other"),
        ),
    ] {
        assert_eq!(losses(&members, &generic()).as_deref(), expected, "{rule}: {members}");
    }
    assert_eq!(losses(&json!({"service_tier": "priority"}), &openai()), None);
}

#[test]
fn the_plan_has_the_requested_extras() {
    // Q-10, Q-11, R-9, R-14
    for (members, seals, logprobs) in [
        (json!({}), false, false),
        (json!({"include": ["reasoning.encrypted_content"]}), true, false),
        (json!({"include": ["message.output_text.logprobs"]}), false, true),
        (json!({"top_logprobs": 1}), false, true),
    ] {
        let plan = translate(&request(&members), &generic()).unwrap().plan;
        assert_eq!((plan.seals_reasoning, plan.logprobs), (seals, logprobs), "{members}");
    }
}

#[test]
fn the_echo_has_every_key() {
    // §4.1
    let expected = json!({
        "instructions": null, "max_output_tokens": null, "max_tool_calls": null,
        "previous_response_id": null, "safety_identifier": null, "prompt_cache_key": null,
        "parallel_tool_calls": true, "temperature": 1, "top_p": 1, "presence_penalty": 0,
        "frequency_penalty": 0, "top_logprobs": 0, "tool_choice": "auto",
        "truncation": "disabled", "metadata": {}, "store": false, "background": false,
        "reasoning": {"effort": null, "summary": null}, "text": {"format": {"type": "text"}},
        "tools": [],
    });
    assert_eq!(echo(&json!({}), &generic()), expected);
}

#[test]
fn the_echo_repeats_the_request() {
    let schema = json!({"type": "json_schema", "name": "n", "schema": {"type": "object"}});
    for (members, name, expected) in [
        (json!({"instructions": ""}), "instructions", json!("")), // Q-5
        (json!({"temperature": 0.25}), "temperature", json!(0.25)),
        (json!({"metadata": {"a": "b c"}}), "metadata", json!({"a": "b c"})), // Q-24
        (json!({"user": "u"}), "user", json!("u")),                           // Q-25
        (json!({"prompt_cache_retention": "24h"}), "prompt_cache_retention", json!("24h")),
        (json!({"truncation": "auto"}), "truncation", json!("auto")), // Q-31
        (json!({"max_tool_calls": 3}), "max_tool_calls", json!(3)),   // Q-15
        (json!({"store": true}), "store", json!(false)),              // Q-26
        (
            json!({"reasoning": {"generate_summary": "auto", "context": "all", "effort": "low"}}), // Q-17, Q-18
            "reasoning",
            json!({"effort": "low", "summary": "auto", "context": "all"}),
        ),
        (
            json!({"text": {"verbosity": "high"}}),
            "text",
            json!({"format": {"type": "text"}, "verbosity": "high"}),
        ),
        (
            json!({"text": {"format": schema}}),
            "text",
            json!({"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "description": null, "strict": false}}),
        ),
        (
            json!({"tools": [{"type": "function", "name": "f", "strict": null}, {"type": "custom", "name": "c"}]}),
            "tools",
            json!([
                {"type": "function", "name": "f", "strict": null, "description": null, "parameters": null},
                {"type": "custom", "name": "c"},
            ]),
        ),
        (
            json!({"tools": [{"type": "function", "name": "f"}], "tool_choice": {"type": "function", "name": "f"}}),
            "tool_choice",
            json!({"type": "function", "name": "f"}),
        ),
    ] {
        assert_eq!(echo(&members, &generic())[name], expected, "{members}");
    }
    assert_eq!(echo(&json!({"service_tier": "flex"}), &generic()).get("service_tier"), None);
}

#[test]
fn the_echo_is_one_line_for_any_layout_of_the_request() {
    let body = "{\n \"model\": \"m\",\r\n\t\"input\": \"hi\", \"metadata\": {\n \"a b\" : \"c\\\" \\n d\"\n},\
                \"tools\": [\n{\"type\": \"function\",\n \"name\": \"f\", \"parameters\": {\n} }\n]}";
    let translated = Request::parse(body.as_bytes()).unwrap().translate(&generic()).unwrap();
    let echo = &translated.plan.echo;
    assert!(echo.contains(r#""metadata":{"a b":"c\" \n d"}"#), "{echo}");
    assert!(echo.contains(r#""tools":[{"type":"function","name":"f","parameters":{},"#), "{echo}");
    assert!(!echo.contains('\n'));
}

#[test]
fn store_defaults_to_the_state_of_the_store() {
    // Q-26, §9.5
    let stored = StoredItems::default();
    for (members, options, expected) in [
        (json!({}), stored.options(), true),
        (json!({"store": true}), stored.options(), true),
        (json!({"store": false}), stored.options(), false),
        (json!({"store": true}), generic(), false),
    ] {
        let translated = translate(&request(&members), &options).unwrap();
        assert_eq!(translated.store, expected, "{members}");
        assert!(translated.plan.echo.contains(&format!("\"store\":{expected}")), "{members}");
    }
}
