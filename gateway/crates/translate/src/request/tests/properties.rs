//! Invariants for arbitrary, large, deep and malformed requests.

use proptest::prelude::*;

use super::*;
use crate::report::Loss;

/// Arbitrary JSON with strings of real requests.
fn request_like_json() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "message",
        "user",
        "assistant",
        "system",
        "developer",
        "function",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "reasoning",
        "item_reference",
        "additional_tools",
        "tool_search_call",
        "tool_search_output",
        "client",
        "custom",
        "namespace",
        "tool_search",
        "web_search",
        "input_text",
        "output_text",
        "refusal",
        "input_image",
        "input_file",
        "auto",
        "required",
        "none",
        "allowed_tools",
        "grammar",
        "json_schema",
        "c1",
        "c2",
        "{}",
        "{",
        "",
        "[{\"type\":\"input_image\",\"image_url\":\"x\"}]",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        word.prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 8, |inner| {
        let name = prop::sample::select(vec![
            "type",
            "role",
            "content",
            "id",
            "call_id",
            "name",
            "namespace",
            "arguments",
            "input",
            "output",
            "tools",
            "summary",
            "text",
            "encrypted_content",
            "execution",
            "image_url",
            "detail",
            "parameters",
            "strict",
            "format",
            "mode",
            "function",
            "status",
            "schema",
            "defer_loading",
            "allowed_callers",
            "syntax",
            "definition",
            "file_data",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..8).prop_map(|members| {
                let members = members.into_iter().map(|(name, value)| (name.to_owned(), value));
                Value::Object(members.collect())
            }),
        ]
    })
}

fn all_terms() -> [TranslateOptions<'static>; 4] {
    let omit = TranslateOptions { hosted_tools: HostedTools::Omit, ..options(Profile::Ollama) };
    let strict = TranslateOptions { strict: true, ..options(Profile::OpenAi) };
    [generic(), options(Profile::Vllm), omit, strict]
}

/// Translates a request and checks the invariants.
fn check(body: &[u8]) -> Result<(), TestCaseError> {
    for options in all_terms() {
        match Request::parse(body).and_then(|request| request.translate(&options)) {
            Ok(translated) => {
                let sent: Value =
                    serde_json::from_slice(&translated.chat_body("up", None)).unwrap();
                check_chat(&sent)?;
                let echo = format!("{{{}}}", translated.plan.echo);
                prop_assert!(serde_json::from_str::<&RawValue>(&echo).is_ok());
                prop_assert!(!echo.contains('\n'));
                let notes = translated.plan.report.notes();
                let harmless = notes.iter().all(|note| note.loss == Loss::ReasoningDropped);
                prop_assert!(!options.strict || harmless, "{notes:?}");
            }
            Err(Refusal::InvalidRequest { code, param, message }) => {
                prop_assert!(param.is_some() || code == RequestFault::InvalidJson, "{message}");
                prop_assert!(message.len() < 10_000);
            }
            Err(other) => prop_assert!(false, "{other:?}"),
        }
    }
    Ok(())
}

/// Checks that every call is answered once, right after its message, and that call ids are unique.
fn check_chat(sent: &Value) -> Result<(), TestCaseError> {
    let messages = sent["messages"].as_array().unwrap();
    prop_assert!(!messages.is_empty());
    let mut awaited: Vec<&Value> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for message in messages {
        if message["role"] == "tool" {
            prop_assert!(!awaited.is_empty(), "an output without a call: {sent}");
            prop_assert_eq!(awaited.remove(0), &message["tool_call_id"]);
            continue;
        }
        prop_assert!(awaited.is_empty(), "a call without an output: {}", sent);
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            prop_assert!(seen.insert(call["id"].to_string()));
            awaited.push(&call["id"]);
        }
    }
    prop_assert!(awaited.is_empty());
    Ok(())
}

