//! Tool calls: a test for each rule of §5.5, of the fields of call items (§4.2) and of the restored
//! names.

use std::collections::HashSet;

use super::*;

/// A fragment of a call.
fn entry(index: u32, id: &str, name: &str, arguments: &str) -> String {
    call(json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}}))
}

/// Returns name and arguments of each item of a stream that must succeed.
fn calls(chunks: &[String]) -> Vec<(String, String)> {
    let run = run_ok(plan(), chunks);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    run.output().iter().map(|item| (text(&item["name"]), text(&item["arguments"]))).collect()
}

fn check(chunks: &[String], expected: &[(&str, &str)]) {
    let got = calls(&[chunks, &[finish("tool_calls")]].concat());
    let got: Vec<_> = got.iter().map(|(name, arguments)| (&**name, &**arguments)).collect();
    assert_eq!(got, expected, "{chunks:#?}");
}

#[test]
fn r_5_arguments_are_always_a_string() {
    check(&[entry(0, "c", "f", "")], &[("f", "{}")]);
    check(&[entry(0, "c", "f", " ")], &[("f", " {}")]);
    check(&[entry(0, "c", "f", " ").replace(' ', "\\u0020")], &[("f", " {}")]);
    check(&[call(json!({"index": 0, "id": "c", "function": {"name": "f"}}))], &[("f", "{}")]);
    check(
        &[call(json!({"index": 0, "id": "c", "function": {"name": "f", "arguments": null}}))],
        &[("f", "{}")],
    );
}

