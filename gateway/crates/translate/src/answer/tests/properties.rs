//! Invariants for arbitrary model output and arbitrary chunk boundaries.

use proptest::prelude::*;

use super::*;
use crate::plan::ReasoningOutput;

/// The output of a model.
#[derive(Clone, Debug)]
struct ModelOutput {
    reasoning: String,
    content: String,
    refusal: String,
    /// Id, name and arguments.
    calls: Vec<(String, String, String)>,
    finish: &'static str,
}

fn model_output() -> impl Strategy<Value = ModelOutput> {
    let text = prop_oneof![Just(String::new()), any::<String>(), "[a-c\"\\\\\n😀é]{0,12}"];
    let name = prop_oneof![
        Just("f"),
        Just("get"),
        Just("get_weather"),
        Just("mcp__x__f"),
        Just("apply_patch"),
        Just("tool_search"),
        Just("unknown"),
    ];
    let arguments = prop_oneof![
        Just(String::new()),
        Just("{}".to_owned()),
        Just(r#"{"input":"a\n😀"}"#.to_owned()),
        any::<String>().prop_map(|text| json!({"a": text}).to_string()),
        "[{}\":a ]{0,9}",
    ];
    let call = (prop_oneof![Just(String::new()), "[a-c]"], name.prop_map(str::to_owned), arguments);
    let finish =
        prop_oneof![Just("stop"), Just("tool_calls"), Just("length"), Just("content_filter")];
    (text.clone(), text.clone(), text, prop::collection::vec(call, 0..4), finish).prop_map(
        |(reasoning, content, refusal, calls, finish)| ModelOutput {
            reasoning,
            content,
            refusal,
            calls,
            finish,
        },
    )
}

impl ModelOutput {
    fn body(&self) -> Value {
        let calls: Vec<_> = self
            .calls
            .iter()
            .map(|(id, name, arguments)| json!({"id": id, "function": {"name": name, "arguments": arguments}}))
            .collect();
        let content = json!({
            "reasoning_content": self.reasoning, "content": self.content, "refusal": self.refusal,
            "tool_calls": calls,
        });
        message(content, self.finish)
    }

    /// Returns the output in chunks, each text cut after every `size` UTF-16 units, which are
    /// escaped one by one, so that surrogate pairs may be split.
    fn chunks(&self, size: usize) -> Vec<String> {
        let chunk =
            |members: &str| format!("{{\"choices\":[{{\"index\":0,\"delta\":{{{members}}}}}]}}");
        let mut all = vec![chunk("\"role\":\"assistant\",\"content\":\"\"")];
        for (field, text) in
            [("reasoning", &self.reasoning), ("content", &self.content), ("refusal", &self.refusal)]
        {
            all.extend(
                cut(text, size).iter().map(|piece| chunk(&format!("\"{field}\":\"{piece}\""))),
            );
        }
        for (index, (id, name, arguments)) in self.calls.iter().enumerate() {
            all.push(call(
                json!({"index": index, "id": id, "function": {"name": name, "arguments": ""}}),
            ));
            all.extend(cut(arguments, size).iter().map(|piece| {
                chunk(&format!("\"tool_calls\":[{{\"index\":{index},\"function\":{{\"arguments\":\"{piece}\"}}}}]"))
            }));
        }
        all.push(finish(self.finish));
        all
    }
}

fn cut(text: &str, size: usize) -> Vec<String> {
    let units: Vec<_> = text.encode_utf16().collect();
    let escaped: Vec<_> = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
    escaped.chunks(size).map(<[String]>::concat).collect()
}

/// A chunk of a nonconforming upstream.
fn nonconforming() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just(""),
        Just("f"),
        Just("get"),
        Just("_weather"),
        Just("{"),
        Just("}"),
        Just("{\"a\":1}")
    ];
    let id = prop_oneof![
        Just(Value::Null),
        Just(json!("")),
        Just(json!("a")),
        Just(json!("b")),
        Just(json!(3))
    ];
    let index = prop_oneof![Just(Value::Null), Just(json!(0)), Just(json!(1)), Just(json!("0"))];
    let entry = (index, id, piece.clone(), piece)
        .prop_map(|(index, id, name, arguments)| json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}}));
    let text = prop_oneof![
        Just(Value::Null),
        Just(json!("")),
        Just(json!("x")),
        Just(json!([{"text": "y"}]))
    ];
    prop_oneof![
        4 => prop::collection::vec(entry, 1..3).prop_map(|calls| delta(json!({"tool_calls": calls}))),
        3 => (text.clone(), text.clone(), text).prop_map(|(content, reasoning, refusal)| {
            delta(json!({"content": content, "reasoning": reasoning, "refusal": refusal,
                "annotations": [{"type": "url_citation", "url": "https://a"}]}))
        }),
        1 => prop_oneof![Just("stop"), Just("length"), Just(""), Just("error")].prop_map(finish),
        1 => Just(r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#.to_owned()),
        1 => Just(": keepalive".to_owned()),
    ]
}

