//! The merge algorithm and history repairs (§2.4, `I-19` to `I-27`).

use super::*;

/// Parses items: `u text`, `s text`, `a text`, `r text`, `c id`, `o id text`, `i id` (an image).
fn items(script: &str) -> Value {
    let item = |line: &str| {
        let mut words = line.trim().splitn(3, ' ');
        let (kind, id) = (words.next().unwrap(), words.next().unwrap_or_default());
        let text = words.next().unwrap_or_default();
        match kind {
            "u" => json!({"role": "user", "content": id}),
            "s" => json!({"role": "system", "content": id}),
            "a" => json!({"role": "assistant", "content": id}),
            "r" => {
                json!({"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": id}]})
            }
            "c" => json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"}),
            "o" => json!({"type": "function_call_output", "call_id": id, "output": text}),
            "i" => json!({"type": "function_call_output", "call_id": id, "output": [
                {"type": "input_text", "text": text}, {"type": "input_image", "image_url": "data:x"},
            ]}),
            other => panic!("{other}"),
        }
    };
    script.split(',').map(item).collect()
}

/// Returns messages in the same notation; an assistant message is `a text/reasoning[ids]`.
fn outline(script: &str, options: &TranslateOptions<'_>) -> String {
    let sent = chat(&json!({"input": items(script)}), options);
    let shown = sent["messages"].as_array().unwrap().iter().map(|message| {
        let content = match &message["content"] {
            Value::String(text) => text.clone(),
            Value::Null => "-".to_owned(),
            parts => parts
                .as_array()
                .unwrap()
                .iter()
                .map(|part| part["text"].as_str().map_or("(image)", |text| text).to_owned())
                .collect(),
        };
        match message["role"].as_str().unwrap() {
            "assistant" => {
                let reasoning = message["reasoning_content"].as_str();
                let reasoning = reasoning.map(|text| format!("/{text}")).unwrap_or_default();
                let calls = message["tool_calls"].as_array().map(|calls| {
                    let ids: Vec<_> =
                        calls.iter().map(|call| call["id"].as_str().unwrap()).collect();
                    format!("[{}]", ids.join(" "))
                });
                format!("a {content}{reasoning}{}", calls.unwrap_or_default())
            }
            "tool" => format!("t {} {content}", message["tool_call_id"].as_str().unwrap()),
            role => format!("{} {content}", &role[..1]),
        }
    });
    shown.collect::<Vec<_>>().join(", ")
}

#[test]
fn a_turn_is_one_message() {
    for (rule, script, expected) in [
        ("step 1", "u x, r a, r b, a y", "u x, a y/a\n\nb"),
        ("step 1", "u x, r a, r a, a y", "u x, a y/a"),
        ("step 2", "u x, a y, a z", "u x, a y\nz"),
        ("step 2", "u x, c 1, a y, o 1 k", "u x, a y[1], t 1 k"),
        ("step 2", "u x, c 1, c 2, o 1 k, a y, o 2 l", "u x, a y[1 2], t 1 k, t 2 l"),
        ("step 3", "u x, a y, c 1, c 2, o 1 k, o 2 l", "u x, a y[1 2], t 1 k, t 2 l"),
        ("step 4", "u x, c 1, o 1 k, a y", "u x, a -[1], t 1 k, a y"),
        ("step 5", "u x, c 1, u z, o 1 k, a y", "u x, a -[1], t 1 k, u z, a y"),
        ("step 5", "u x, c 1, s z, o 1 k, a y", "u x, a -[1], t 1 k, s z, a y"),
        ("step 6", "u x, c 1, u z, o 1 k", "u x, a -[1], t 1 k, u z"),
        ("I-4", "s x, u y", "s x, u y"),
        ("I-21", "u x, c 1, c 2, o 2 l, o 1 k", "u x, a -[1 2], t 1 k, t 2 l"),
        ("I-21", "u x, c 1, o 1 k, c 2, o 2 l", "u x, a -[1], t 1 k, a -[2], t 2 l"),
        ("I-21", "c 1, c 2, o 1 k, c 3, o 2 l, o 3 m", "a -[1 2], t 1 k, t 2 l, a -[3], t 3 m"),
        ("I-21", "c 1, u x, c 2, o 1 k, o 2 l", "a -[1], t 1 k, u x, a -[2], t 2 l"),
        ("I-8", "u x, r a, a , u y", "u x, a /a, u y"),
        ("I-26", "u x, a , c 1, o 1 k", "u x, a -[1], t 1 k"),
        ("I-12", "u x, r a, c 1, o 1 k, r b, a y", "u x, a -/a[1], t 1 k, a y/b"),
    ] {
        assert_eq!(outline(script, &generic()), expected, "{rule}: {script}");
        assert_eq!(losses(&json!({"input": items(script)}), &generic()), None, "{rule}: {script}");
    }
}