#[test]
fn s_8c_object_arguments_become_text_and_invalid_ones_are_passed_on() {
    let object = call(json!({"id": "c", "function": {"name": "f", "arguments": {"a": "b\""}}}));
    check(&[object], &[("f", r#"{"a":"b\""}"#)]);
    check(&[entry(0, "c", "f", "{oops")], &[("f", "{oops")]);
}

#[test]
fn r_6_and_t_9_a_custom_call_has_unwrapped_text() {
    let run = run_ok(
        plan(),
        &[
            entry(0, "c", "apply_patch", "{\"input\":"),
            entry(0, "", "", "\"a\\n\\\"b\\\"\"}"),
            finish("tool_calls"),
        ],
    );
    let item = &run.output()[0];
    assert_eq!(item["type"], "custom_tool_call");
    assert_eq!(item["input"], "a\n\"b\"");
    assert_eq!(run.all("response.custom_tool_call_input.delta", "delta"), ["a\n\"b\""]);
    assert!(!run.bytes.contains("function_call_arguments"));
    let empty = run_ok(plan(), &[entry(0, "c", "apply_patch", "{\"input\":\"\"}"), finish("stop")]);
    assert_eq!(empty.output()[0]["input"], "");
}

#[test]
fn t_7_declared_names_are_restored() {
    let run = run_ok(plan(), &[entry(0, "c", "mcp__x__f", "{}"), finish("tool_calls")]);
    for item in [run.all("response.output_item.added", "item")[0], &run.output()[0]] {
        assert_eq!((&item["name"], &item["namespace"]), (&json!("f"), &json!("mcp__x")));
    }
    assert_eq!(run.all("response.function_call_arguments.done", "name"), ["f"]);
    let unknown = run_ok(plan(), &[entry(0, "c", "who__knows", "{}"), finish("tool_calls")]);
    assert_eq!(unknown.output()[0]["name"], "who__knows");
    assert!(unknown.output()[0].get("namespace").is_none());
}

#[test]
fn t_10_a_tool_search_call_has_object_arguments() {
    let run = run_ok(
        plan(),
        &[entry(0, "c", "tool_search", "{\"query\":"), entry(0, "", "", "\"q\"}"), finish("stop")],
    );
    let mut item = run.output()[0].clone();
    assert!(item["id"].as_str().unwrap().starts_with("tsc_"));
    item.as_object_mut().unwrap().remove("id");
    assert_eq!(
        item,
        json!({
            "type": "tool_search_call", "status": "completed", "call_id": "c", "execution": "client",
            "arguments": {"query": "q"},
        })
    );
}

#[test]
fn r_10_valid_call_ids_are_kept() {
    let ids = |chunks: &[String]| -> Vec<String> {
        let run = run_ok(plan(), chunks);
        run.output().iter().map(|item| item["call_id"].as_str().unwrap().to_owned()).collect()
    };
    let long = "x".repeat(65);
    let got = ids(&[
        entry(0, "c", "f", "{}"),
        entry(1, "c", "f", "{}"),
        entry(2, "", "f", "{}"),
        entry(3, &long, "f", "{}"),
        call(json!({"index": 4, "id": 7, "function": {"name": "f", "arguments": "{}"}})),
        finish("stop"),
    ]);
    assert_eq!((got[0].as_str(), got[4].as_str()), ("c", "7"));
    for id in &got[1..4] {
        assert!(id.starts_with("call_") && id.len() == 37, "{id}");
    }
    assert_eq!(got.iter().collect::<HashSet<_>>().len(), 5);
}

#[test]
fn r_13_a_legacy_function_call_is_one_call() {
    let piece = |function: Value| delta(json!({"function_call": function}));
    let chunks =
        [piece(json!({"name": "f", "arguments": "{\"a\""})), piece(json!({"arguments": ":1}"}))];
    check(&chunks, &[("f", "{\"a\":1}")]);
    let whole = answer(
        plan(),
        &message(json!({"function_call": {"name": "f", "arguments": "{}"}}), "function_call"),
    );
    assert_eq!(whole["output"][0]["name"], "f");
}

#[test]
fn s_6_fragments_are_assigned_to_their_call() {
    // Without index: by id, otherwise the last call.
    let bare = |id: &str, name: &str, arguments: &str| {
        call(json!({"id": id, "function": {"name": name, "arguments": arguments}}))
    };
    check(
        &[
            bare("a", "f", "{\"a\""),
            bare("b", "get", "{\"b\""),
            bare("a", "", ":1}"),
            bare("b", "", ":2}"),
            bare("", "", " "),
        ],
        &[("f", "{\"a\":1}"), ("get", "{\"b\":2} ")],
    );
    check(&[bare("", "f", "{}"), bare("", "get", "{}")], &[("f", "{}"), ("get", "{}")]);
    // Every call has index 0.
    check(
        &[entry(0, "a", "f", "{\"a\":1}"), entry(0, "b", "f", "{\"b\""), entry(0, "b", "", ":2}")],
        &[("f", "{\"a\":1}"), ("f", "{\"b\":2}")],
    );
    check(
        &[entry(0, "", "f", "{}"), entry(0, "", "get", "{\"b\":2}")],
        &[("f", "{}"), ("get", "{\"b\":2}")],
    );
    // A late id, and a repeated name.
    check(
        &[entry(0, "", "f", "{\"a\""), entry(0, "late", "f", ":1}"), entry(0, "late", "f", "")],
        &[("f", "{\"a\":1}")],
    );
    // An empty entry is not a call.
    check(&[entry(0, "", "", ""), entry(0, "a", "f", "{}")], &[("f", "{}")]);
}

#[test]
fn s_7_name_fragments_are_joined_and_repeats_ignored() {
    check(
        &[entry(0, "a", "get", ""), entry(0, "", "_weather", ""), entry(0, "", "", "{}")],
        &[("get_weather", "{}")],
    );
    check(
        &[entry(0, "a", "get", ""), entry(0, "", "get", ""), entry(0, "", "", "{}")],
        &[("get", "{}")],
    );
    check(&[entry(0, "a", "get", "{\"a\":1"), entry(0, "a", "get", "}")], &[("get", "{\"a\":1}")]);
    check(&[entry(0, "a", "wh", ""), entry(0, "", "at", "{}")], &[("what", "{}")]);
    check(
        &[
            entry(0, "a", "f", ""),
            entry(0, "", "", ""),
            call(json!({"index": 0, "id": null, "function": {"name": null, "arguments": "{}"}})),
        ],
        &[("f", "{}")],
    );
}

#[test]
fn s_8_a_call_is_announced_once_its_name_is_complete() {
    let announced = |chunks: &[String]| {
        let mut stream = ResponseStream::new(&envelope(), Arc::new(plan()));
        let mut out = BytesMut::new();
        for chunk in chunks {
            stream.push(chunk, &mut out, |_| {}).unwrap();
        }
        String::from_utf8(out.to_vec()).unwrap().contains("output_item.added")
    };
    assert!(announced(&[entry(0, "a", "f", "")]), "no other tool begins so");
    assert!(!announced(&[entry(0, "a", "get", "")]), "it may become `get_weather`");
    assert!(announced(&[entry(0, "a", "get", ""), entry(0, "", "", "{")]));
    assert!(announced(&[entry(0, "a", "get", ""), entry(1, "b", "f", "")]));
    assert!(!announced(&[entry(0, "", "f", "")]), "its id may come");
    assert!(announced(&[entry(0, "", "f", ""), entry(0, "a", "", "")]));
    assert!(!announced(&[entry(0, "a", "", "{}")]), "§0.1.7: never without a name");
    assert!(announced(&[entry(0, "a", "", "{}"), entry(0, "", "f", "")]));
    // Everything received before the name is one delta.
    let run = run_ok(
        plan(),
        &[
            entry(0, "", "", "{\"a\""),
            entry(0, "", "", ":1}"),
            entry(0, "", "f", ""),
            finish("stop"),
        ],
    );
    assert_eq!(run.all("response.function_call_arguments.delta", "delta"), ["{\"a\":1}"]);
}

#[test]
fn s_8b_one_call_is_open_at_a_time() {
    let interleaved = [
        entry(0, "a", "f", "{\"a\""),
        entry(1, "b", "get", "{\"b\""),
        entry(2, "c", "f", "{\"c\":3}"),
        entry(1, "", "", ":2}"),
        entry(0, "", "", ":1}"),
    ];
    // `run_ok` checks that no item is added while another is open.
    check(&interleaved, &[("f", "{\"a\":1}"), ("get", "{\"b\":2}"), ("f", "{\"c\":3}")]);
    // The first call is closed as soon as the next begins, so that clients can run it.
    let mut stream = ResponseStream::new(&envelope(), Arc::new(plan()));
    let mut out = BytesMut::new();
    for chunk in [entry(0, "a", "f", "{\"a\":1}"), entry(1, "b", "get", "{")] {
        stream.push(&chunk, &mut out, |_| {}).unwrap();
    }
    let seen = String::from_utf8(out.to_vec()).unwrap();
    assert_eq!(seen.matches("event: response.output_item.done").count(), 1);
    // A call without arguments stays open until the end, since they may still arrive.
    check(&[entry(0, "a", "f", ""), entry(1, "b", "get", "{}")], &[("f", "{}"), ("get", "{}")]);
}

#[test]
fn s_8b_text_is_queued_behind_an_incomplete_call() {
    let chunks = [
        text("before"),
        entry(0, "a", "f", "{\"a\""),
        text("beh"),
        text("ind"),
        delta(json!({"refusal": "no"})),
        delta(json!({"reasoning": "why"})),
        entry(0, "", "", ":1}"),
        text("!"),
        finish("stop"),
    ];
    let run = run_ok(plan(), &chunks);
    let kinds: Vec<_> = run.output().iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["message", "function_call", "message", "reasoning", "message"]);
    assert_eq!(run.output()[2]["content"][0]["text"], "behind");
    assert_eq!(run.output()[2]["content"][1]["refusal"], "no");
    assert_eq!(run.output()[4]["content"][0]["text"], "!");
}

/// §5.6
#[test]
fn text_then_call_then_text_are_three_items() {
    let chunks = [text("a"), entry(0, "c", "f", "{}"), text("b"), finish("stop")];
    let run = run_ok(plan(), &chunks);
    assert_eq!(run.all("response.output_item.added", "output_index"), [0, 1, 2]);
    let ids: HashSet<_> = run.output().iter().map(|item| item["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 3);
}

#[test]
fn one_chunk_may_have_reasoning_text_and_calls() {
    let everything = delta(json!({
        "tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}],
        "content": "a", "reasoning": "why",
    }));
    let run = run_ok(plan(), &[everything, finish("tool_calls")]);
    let kinds: Vec<_> = run.output().iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["reasoning", "message", "function_call"]);
}

/// §3.6
#[test]
fn a_disallowed_call_is_not_delivered() {
    let allowed = || ResponsePlan { allowed: Some(HashSet::from(["f".to_owned()])), ..plan() };
    assert!(run_ok(allowed(), &[entry(0, "c", "f", "{}"), finish("stop")]).violation.is_none());
    for name in ["get", "apply_patch", "unknown"] {
        let run = run_stream(allowed(), &[entry(0, "c", name, "{}"), finish("stop")]);
        assert_eq!(
            run.violation,
            Some(ProtocolViolation::Model("model called a tool that was not allowed".to_owned()))
        );
        assert_eq!(*run.output(), Vec::<Value>::new());
        assert!(!run.bytes.contains("output_item"));
    }
    // The name is complete at the end only.
    let run = run_stream(allowed(), &[entry(0, "c", "get", ""), finish("stop")]);
    assert!(matches!(run.violation, Some(ProtocolViolation::Model(_))));
    let body = message(
        json!({"tool_calls": [{"id": "c", "function": {"name": "get", "arguments": "{}"}}]}),
        "stop",
    );
    let violation =
        parse_whole(&body.to_string(), &envelope(), Arc::new(allowed()), |_| {}).err().unwrap();
    assert!(matches!(violation, ProtocolViolation::Model(_)));
}

/// Upstreams know custom tools as functions (`T-8`), so that free text in place of arguments is
/// invalid.
#[test]
fn a_native_custom_call_is_not_delivered() {
    let custom = json!({"tool_calls": [
        {"index": 0, "id": "c", "type": "custom", "custom": {"name": "apply_patch", "input": "{\"cmd\":\"ls\"}"}},
    ]});
    let run = run_stream(plan(), &[delta(custom), finish("tool_calls")]);
    assert!(matches!(run.violation, Some(ProtocolViolation::Model(_))), "{:?}", run.violation);
    assert!(!run.bytes.contains("output_item"));
}

/// §5.4, end of the stream
#[test]
fn a_call_without_a_name_is_assigned_to_the_only_tool() {
    let nameless = [entry(0, "c", "", "{}"), finish("tool_calls")];
    assert!(matches!(run_stream(plan(), &nameless).violation, Some(ProtocolViolation::Model(_))));
    let mut only = ResponsePlan::default();
    let tool = Tool { kind: ToolKind::Function, namespace: None, name: "only".to_owned() };
    only.tools.add("only".to_owned(), tool).unwrap();
    assert_eq!(run_ok(only, &nameless).output()[0]["name"], "only");
}

#[test]
fn the_number_of_calls_is_limited() {
    let many: Vec<_> = (0..1_025).map(|index| entry(index, "", "f", "{}")).collect();
    assert!(matches!(run_stream(plan(), &many).violation, Some(ProtocolViolation::Invalid(_))));
    for bad in [json!(3), json!({}), json!([3]), json!("x")] {
        let run = run_stream(plan(), &[delta(json!({"tool_calls": bad}))]);
        assert!(matches!(run.violation, Some(ProtocolViolation::Invalid(_))), "{bad}");
    }
}
