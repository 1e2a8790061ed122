//! Fuzzes the translation of plain chat answers. Invariants: an answer becomes a response that is valid JSON, or is
//! refused; and the same message in a stream becomes the same response, or is refused as well.
//!
//! The first byte of an input selects the plan of the request; the rest is the body of the answer.
#![no_main]

use std::sync::Arc;

use bytes::BytesMut;
use domain::usage::Usage;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use translate::answer::{AnswerOutcome, CompletionInfo, Envelope, ResponseStream, parse_whole};
use translate::plan::{ReasoningOutput, ReasoningSealer, ResponsePlan, Tool, ToolKind};

struct Sealer;

impl ReasoningSealer for Sealer {
    fn seal(&self, text: &str) -> String {
        text.to_owned()
    }

    fn open(&self, _: &str) -> Option<String> {
        None
    }
}

fuzz_target!(|input: (u8, &str)| {
    let (how, body) = input;
    _ = respond(how, body);
    let Ok(body) = serde_json::from_str::<Value>(body) else { return };
    // A `Value` has no duplicate members, which the two forms may read differently.
    let Some(chunks) = as_stream(&body) else { return };
    let (whole, streamed) = (respond(how, &body.to_string()), stream(how, &chunks));
    assert_eq!(streamed, whole, "{body}");
});

/// Returns the response to a plain answer; `None` if it is refused.
fn respond(how: u8, body: &str) -> Option<Value> {
    let answer = parse_whole(body, &envelope(), Arc::new(plan(how)), |_| {}).ok()?;
    let outcome = answer.outcome();
    let response = answer.finish(completion());
    let response: Value = serde_json::from_slice(&response).expect("a response is JSON");
    let status = match outcome {
        AnswerOutcome::Completed => "completed",
        AnswerOutcome::Incomplete => "incomplete",
    };
    assert_eq!(response["status"], status, "{body}");
    assert!(response["output"].is_array(), "{body}");
    Some(response)
}

/// Returns the response of the last event of a stream; `None` if it is refused.
fn stream(how: u8, chunks: &[String]) -> Option<Value> {
    let mut stream = ResponseStream::new(&envelope(), Arc::new(plan(how)));
    let mut out = BytesMut::new();
    chunks.iter().try_for_each(|chunk| stream.push(chunk, &mut out, |_| {})).ok()?;
    stream.close().ok()?;
    stream.end(completion(), &mut out);
    let response = stream.object(&out).expect("it has ended");
    Some(serde_json::from_slice(response).expect("a response is JSON"))
}

/// Returns the chunks of a stream with the same message; `None` if the body has no message that can be streamed.
fn as_stream(body: &Value) -> Option<Vec<String>> {
    let [choice] = &body.get("choices")?.as_array()?[..] else { return None };
    let mut choice = choice.as_object()?.clone();
    choice.insert("index".to_owned(), 0.into()).is_none_or(|index| index == 0).then_some(())?;
    let mut delta = choice.remove("message").filter(Value::is_object)?;
    if let Some(calls) = delta.get_mut("tool_calls") {
        // The calls of a stream differ in their indexes.
        for (index, call) in calls.as_array_mut()?.iter_mut().enumerate() {
            call.as_object_mut()?.insert("index".to_owned(), index.into());
        }
    }
    // A stream without a reason is cut off; a plain answer is whole without one.
    let finish = choice.remove("finish_reason")?;
    finish.as_str().filter(|reason| !reason.is_empty())?;
    let is_mixed = choice.insert("delta".to_owned(), delta).is_some();
    let mut first = body.clone();
    first["choices"] = json!([choice]);
    let last = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": finish }] });
    (!is_mixed).then(|| vec![first.to_string(), last.to_string(), "[DONE]".to_owned()])
}

fn envelope() -> Envelope {
    Envelope {
        id: "resp_1".to_owned(),
        created_at: 1,
        seed: 2,
        done_marker: true,
        sealer: Arc::new(Sealer),
    }
}

fn completion() -> CompletionInfo {
    CompletionInfo { completed_at: 3, usage: Usage::default().into() }
}

/// Returns a plan with a tool of each kind.
fn plan(how: u8) -> ResponsePlan {
    let reasoning = match how & 3 {
        0 => ReasoningOutput::Content,
        1 => ReasoningOutput::Hidden,
        _ => ReasoningOutput::Summary,
    };
    let mut plan = ResponsePlan {
        echo: "\"tools\":[]".to_owned(),
        reasoning,
        seals_reasoning: how & 4 != 0,
        logprobs: how & 8 != 0,
        ..ResponsePlan::default()
    };
    for (wire_name, kind, namespace) in [
        ("f", ToolKind::Function, None),
        ("mcp__x__f", ToolKind::Function, Some("mcp__x")),
        ("apply_patch", ToolKind::Custom, None),
        ("tool_search", ToolKind::ToolSearch, None),
    ] {
        let name = wire_name.rsplit("__").next().unwrap_or(wire_name).to_owned();
        let tool = Tool { kind, namespace: namespace.map(str::to_owned), name };
        plan.tools.add(wire_name.to_owned(), tool).expect("the names differ");
    }
    if how & 16 != 0 {
        plan.allowed = Some(["f".to_owned()].into());
    }
    plan
}
