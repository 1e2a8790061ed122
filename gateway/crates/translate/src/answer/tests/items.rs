//! Messages, reasoning, ids and the object: a test for each rule of §4.

use super::*;
use crate::plan::ReasoningOutput;

#[test]
fn r_1_a_message_needs_text_or_a_refusal() {
    let body = message(
        json!({"content": null, "tool_calls": [{"id": "c", "function": {"name": "f"}}]}),
        "stop",
    );
    assert_eq!(
        answer(plan(), &body)["output"].as_array().unwrap().len(),
        1,
        "no empty message beside a call"
    );
    let body = message(json!({"content": "", "reasoning": "why"}), "stop");
    assert_eq!(answer(plan(), &body)["output"][0]["type"], "reasoning");
    let empty = answer(plan(), &message(json!({"content": null}), "stop"));
    assert_eq!(empty["output"][0]["content"][0]["text"], "");
}

#[test]
fn r_2_output_text_always_has_both_arrays() {
    let run = run_ok(plan(), &[text("a"), finish("stop")]);
    let part = &run.output()[0]["content"][0];
    assert_eq!(
        *part,
        json!({"type": "output_text", "text": "a", "annotations": [], "logprobs": []})
    );
}

#[test]
fn r_3_a_refusal_after_text_is_a_second_part() {
    let run = run_ok(
        plan(),
        &[
            text("a"),
            delta(json!({"refusal": "n"})),
            delta(json!({"refusal": "o"})),
            finish("stop"),
        ],
    );
    assert_eq!(run.output().len(), 1);
    assert_eq!(run.output()[0]["content"][1], json!({"type": "refusal", "refusal": "no"}));
    assert_eq!(run.all("response.refusal.delta", "content_index"), [1, 1]);
    assert_eq!(run.response()["status"], "completed");
}

#[test]
fn r_4_annotations_are_flat_and_part_of_their_text() {
    let citation = json!([
        {"type": "url_citation", "url_citation": {"url": "https://a", "title": "A", "start_index": 0, "end_index": 1}},
        {"type": "other"},
    ]);
    let flat = json!({"type": "url_citation", "url": "https://a", "title": "A", "start_index": 0, "end_index": 1});
    let run = run_ok(
        plan(),
        &[text("a"), delta(json!({"content": "", "annotations": citation})), finish("stop")],
    );
    assert_eq!(run.output()[0]["content"][0]["annotations"], json!([flat]));
    let body = message(json!({"content": "a", "annotations": citation, "refusal": "no"}), "stop");
    assert_eq!(answer(plan(), &body)["output"][0]["content"][0]["annotations"], json!([flat]));
}