/// Arbitrary JSON with the names that chunks have.
fn json_like() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        Just(json!(0)),
        "[a-c\\\\\"😀]{0,4}".prop_map(Value::from),
    ];
    let name = prop_oneof![
        Just("choices"),
        Just("delta"),
        Just("message"),
        Just("content"),
        Just("tool_calls"),
        Just("function"),
        Just("name"),
        Just("arguments"),
        Just("index"),
        Just("id"),
        Just("finish_reason"),
        Just("usage"),
        Just("error"),
        Just("reasoning_details"),
        Just("annotations"),
        Just("text"),
        Just("logprobs"),
        Just("function_call"),
        Just("service_tier"),
        Just("refusal"),
    ];
    leaf.prop_recursive(6, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(name.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Checks the invariants of every stream, failed or not. Rebuilding the output checks the order of
/// events, the indexes, and that one item is open at a time.
fn check(run: &Run) {
    assert_eq!(rebuild::rebuild_output(&run.events), *run.output());
    let terminal = ["response.completed", "response.incomplete", "response.failed"];
    assert_eq!(run.kinds().iter().filter(|kind| terminal.contains(kind)).count(), 1);
    assert_eq!(run.kinds().contains(&"response.failed"), run.violation.is_some());
}

proptest! {
    #[test]
    fn a_stream_rebuilds_to_the_non_streaming_answer(output in model_output(), size in 1_usize..9) {
        let whole = answer(plan(), &output.body());
        let run = run_ok(plan(), &output.chunks(size));
        prop_assert_eq!(run.response(), &whole);
        check(&run);
    }

    #[test]
    fn a_truncated_stream_never_completes(output in model_output(), part in 0.0..1.0_f64) {
        let bytes = wire(&output.chunks(3));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a place among few bytes")]
        let at = (bytes.len() as f64 * part) as usize;
        let seen = data_of(&bytes[..at]);
        let run = run_stream(plan(), &seen);
        check(&run);
        let finished = seen.iter().any(|data| data.contains("\"finish_reason\":"));
        prop_assert_eq!(run.violation.is_none(), finished);
    }

    #[test]
    fn nonconforming_chunks_give_valid_streams(chunks in prop::collection::vec(nonconforming(), 0..12), done: bool) {
        let mut chunks = chunks;
        if done {
            chunks.push("[DONE]".to_owned());
        }
        let plan = ResponsePlan { reasoning: ReasoningOutput::Content, ..plan() };
        check(&run_stream(plan, &chunks));
    }

    #[test]
    fn arbitrary_chunks_do_not_panic(values in prop::collection::vec(json_like(), 0..5)) {
        let chunks: Vec<_> = values
            .iter()
            .map(|value| json!({"choices": [{"delta": value}]}).to_string())
            .chain(values.iter().map(ToString::to_string))
            .collect();
        for chunk in &chunks {
            let plan = ResponsePlan { logprobs: true, ..plan() };
            check(&run_stream(plan, &[chunk.as_str(), &finish("stop")]));
            _ = parse_whole(chunk, &envelope(), Arc::new(super::plan()), |_| {});
            _ = parse_whole(&chunk.replace("delta", "message"), &envelope(), Arc::new(super::plan()), |_| {});
        }
        check(&run_stream(plan(), &chunks));
    }
}