fn any_items() -> impl Strategy<Value = Value> {
    let id = prop::sample::select(vec!["c1", "c2", "c1_2"]);
    let item = (0..7, id).prop_map(|(kind, id)| match kind {
        0 => json!({"role": "user", "content": "u"}),
        1 => json!({"role": "system", "content": "s"}),
        2 => json!({"role": "assistant", "content": "a"}),
        3 => json!({"type": "reasoning", "summary": [{"text": "r"}]}),
        4 => json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"}),
        5 => json!({"type": "custom_tool_call", "call_id": id, "name": "f", "input": "x"}),
        _ => json!({"type": "function_call_output", "call_id": id, "output": [
            {"type": "input_text", "text": "x"}, {"type": "input_image", "image_url": "x"},
        ]}),
    });
    prop::collection::vec(item, 1..14).prop_map(Value::from)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn arbitrary_bytes_do_not_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        check(&body)?;
    }

    #[test]
    fn arbitrary_json_does_not_panic(
        input in request_like_json(), tools in request_like_json(), choice in request_like_json(), text in request_like_json(),
    ) {
        let body = json!({"model": "m", "input": input, "tools": tools, "tool_choice": choice, "text": text});
        check(body.to_string().as_bytes())?;
        check(json!({"model": "m", "input": [input]}).to_string().as_bytes())?;
        check(json!({"model": "m", "input": "x", "tools": [tools], "tool_choice": choice}).to_string().as_bytes())?;
    }

    #[test]
    fn any_sequence_of_items_becomes_a_valid_chat_request(input in any_items()) {
        check(json!({"model": "m", "input": input}).to_string().as_bytes())?;
    }

    #[test]
    fn a_truncated_body_is_refused(at in 0_usize..400) {
        let body = agents::codex().to_string();
        check(&body.as_bytes()[..at])?;
        prop_assert!(Request::parse(&body.as_bytes()[..at]).is_err());
    }
}

#[test]
fn a_hundred_thousand_items_take_linear_time() {
    // Quadratic time would be hours.
    let check = |body: &str| {
        let request = Request::parse(body.as_bytes()).unwrap();
        drop(request.translate(&options(Profile::LlamaCpp)));
    };
    let many = |item: &str| {
        format!(r#"{{"model":"m","input":[{}{item}]}}"#, format!("{item},").repeat(99_999))
    };
    for item in [
        r#"{"role":"user","content":"x"}"#,
        r#"{"role":"assistant","content":"x"}"#,
        r#"{"role":"system","content":"x"}"#,
        r#"{"type":"reasoning","summary":[{"text":"x"}]}"#,
        r#"{"type":"function_call","call_id":"c","name":"f","arguments":"{"}"#,
        r#"{"type":"function_call","call_id":"c","name":"f"},{"type":"function_call_output","call_id":"c","output":""}"#,
        r#"{"type":"additional_tools","tools":[{"type":"function","name":"f"},{"type":"x"}]}"#,
        r#"{"type":"web_search_call"}"#,
    ] {
        check(&many(item));
    }
    let fields: Vec<String> = (0..100_000).map(|n| format!(r#","f{n}":1"#)).collect();
    check(&format!(r#"{{"model":"m","input":"x"{}}}"#, fields.concat()));
}

#[test]
fn deep_nesting_is_forwarded_or_refused() {
    let deep = |inside: &str| format!("{}{inside}{}", "[".repeat(200_000), "]".repeat(200_000));
    let object = format!("{}1{}", r#"{"a":"#.repeat(100_000), "}".repeat(100_000));
    for body in [
        format!(r#"{{"model":"m","input":{}}}"#, deep("")),
        format!(r#"{{"model":"m","input":[{}]}}"#, deep("")),
        format!(r#"{{"model":"m","input":[{{"role":"user","content":{}}}]}}"#, deep("")),
        format!(r#"{{"model":"m","input":"x","metadata":{object}}}"#),
        format!(r#"{{"model":"m","input":"x","tool_choice":{object}}}"#),
        format!(r#"{{"model":"m","input":"x","future":{object}}}"#),
    ] {
        match Request::parse(body.as_bytes())
            .and_then(|request| request.translate(&generic()).map(drop))
        {
            Ok(()) => assert!(body.contains("future")),
            Err(refusal) => {
                assert!(matches!(refusal, Refusal::InvalidRequest { param: Some(_), .. }));
            }
        }
    }
    let schema = format!(r#"{{"type":"object","properties":{object}}}"#);
    let body = format!(
        r#"{{"model":"m","input":"x","tools":[{{"type":"function","name":"f","parameters":{schema}}}]}}"#
    );
    let translated = Request::parse(body.as_bytes()).unwrap().translate(&generic()).unwrap();
    let sent = translated.chat_body("up", None);
    let sent = std::str::from_utf8(&sent).unwrap();
    assert!(sent.contains(&schema), "schemas are passed on as they are");
    assert!(translated.plan.echo.contains(&schema));
}
