//! Start and end of streams: §4.3, §5.4, §5.7 and §5.9.

use super::*;
use domain::wire::chunk::ChunkView;

#[test]
fn the_finish_reason_decides_the_status() {
    let check = |reason: &str, status: &str, detail: Value, item: &str| {
        let run = run_ok(plan(), &[text("a"), finish(reason), "[DONE]".to_owned()]);
        let whole = answer(plan(), &message(json!({"content": "a"}), reason));
        for response in [run.response(), &whole] {
            assert_eq!(response["status"], status, "{reason}");
            assert_eq!(response["incomplete_details"], detail);
            assert_eq!(response["output"][0]["status"], item);
            assert_eq!(response["completed_at"].is_null(), status != "completed");
        }
        assert_eq!(run.kinds().last(), Some(&&*format!("response.{status}")));
    };
    for reason in ["stop", "tool_calls", "function_call", "eos", "", "something new"] {
        check(reason, "completed", Value::Null, "completed");
    }
    for reason in ["length", "max_tokens", "model_length"] {
        check(reason, "incomplete", json!({"reason": "max_output_tokens"}), "incomplete");
    }
    for reason in ["content_filter", "safety", "refusal"] {
        check(reason, "incomplete", json!({"reason": "content_filter"}), "incomplete");
    }
}

#[test]
fn incomplete_calls_of_an_incomplete_answer_are_incomplete() {
    let chunks = [
        text("a"),
        call(json!({"index": 0, "id": "c", "function": {"name": "f", "arguments": "{\"a"}})),
        call(json!({"index": 1, "id": "d", "function": {"name": "f", "arguments": "{"}})),
        finish("length"),
    ];
    let run = run_ok(plan(), &chunks);
    let status: Vec<_> = run.output().iter().map(|item| item["status"].as_str().unwrap()).collect();
    assert_eq!(status, ["completed", "incomplete", "incomplete"]);
    // A complete call is completed even if the answer is incomplete.
    let mut whole = chunks;
    whole[1] =
        call(json!({"index": 0, "id": "c", "function": {"name": "f", "arguments": "{\"a\":1}"}}));
    let run = run_ok(plan(), &whole);
    let status: Vec<_> = run.output().iter().map(|item| item["status"].as_str().unwrap()).collect();
    assert_eq!(status, ["completed", "completed", "incomplete"]);
}

/// `S-8c`. Regression: these calls were `completed`, and clients ran them.
#[test]
fn a_truncated_call_is_incomplete_whatever_follows() {
    let piece = |index: u32, name: &str, arguments: &str| {
        let id = format!("c{index}");
        call(json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}}))
    };
    let cut = [("f", "{\"a"), ("apply_patch", "{\"input\":\"*** Begin")];
    let behind = [
        piece(1, "get", "{\"b"),
        piece(1, "get", "{}"),
        text("b"),
        delta(json!({"reasoning": "why"})),
        delta(json!({"refusal": "no"})),
    ];
    for reason in ["length", "content_filter"] {
        for (name, arguments) in cut {
            for behind in &behind {
                let chunks = [piece(0, name, arguments), behind.clone(), finish(reason)];
                let run = run_ok(plan(), &chunks);
                let status: Vec<_> = run.output().iter().map(|item| &item["status"]).collect();
                assert_eq!(status, ["incomplete"; 2], "{name}, {behind}");
                let done = run.all("response.output_item.done", "item");
                assert_eq!(done[0]["status"], "incomplete");
            }
        }
    }
    // The same calls are completed once their arguments are complete, in any order.
    let chunks = [
        piece(0, "f", "{\"a"),
        piece(1, "apply_patch", "{\"input\":\"x"),
        piece(0, "", "\":1}"),
        piece(1, "", "\"}"),
        finish("length"),
    ];
    let run = run_ok(plan(), &chunks);
    assert_eq!(run.output()[0]["status"], "completed");
}