#[test]
fn images_of_results_follow_the_tool_messages() {
    // I-19, I-20
    let script = "c 1, c 2, i 1 k, o 2 l, u x";
    let lifted = "a -[1 2], t 1 k, t 2 l, u From the result of call 1:(image), u x";
    assert_eq!(outline(script, &generic()), lifted);
    let alone = "a -[1], t 1 [image attached below], u From the result of call 1:(image)";
    assert_eq!(outline("c 1, i 1", &generic()), alone);
    let both = "a -[1 2], t 1 k, t 2 l, u From the result of call 1:(image)From the result of call 2:(image)";
    assert_eq!(outline("c 1, c 2, i 2 l, i 1 k", &generic()), both);
    assert_eq!(outline(script, &options(Profile::Vllm)), "a -[1 2], t 1 k(image), t 2 l, u x");
}

#[test]
fn history_repairs_are_reported() {
    const NONE: &str = "[no output: the call was interrupted]";
    for (rule, script, expected, loss) in [
        ("I-23", "c 1, u x", format!("a -[1], t 1 {NONE}, u x"), "output_invented=1"),
        ("I-23", "u x, c 1", format!("u x, a -[1], t 1 {NONE}"), "output_invented=1"),
        (
            "I-23",
            "c 1, c 2, o 2 l, a y",
            format!("a -[1 2], t 1 {NONE}, t 2 l, a y"),
            "output_invented=1",
        ),
        ("I-23", "c 1, u x, a y", format!("a -[1], t 1 {NONE}, u x, a y"), "output_invented=1"),
        (
            "I-24",
            "c 1, o 1 k, c 1, o 1 l",
            "a -[1], t 1 k, a -[1_2], t 1_2 l".to_owned(),
            "call_id_changed=1",
        ),
        (
            "I-24",
            "c 1, c 1, o 1 k, o 1 l",
            "a -[1 1_2], t 1 k, t 1_2 l".to_owned(),
            "call_id_changed=1",
        ),
        (
            "I-24",
            "c 1_2, c 1, c 1, o 1 k, o 1 l, o 1_2 m",
            "a -[1_2 1 1_3], t 1_2 m, t 1 k, t 1_3 l".to_owned(),
            "call_id_changed=1",
        ),
        ("I-27", "u x, r a, u y", "u x, u y".to_owned(), "reasoning_dropped=rs"),
        ("I-27", "u x, r a", "u x".to_owned(), "reasoning_dropped=rs"),
    ] {
        assert_eq!(outline(script, &generic()), expected, "{rule}: {script}");
        let reported = losses(&json!({"input": items(script)}), &generic());
        assert_eq!(reported.as_deref(), Some(loss), "{rule}: {script}");
    }
    let broken = json!([{"type": "function_call", "call_id": "1", "name": "f", "arguments": "{"},
        {"type": "function_call_output", "call_id": "1", "output": "k"}]);
    let reported = losses(&json!({"input": broken}), &generic());
    assert_eq!(reported.as_deref(), Some("arguments_wrapped=1"), "I-9b");
}

#[test]
fn an_output_needs_an_earlier_unanswered_call() {
    // I-22
    for (script, param) in [
        ("o 1 k", "input[0].call_id"),
        ("o 1 k, c 1", "input[0].call_id"),
        ("c 1, o 1 k, o 1 l", "input[2].call_id"),
        ("c 1, o 2 k", "input[1].call_id"),
    ] {
        let members = json!({"input": items(script)});
        let message = refused(&members, &generic(), (RequestFault::InvalidValue, param));
        assert!(message.starts_with("No tool call found for function call output"), "{message}");
    }
}

/// `I-12`. Regression: this was not reported.
#[test]
fn reasoning_is_a_loss_if_the_upstream_accepts_none() {
    let members = json!({"input": items("u x, r a, a b, u y")});
    assert_eq!(losses(&members, &generic()), None);
    let openai = options(Profile::OpenAi);
    assert_eq!(losses(&members, &openai).as_deref(), Some("reasoning_dropped=rs"));
    let strict = TranslateOptions { strict: true, ..openai };
    refused(&members, &strict, (RequestFault::InvalidValue, "input[1]"));
}

/// `I-12`: Codex repeats such a blob in every request, so even strict options must accept it.
#[test]
fn unreadable_reasoning_is_reported_but_never_refused() {
    for item in [
        json!({"summary": [], "encrypted_content": "gAAAA"}),
        json!({"summary": [], "encrypted_content": ""}),
        json!({"summary": []}),
    ] {
        let mut item = item;
        item["type"] = json!("reasoning");
        item["id"] = json!("rs_1");
        let input =
            json!([{"role": "user", "content": "x"}, item, {"role": "assistant", "content": "y"}]);
        for profile in [Profile::Generic, Profile::OpenAi] {
            for strict in [false, true] {
                let options = TranslateOptions { strict, ..options(profile) };
                let reported = losses(&json!({"input": input}), &options);
                assert_eq!(reported.as_deref(), Some("reasoning_dropped=rs_1"), "{input}");
            }
        }
    }
}