#[test]
fn r_7_usage_is_read_in_every_dialect() {
    let check = |usage: Value, expected: [u64; 5]| {
        let mut body = message(json!({"content": "a"}), "stop");
        body["usage"] = usage;
        let usage = answer(plan(), &body)["usage"].clone();
        let [input, cached, write, output, reasoning] = expected;
        let total = input + output;
        assert_eq!(
            usage,
            json!({
                "input_tokens": input,
                "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": write},
                "output_tokens": output,
                "output_tokens_details": {"reasoning_tokens": reasoning},
                "total_tokens": total,
            })
        );
    };
    check(json!({"prompt_tokens": 9, "completion_tokens": 5}), [9, 0, 0, 5, 0]);
    check(
        json!({"prompt_tokens": 9, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 99, "cache_write_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 3}}),
        [9, 9, 2, 5, 3],
    );
    check(
        json!({"input_tokens": 9, "output_tokens": null, "prompt_cache_hit_tokens": 4}),
        [9, 4, 0, 5, 0],
    );
    // Without upstream usage: the counted usage.
    check(Value::Null, [10, 0, 0, 5, 0]);
}

#[test]
fn r_7_the_last_usage_of_a_stream_wins() {
    let with_usage = |output: u64| {
        json!({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": output}})
            .to_string()
    };
    let chunks = [with_usage(1), text("a"), with_usage(2), finish("stop"), with_usage(3)];
    assert_eq!(run_ok(plan(), &chunks).response()["usage"]["output_tokens"], 3);
}

#[test]
fn r_8_reasoning_is_read_from_one_field_per_chunk() {
    let check = |pieces: Value| {
        let chunks = [delta(pieces.clone()), text("a"), finish("stop")];
        let run = run_ok(plan(), &chunks);
        assert_eq!(
            run.output()[0]["summary"],
            json!([{"type": "summary_text", "text": "why"}]),
            "{pieces}"
        );
        assert_eq!(run.output().len(), 2);
    };
    check(json!({"reasoning_content": "why"}));
    check(json!({"reasoning": "why", "content": ""}));
    check(
        json!({"reasoning_details": [{"type": "reasoning.text", "text": "wh"}, {"text": "y"}, {"type": "reasoning.encrypted"}]}),
    );
    check(json!({"reasoning_content": "why", "reasoning": "why"}));
    check(json!({"reasoning_content": "", "reasoning": "why"}));
    check(json!({"reasoning": "why", "reasoning_details": [{"text": "why"}]}));
}

#[test]
fn r_8_and_s_9_reasoning_appears_as_planned() {
    let run = |reasoning| {
        let chunks = [delta(json!({"reasoning": "why"})), text("a"), finish("stop")];
        run_ok(ResponsePlan { reasoning, ..plan() }, &chunks)
    };
    let hidden = run(ReasoningOutput::Hidden);
    assert_eq!(hidden.output()[0]["summary"], json!([]));
    assert!(!hidden.bytes.contains("why"));
    let content = run(ReasoningOutput::Content);
    assert_eq!(content.output()[0]["content"], json!([{"type": "reasoning_text", "text": "why"}]));
    assert_eq!(content.all("response.reasoning_text.delta", "delta"), ["why"]);
    let summary = run(ReasoningOutput::Summary);
    assert_eq!(summary.all("response.reasoning_summary_text.delta", "delta"), ["why"]);
    assert!(summary.output()[0].get("content").is_none());
}

#[test]
fn r_9_reasoning_is_sealed_on_request() {
    let chunks = [delta(json!({"reasoning": "a\n\"b\" 😀"})), finish("stop")];
    for reasoning in [ReasoningOutput::Summary, ReasoningOutput::Content, ReasoningOutput::Hidden] {
        let run = run_ok(ResponsePlan { seals_reasoning: true, reasoning, ..plan() }, &chunks);
        assert_eq!(run.output()[0]["encrypted_content"], "gwr1:a\n\"b\" 😀");
    }
    assert!(run_ok(plan(), &chunks).output()[0].get("encrypted_content").is_none());
}

#[test]
fn r_10_item_ids_are_generated_and_unique() {
    let chunks = [
        delta(json!({"reasoning": "r"})),
        text("a"),
        call(json!({"index": 0, "id": "call_1", "function": {"name": "f", "arguments": "{}"}})),
        call(
            json!({"index": 1, "id": "call_2", "function": {"name": "apply_patch", "arguments": "{}"}}),
        ),
        finish("stop"),
    ];
    let run = run_ok(plan(), &chunks);
    let ids: Vec<_> = run.output().iter().map(|item| item["id"].as_str().unwrap()).collect();
    for (id, prefix) in ids.iter().zip(["rs_", "msg_", "fc_", "ctc_"]) {
        let random = id.strip_prefix(prefix).unwrap();
        assert_eq!(random.len(), 32);
        assert!(random.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
    for event in &run.events {
        if let Some(id) = event["response"].get("id") {
            assert_eq!(id, ID, "§0.1.1");
        }
    }
}

#[test]
fn r_12_only_choice_0_is_read() {
    let other = json!({"choices": [
        {"index": 1, "delta": {"content": "x"}, "finish_reason": "length"},
        {"index": 0, "delta": {"content": "a"}},
    ]});
    let run = run_ok(plan(), &[other.to_string(), finish("stop")]);
    assert_eq!(run.output()[0]["content"][0]["text"], "a");
    assert_eq!(run.response()["status"], "completed");
}

#[test]
fn r_12_an_answer_without_choices_is_invalid() {
    let check =
        |body: &str| parse_whole(body, &envelope(), Arc::new(plan()), |_| {}).err().unwrap();
    for body in ["{}", r#"{"choices":[]}"#, r#"{"choices":[{"index":1}]}"#, "<html>", "[]"] {
        assert!(matches!(check(body), ProtocolViolation::Invalid(_)), "{body}");
    }
    let reported = ProtocolViolation::Reported(ReportedError {
        message: Some("m".to_owned()),
        ..ReportedError::default()
    });
    assert_eq!(check(r#"{"error":{"message":"m"}}"#), reported);
    assert_eq!(check(r#"{"object":"error","message":"m"}"#), reported);
}

#[test]
fn r_14_log_probabilities_are_delivered_on_request() {
    let chunk = |token: &str| {
        json!({"choices": [{"index": 0, "delta": {"content": token},
            "logprobs": {"content": [{"token": token, "logprob": -0.5, "top_logprobs": []}]}}]})
        .to_string()
    };
    let chunks = [chunk("a"), chunk("b"), finish("stop")];
    let run = run_ok(ResponsePlan { logprobs: true, ..plan() }, &chunks);
    let part = &run.output()[0]["content"][0];
    let tokens: Vec<_> =
        part["logprobs"].as_array().unwrap().iter().map(|it| &it["token"]).collect();
    assert_eq!(tokens, ["a", "b"]);
    assert_eq!(run.all("response.output_text.delta", "logprobs")[0][0]["token"], "a");
    assert_eq!(run_ok(plan(), &chunks).output()[0]["content"][0]["logprobs"], json!([]));
}

#[test]
fn content_may_be_an_array_of_parts() {
    let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    let run = run_ok(plan(), &[delta(json!({"content": parts})), finish("stop")]);
    assert_eq!(run.all("response.output_text.delta", "delta"), ["ab"]);
    let whole = answer(plan(), &message(json!({"content": parts}), "stop"));
    assert_eq!(whole["output"][0]["content"][0]["text"], "ab");
}

#[test]
fn escapes_reach_the_client_unchanged() {
    let chunks = [
        r#"{"choices":[{"delta":{"content":"a\u0000\u00e9\/\n"}}]}"#,
        r#"{"choices":[{"delta":{"content":"\ud83d"}}]}"#,
        r#"{"choices":[{"delta":{"content":"\ude00"},"finish_reason":"stop"}]}"#,
    ];
    let run = run_ok(plan(), &chunks);
    assert_eq!(run.output()[0]["content"][0]["text"], "a\0é/\n😀");
    assert!(run.bytes.contains(r#""delta":"a\u0000\u00e9\/\n""#));
    assert_eq!(run.all("response.output_text.delta", "delta"), ["a\0é/\n", "😀"]);
}

#[test]
fn the_object_has_the_echo_and_the_service_tier() {
    let body = json!({"service_tier": "flex", "choices": [{"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}]});
    let object = answer(plan(), &body);
    assert_eq!(object["service_tier"], "flex");
    assert_eq!(object["model"], "m");
    assert_eq!(object["temperature"], 1);
    assert_eq!(
        (&object["created_at"], &object["completed_at"]),
        (&json!(1_790_000_000), &json!(1_790_000_001))
    );
    assert_eq!(
        answer(plan(), &message(json!({"content": "a"}), "stop"))["service_tier"],
        "default"
    );
    let run = run_ok(plan(), &[body.to_string().replace("message", "delta")]);
    assert_eq!(run.response()["service_tier"], "flex");
}

#[test]
fn streaming_and_non_streaming_answers_have_the_same_items() {
    let content = json!({
        "content": "a", "refusal": "no", "reasoning_content": "why",
        "tool_calls": [
            {"id": "call_1", "function": {"name": "f", "arguments": "{\"a\":1}"}},
            {"id": "call_1", "function": {"name": "apply_patch", "arguments": "{\"input\":\"x\"}"}},
            {"id": "", "function": {"name": "tool_search", "arguments": {"query": "q"}}},
            {"function": {"name": "mcp__x__f", "arguments": ""}},
        ],
    });
    let whole = answer(plan(), &message(content.clone(), "tool_calls"));
    let mut streamed = content;
    for (index, entry) in streamed["tool_calls"].as_array_mut().unwrap().iter_mut().enumerate() {
        entry["index"] = index.into();
    }
    let run = run_ok(plan(), &[delta(streamed), finish("tool_calls")]);
    assert_eq!(*run.response(), whole);
    let kinds: Vec<_> = run.output().iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "reasoning",
            "message",
            "function_call",
            "custom_tool_call",
            "tool_search_call",
            "function_call"
        ]
    );
}