#[test]
fn an_aborted_answer_is_a_violation() {
    for reason in ["error", "abort"] {
        let run = run_stream(plan(), &[text("a"), finish(reason), "[DONE]".to_owned()]);
        assert!(matches!(run.violation, Some(ProtocolViolation::Reported(_))));
        assert_eq!(run.response()["output"][0]["status"], "incomplete");
        let body = message(json!({"content": "a"}), reason).to_string();
        let violation = parse_whole(&body, &envelope(), Arc::new(plan()), |_| {}).err().unwrap();
        assert!(matches!(violation, ProtocolViolation::Reported(_)));
    }
}

/// Regression: such answers were not charged, although the upstream charges them.
#[test]
fn an_undeliverable_answer_is_still_observed() {
    let seen = |body: &str| {
        let allowed = ResponsePlan { allowed: Some(["f".to_owned()].into()), ..plan() };
        let mut seen = None;
        let observe = |view: &ChunkView<'_>| seen = view.usage.map(|usage| usage.get().to_owned());
        assert!(parse_whole(body, &envelope(), Arc::new(allowed), observe).is_err());
        seen
    };
    let called = json!({"content": "a", "tool_calls": [
        {"id": "c", "function": {"name": "get", "arguments": "{}"}},
    ]});
    for mut body in [
        message(json!({"content": "a"}), "error"),
        message(called, "tool_calls"),
        json!({"choices": []}),
    ] {
        body["usage"] = json!({"prompt_tokens": 7});
        assert_eq!(seen(&body.to_string()).as_deref(), Some(r#"{"prompt_tokens":7}"#), "{body}");
    }
    assert_eq!(seen("<html>"), None);
}

#[test]
fn an_end_without_finish_reason_is_a_cut_off() {
    let cut =
        |chunks: &[&str]| run_stream(plan(), chunks).violation == Some(ProtocolViolation::CutOff);
    let text_chunk = text("a");
    assert!(cut(&[]) && cut(&[&text_chunk]) && cut(&[&text_chunk, &finish("")]));
    assert!(!cut(&[&text_chunk, &finish("stop")]) && !cut(&[&text_chunk, &finish(""), "[DONE]"]));
}

/// §4.3. Regression: this was taken for the end of the answer.
#[test]
fn done_without_a_finish_reason_is_a_violation() {
    let text_chunk = text("a");
    for chunks in [&["[DONE]"][..], &[&text_chunk, "[DONE]"], &[&finish(""), &text_chunk, "[DONE]"]]
    {
        let run = run_stream(plan(), chunks);
        assert!(
            matches!(run.violation, Some(ProtocolViolation::Invalid(_))),
            "{chunks:?}: {:?}",
            run.violation
        );
        assert_eq!(run.kinds().last().copied(), Some("response.failed"), "{chunks:?}");
    }
}

/// §4.3. Regression: such an answer was `completed`.
#[test]
fn a_plain_answer_without_a_finish_reason_is_incomplete() {
    let call = json!({"id": "c", "function": {"name": "f", "arguments": "{\"a\":1}"}});
    for reason in [json!(null), json!("null"), json!("none")] {
        for said in [json!({"content": "a"}), json!({"content": "a", "tool_calls": [call]})] {
            let mut body = message(said, "stop");
            body["choices"][0]["finish_reason"] = reason.clone();
            let response = answer(plan(), &body);
            assert_eq!(response["status"], "incomplete", "{body}");
            assert_eq!(response["incomplete_details"], Value::Null);
            assert_eq!(response["completed_at"], Value::Null);
            let items = response["output"].as_array().unwrap();
            assert_eq!(items.last().unwrap()["status"], "incomplete");
        }
    }
}

/// `S-8c`
#[test]
fn the_truncated_call_of_a_plain_answer_is_incomplete() {
    let call = |id: &str, arguments: &str| json!({"id": id, "function": {"name": "f", "arguments": arguments}});
    for reason in [json!("length"), json!(null)] {
        let calls = [call("c", "{}"), call("d", "{\"a"), call("e", "{\"b")];
        let mut body = message(json!({"tool_calls": calls}), "length");
        body["choices"][0]["finish_reason"] = reason;
        let response = answer(plan(), &body);
        let items = response["output"].as_array().unwrap();
        let status: Vec<_> = items.iter().map(|item| item["status"].as_str().unwrap()).collect();
        assert_eq!(status, ["completed", "incomplete", "incomplete"]);
    }
}

/// §5.4
#[test]
fn an_empty_answer_has_one_empty_message() {
    for chunks in [vec![finish("stop")], vec![text(""), finish("length")]] {
        let run = run_ok(plan(), &chunks);
        assert_eq!(run.output().len(), 1);
        assert_eq!(run.output()[0]["content"][0]["text"], "");
        assert!(!run.bytes.contains("output_text.delta"));
    }
}

/// §5.4: neither in the first chunk nor beside calls.
#[test]
fn empty_text_opens_no_item() {
    let chunks = [
        delta(json!({"role": "assistant", "content": "", "reasoning": "", "refusal": null})),
        delta(
            json!({"content": "", "tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]}),
        ),
        finish("tool_calls"),
    ];
    let run = run_ok(plan(), &chunks);
    assert_eq!(run.output().len(), 1);
}

/// §5.4: some servers send calls in the last chunk or after it.
#[test]
fn chunks_after_the_finish_reason_are_read() {
    let late = call(json!({"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}));
    let run = run_ok(plan(), &[text("a"), finish("stop"), late, finish("length")]);
    assert_eq!(run.output().len(), 2);
    assert_eq!(run.response()["status"], "completed", "the first reason counts");
}

#[test]
fn s_5_and_5_7_a_failure_is_an_error_event_and_response_failed() {
    let run = run_stream(plan(), &[text("a"), r#"{"error":{"message":"boom"}}"#.to_owned()]);
    let kinds = run.kinds();
    assert_eq!(kinds[kinds.len() - 3..], ["response.output_item.done", "error", "response.failed"]);
    let error = &run.events[run.events.len() - 2];
    assert_eq!((&error["message"], &error["error"]["message"]), (&json!("boom"), &json!("boom")));
    assert_eq!(error["error"]["type"], "server_error");
    assert_eq!(run.response()["error"], json!({"code": "server_error", "message": "boom"}));
    assert_eq!(run.response()["status"], "failed");
    assert_eq!(run.response()["usage"], Value::Null);
    assert_eq!(run.output()[0]["status"], "incomplete");
    assert!(run.bytes.ends_with("data: [DONE]\n\n"));
}

/// §5.7: clients run a call on its done event, so an incomplete one has none.
#[test]
fn a_failure_drops_the_open_call() {
    let done = call(json!({"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}));
    let open = call(json!({"index": 1, "id": "d", "function": {"name": "f", "arguments": "{}"}}));
    let run = run_stream(plan(), &[text("a"), done, open, text("b")][..3]);
    assert_eq!(run.violation, Some(ProtocolViolation::CutOff));
    assert_eq!(run.output().len(), 2);
    assert_eq!(run.all("response.output_item.added", "output_index"), [0, 1, 2]);
    assert_eq!(run.all("response.output_item.done", "output_index"), [0, 1]);
    assert_eq!(run.all("response.function_call_arguments.done", "output_index"), [1]);
    assert_eq!(rebuild::rebuild_output(&run.events), *run.output());
}

#[test]
fn an_error_before_the_first_chunk_starts_no_stream() {
    let check = |data: &str, message: &str| {
        let mut stream = ResponseStream::new(&envelope(), Arc::new(plan()));
        let mut out = BytesMut::new();
        let violation = stream.push(data, &mut out, |_| {}).unwrap_err();
        assert!(violation.to_string().contains(message), "{data}: {violation}");
        assert!(out.is_empty() && !stream.has_started());
    };
    check(r#"{"error":{"message":"out of memory"}}"#, "out of memory");
    check(r#"{"error":"out of memory"}"#, "out of memory");
    check(r#"{"object":"error","message":"out of memory","code":400}"#, "out of memory");
    check("<html>", "not a chat chunk");
    check("{", "not a chat chunk");
    check("null", "not a chat chunk");
}

#[test]
fn empty_chunks_are_ignored() {
    let mut stream = ResponseStream::new(&envelope(), Arc::new(plan()));
    let mut out = BytesMut::new();
    for data in ["", " ", "{}", r#"{"type":"ping"}"#] {
        stream.push(data, &mut out, |_| {}).unwrap();
    }
    assert!(out.is_empty() && !stream.has_started());
    stream.push(r#"{"choices":[]}"#, &mut out, |_| {}).unwrap();
    assert!(stream.has_started());
}

/// §5.9
#[test]
fn no_event_precedes_response_created() {
    let mut stream = ResponseStream::new(&envelope(), Arc::new(plan()));
    let mut out = BytesMut::new();
    for kind in [KeepAlive::Comment, KeepAlive::InProgress, KeepAlive::Event] {
        stream.keep_alive(kind, &mut out);
    }
    assert!(out.is_empty());
    // The grace period ends before the first upstream chunk.
    stream.start(&mut out);
    stream.start(&mut out);
    for kind in [KeepAlive::Comment, KeepAlive::InProgress, KeepAlive::Event] {
        stream.keep_alive(kind, &mut out);
    }
    stream.push(&text("a"), &mut out, |_| {}).unwrap();
    let text = String::from_utf8(out.to_vec()).unwrap();
    let names: Vec<_> = text.lines().filter(|line| line.starts_with(['e', ':'])).collect();
    assert_eq!(
        names,
        [
            "event: response.created",
            "event: response.in_progress",
            ": keepalive",
            "event: response.in_progress",
            "event: keepalive",
            "event: response.output_item.added",
            "event: response.content_part.added",
            "event: response.output_text.delta",
        ]
    );
    assert!(text.contains("\"sequence_number\":3}"), "comments have no number");
}

#[test]
fn s_4_the_done_marker_can_be_disabled() {
    let envelope = Envelope { done_marker: false, ..envelope() };
    let mut stream = ResponseStream::new(&envelope, Arc::new(plan()));
    let mut out = BytesMut::new();
    stream.push(&finish("stop"), &mut out, |_| {}).unwrap();
    stream.push("[DONE]", &mut out, |_| {}).unwrap();
    assert!(stream.is_done());
    stream.close().unwrap();
    let outcome = stream.end(CompletionInfo { completed_at: 0, usage: usage() }, &mut out);
    assert_eq!(outcome, AnswerOutcome::Completed);
    assert!(!String::from_utf8(out.to_vec()).unwrap().contains("[DONE]"));
}

/// Regression: the buffer was unlimited for an upstream that sends nothing else.
#[test]
fn buffered_bytes_include_open_text_and_metadata() {
    let annotation =
        json!({"type": "url_citation", "url": "https://a", "title": "x".repeat(1_000)});
    let logprobs = json!({"content": [{"token": "x".repeat(1_000), "logprob": 0.0}]});
    for choice in [
        json!({"delta": {"annotations": [annotation]}}),
        json!({"delta": {"content": "a"}, "logprobs": logprobs}),
        json!({"delta": {}, "logprobs": logprobs}),
        json!({"delta": {"tool_calls": [{"index": 0, "id": "x".repeat(1_000)}]}}),
    ] {
        let plan = ResponsePlan { logprobs: true, ..plan() };
        let mut stream = ResponseStream::new(&envelope(), Arc::new(plan));
        let mut out = BytesMut::new();
        stream.push(&text("a"), &mut out, |_| {}).unwrap();
        assert_eq!(stream.buffered_bytes(), 1);
        for count in 1..=3 {
            let chunk = json!({"choices": [choice]}).to_string();
            stream.push(&chunk, &mut out, |_| {}).unwrap();
            let kept = stream.buffered_bytes();
            // A token includes its bytes as numbers.
            assert!((count * 1_000..count * 6_000).contains(&kept), "{kept} after {count}");
        }
    }
    let mut stream = ResponseStream::new(&envelope(), Arc::new(plan()));
    let parts = delta(json!({"content": "a", "refusal": "b"}));
    for _ in 0..100 {
        stream.push(&parts, &mut BytesMut::new(), |_| {}).unwrap();
    }
    assert!(stream.buffered_bytes() > 199 * 40, "each part is an object");
}
