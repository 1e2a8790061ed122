//! How streams begin and end: §4.3, §5.4, §5.7 and §5.9.

use super::*;
use domain::wire::chunk::ChunkView;

#[test]
fn status_is_as_the_finish_reason_says() {
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
fn only_the_last_item_of_a_cut_answer_is_incomplete() {
    let chunks = [
        text("a"),
        call(json!({"index": 0, "id": "c", "function": {"name": "f", "arguments": "{\"a"}})),
        call(json!({"index": 1, "id": "d", "function": {"name": "f", "arguments": "{"}})),
        finish("length"),
    ];
    let run = run_ok(plan(), &chunks);
    let status: Vec<_> = run.output().iter().map(|item| item["status"].as_str().unwrap()).collect();
    assert_eq!(status, ["completed", "incomplete", "incomplete"]);
    // a call that is whole is one, also where its answer is not
    let mut whole = chunks;
    whole[1] =
        call(json!({"index": 0, "id": "c", "function": {"name": "f", "arguments": "{\"a\":1}"}}));
    let run = run_ok(plan(), &whole);
    let status: Vec<_> = run.output().iter().map(|item| item["status"].as_str().unwrap()).collect();
    assert_eq!(status, ["completed", "completed", "incomplete"]);
}

/// `S-8c`: these were `completed`, and clients run such a call.
#[test]
fn a_call_that_was_cut_is_incomplete_whatever_waits_behind_it() {
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
    // the same pieces in full are calls, in whatever order they came
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
fn a_broken_answer_is_trouble() {
    for reason in ["error", "abort"] {
        let run = run_stream(plan(), &[text("a"), finish(reason), "[DONE]".to_owned()]);
        assert!(matches!(run.violation, Some(ProtocolViolation::Reported(_))));
        assert_eq!(run.response()["output"][0]["status"], "incomplete");
        let body = message(json!({"content": "a"}), reason).to_string();
        let violation = parse_whole(&body, &envelope(), Arc::new(plan()), |_| {}).err().unwrap();
        assert!(matches!(violation, ProtocolViolation::Reported(_)));
    }
}

/// It was forgotten, so that nobody was charged for what the upstream charges.
#[test]
fn an_answer_that_cannot_be_given_is_looked_at_all_the_same() {
    let seen = |body: &str| {
        let allowed = ResponsePlan { allowed: Some(["f".to_owned()].into()), ..plan() };
        let mut seen = None;
        let observe = |view: &ChunkView<'_>| seen = view.usage.map(ToString::to_string);
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
fn an_end_without_a_word_is_a_cut() {
    let cut =
        |chunks: &[&str]| run_stream(plan(), chunks).violation == Some(ProtocolViolation::CutOff);
    let said = text("a");
    assert!(cut(&[]) && cut(&[&said]) && cut(&[&said, &finish("")]));
    assert!(!cut(&[&said, &finish("stop")]) && !cut(&[&said, &finish(""), "[DONE]"]));
}

/// §4.3: it was taken for the end of the answer.
#[test]
fn an_end_marker_without_a_finish_reason_is_trouble() {
    let said = text("a");
    for chunks in [&["[DONE]"][..], &[&said, "[DONE]"], &[&finish(""), &said, "[DONE]"]] {
        let run = run_stream(plan(), chunks);
        assert!(
            matches!(run.violation, Some(ProtocolViolation::Invalid(_))),
            "{chunks:?}: {:?}",
            run.violation
        );
        assert_eq!(run.kinds().last().copied(), Some("response.failed"), "{chunks:?}");
    }
}

/// §5.4
#[test]
fn an_answer_of_nothing_has_one_empty_message() {
    for chunks in [vec![finish("stop")], vec![text(""), finish("length")]] {
        let run = run_ok(plan(), &chunks);
        assert_eq!(run.output().len(), 1);
        assert_eq!(run.output()[0]["content"][0]["text"], "");
        assert!(!run.bytes.contains("output_text.delta"));
    }
}

/// §5.4: empty text beside calls and in the first chunk opens nothing.
#[test]
fn empty_text_opens_nothing() {
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

/// §5.4.5: some servers send calls in the chunk that ends, or behind it.
#[test]
fn what_comes_after_the_finish_reason_counts() {
    let late = call(json!({"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}));
    let run = run_ok(plan(), &[text("a"), finish("stop"), late, finish("length")]);
    assert_eq!(run.output().len(), 2);
    assert_eq!(run.response()["status"], "completed", "the first reason counts");
}

#[test]
fn s_5_and_5_7_a_failure_is_an_error_and_then_the_end() {
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

/// §5.7: a client runs a call at its done event, so a broken one has none.
#[test]
fn an_open_call_is_left_out_of_a_failure() {
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
fn an_error_before_anything_else_starts_nothing() {
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
fn frames_that_say_nothing_are_ignored() {
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
fn nothing_comes_before_created() {
    let mut stream = ResponseStream::new(&envelope(), Arc::new(plan()));
    let mut out = BytesMut::new();
    for kind in [KeepAlive::Comment, KeepAlive::InProgress, KeepAlive::Event] {
        stream.keep_alive(kind, &mut out);
    }
    assert!(out.is_empty());
    // the grace period is over before the upstream has said a word
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
fn s_4_the_marker_can_be_switched_off() {
    let envelope = Envelope { done_marker: false, ..envelope() };
    let mut stream = ResponseStream::new(&envelope, Arc::new(plan()));
    let mut out = BytesMut::new();
    stream.push(&finish("stop"), &mut out, |_| {}).unwrap();
    stream.push("[DONE]", &mut out, |_| {}).unwrap();
    assert!(stream.is_done());
    stream.close().unwrap();
    let outcome = stream.end(CompletionInfo { now: 0, usage: usage() }, &mut out);
    assert_eq!(outcome, AnswerOutcome::Completed);
    assert!(!String::from_utf8(out.to_vec()).unwrap().contains("[DONE]"));
}

/// An upstream that sends nothing but these had its stream kept without an end.
#[test]
fn what_comes_beside_text_is_known_before_its_item_is_done() {
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
        assert_eq!(stream.buffered_bytes(), 0);
        for count in 1..=3 {
            let chunk = json!({"choices": [choice]}).to_string();
            stream.push(&chunk, &mut out, |_| {}).unwrap();
            let kept = stream.buffered_bytes();
            // a token is shown with its bytes as numbers
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
