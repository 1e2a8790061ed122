//! Tests of the answer's translation, by rule.
//!
//! `golden` compares whole streams, `schema` validates against the published schemas, `items`,
//! `calls` and `endings` have a test per rule, and `properties` checks invariants for arbitrary
//! input.

mod calls;
mod endings;
mod golden;
mod items;
mod properties;
mod rebuild;
mod schema;

use std::sync::Arc;

use bytes::BytesMut;
use serde_json::{Value, json};

use super::*;
use crate::plan::{ReasoningSealer, ResponsePlan, Tool, ToolKind};
use domain::usage::{Tokens, Usage};
use domain::wire::chunk::ChunkView;
use domain::wire::sse;
use domain::wire::usage::UsageReport;

/// The response id of all tests.
pub(super) const ID: &str = "resp_00000000000000000000000000000000";

/// The echo of a request without optional fields.
pub(super) const ECHO: &str = r#""previous_response_id":null,"instructions":null,"tools":[],"tool_choice":"auto","truncation":"disabled","parallel_tool_calls":true,"text":{"format":{"type":"text"}},"top_p":1,"presence_penalty":0,"frequency_penalty":0,"top_logprobs":0,"temperature":1,"reasoning":{"effort":null,"summary":null},"max_output_tokens":null,"max_tool_calls":null,"store":false,"background":false,"metadata":{},"safety_identifier":null,"prompt_cache_key":null"#;

/// Seals by a prefix.
struct Sealer;

impl ReasoningSealer for Sealer {
    fn seal(&self, text: &str) -> String {
        format!("gwr1:{text}")
    }

    fn open(&self, _: &str) -> Option<String> {
        None
    }
}

pub(super) fn envelope() -> Envelope {
    Envelope {
        id: ID.to_owned(),
        created_at: 1_790_000_000,
        seed: 7,
        done_marker: true,
        sealer: Arc::new(Sealer),
    }
}

/// A plan with the tools `f`, `get`, `get_weather`, `mcp__x__f`, `apply_patch` and `tool_search`.
pub(super) fn plan() -> ResponsePlan {
    let mut plan =
        ResponsePlan { model: "m".to_owned(), echo: ECHO.to_owned(), ..ResponsePlan::default() };
    let mut add = |wire: &str, kind, namespace: Option<&str>, name: &str| {
        let tool = Tool { kind, namespace: namespace.map(str::to_owned), name: name.to_owned() };
        plan.tools.add(wire.to_owned(), tool).unwrap();
    };
    add("f", ToolKind::Function, None, "f");
    add("get", ToolKind::Function, None, "get");
    add("get_weather", ToolKind::Function, None, "get_weather");
    add("mcp__x__f", ToolKind::Function, Some("mcp__x"), "f");
    add("apply_patch", ToolKind::Custom, None, "apply_patch");
    add("tool_search", ToolKind::ToolSearch, None, "tool_search");
    plan
}

pub(super) fn usage() -> AnswerUsage {
    AnswerUsage::from(Usage { input: Tokens(10), output: Tokens(5), ..Usage::default() })
}

/// Returns a chunk with this `delta`.
pub(super) fn delta(delta: Value) -> String {
    let mut chunk = json!({"choices": [{"index": 0}]});
    chunk["choices"][0]["delta"] = delta;
    chunk.to_string()
}

/// Returns a chunk with text.
pub(super) fn text(text: &str) -> String {
    delta(json!({"content": text}))
}

/// Returns a chunk with a call fragment.
pub(super) fn call(entry: Value) -> String {
    delta(Value::from_iter([("tool_calls", Value::from(vec![entry]))]))
}

/// Returns a chunk with a finish reason.
pub(super) fn finish(reason: &str) -> String {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}).to_string()
}

/// The output of a stream.
#[derive(Debug)]
pub(super) struct Run {
    /// The data of the events.
    pub(super) events: Vec<Value>,
    /// The violation, if the stream failed.
    pub(super) violation: Option<ProtocolViolation>,
    /// The bytes.
    pub(super) bytes: String,
}

impl Run {
    pub(super) fn kinds(&self) -> Vec<&str> {
        self.events.iter().map(|event| event["type"].as_str().unwrap()).collect()
    }

    /// Returns the response of the terminal event.
    pub(super) fn response(&self) -> &Value {
        &self.events.last().unwrap()["response"]
    }

    pub(super) fn output(&self) -> &Vec<Value> {
        self.response()["output"].as_array().unwrap()
    }

    /// Returns the values of a field in all events of a type.
    pub(super) fn all(&self, kind: &str, field: &str) -> Vec<&Value> {
        let of_kind = self.events.iter().filter(|event| event["type"] == kind);
        of_kind.map(|event| &event[field]).collect()
    }
}

/// Translates the events of an upstream; `: keepalive` stands for a keep-alive timer.
pub(super) fn run_stream<T: AsRef<str>>(plan: ResponsePlan, chunks: &[T]) -> Run {
    let mut stream = ResponseStream::new(&envelope(), Arc::new(plan));
    let (mut out, mut usage) = (BytesMut::new(), None);
    let result = chunks.iter().try_for_each(|chunk| match chunk.as_ref() {
        ": keepalive" => {
            stream.keep_alive(KeepAlive::Event, &mut out);
            Ok(())
        }
        data => stream.push(data, &mut out, |chunk| usage = reported(chunk).or(usage)),
    });
    let violation = result.and_then(|()| stream.close()).err();
    match &violation {
        None => {
            let usage = usage.unwrap_or(self::usage());
            stream.end(CompletionInfo { completed_at: 1_790_000_001, usage }, &mut out);
        }
        Some(violation) => {
            let message = match violation {
                ProtocolViolation::Reported(error) => error.message.clone().unwrap_or_default(),
                other => other.to_string(),
            };
            let failure =
                StreamFailure { code: "server_error", kind: "server_error", message: &message };
            stream.fail(&failure, usage, &mut out);
        }
    }
    // No call has an effect after the end.
    let length = out.len();
    stream.push(&text("late"), &mut out, |_| {}).unwrap();
    stream.end(CompletionInfo { completed_at: 0, usage: self::usage() }, &mut out);
    stream.fail(&StreamFailure { code: "c", kind: "k", message: "m" }, None, &mut out);
    stream.keep_alive(KeepAlive::Comment, &mut out);
    assert_eq!(out.len(), length);
    let events = read(&out);
    let object: Value = serde_json::from_slice(stream.object(&out).unwrap()).unwrap();
    assert_eq!(object, events.last().unwrap()["response"]);
    Run { events, violation, bytes: String::from_utf8(out.to_vec()).unwrap() }
}

/// Returns the reported usage, with missing counts taken from [`usage`].
fn reported(view: &ChunkView<'_>) -> Option<AnswerUsage> {
    Some(view.usage.and_then(UsageReport::parse)?.or_counted(&usage().usage))
}

/// Parses events as a client does, and checks their frames (`S-2`, `S-3`, `S-4`).
fn read(out: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(out).unwrap();
    let text = text.strip_suffix("data: [DONE]\n\n").expect("S-4: the marker comes last");
    let mut events: Vec<Value> = Vec::new();
    for frame in text.split_terminator("\n\n") {
        let (name, data) = frame.split_once('\n').unwrap();
        let event: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(name.strip_prefix("event: ").unwrap(), event["type"], "S-2");
        assert_eq!(event["sequence_number"], events.len(), "S-3");
        assert!(event.get("error").is_none() || event["type"] == "error", "S-5");
        events.push(event);
    }
    events
}

/// Translates chunks that must succeed, and checks that the events rebuild the output.
pub(super) fn run_ok<T: AsRef<str>>(plan: ResponsePlan, chunks: &[T]) -> Run {
    let run = run_stream(plan, chunks);
    assert_eq!(run.violation, None);
    assert_eq!(rebuild::rebuild_output(&run.events), *run.output());
    run
}

/// Returns the response object of a non-streaming answer.
pub(super) fn answer(plan: ResponsePlan, body: &Value) -> Value {
    let mut used = usage();
    let observe = |answer: &ChunkView<'_>| used = reported(answer).unwrap_or(used);
    let whole = parse_whole(&body.to_string(), &envelope(), Arc::new(plan), observe).unwrap();
    serde_json::from_slice(
        &whole.finish(CompletionInfo { completed_at: 1_790_000_001, usage: used }),
    )
    .unwrap()
}

/// Returns a non-streaming answer with this message.
pub(super) fn message(message: Value, finish_reason: &str) -> Value {
    let mut body = json!({"choices": [{"index": 0, "finish_reason": finish_reason}]});
    body["choices"][0]["message"] = message;
    body
}

/// Replaces generated ids by their order, so that answers can be compared.
pub(super) fn normalized(mut value: Value) -> Value {
    fn walk(value: &mut Value, seen: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    let ours = ["msg_", "rs_", "fc_", "ctc_", "tsc_"];
                    match value.as_str() {
                        Some(id)
                            if ["id", "item_id"].contains(&key.as_str())
                                && ours.iter().any(|prefix| id.starts_with(prefix)) =>
                        {
                            if !seen.iter().any(|known| known == id) {
                                seen.push(id.to_owned());
                            }
                            let at = seen.iter().position(|known| known == id).unwrap();
                            let prefix = id.split('_').next().unwrap();
                            *value = format!("{prefix}_{at}").into();
                        }
                        _ => walk(value, seen),
                    }
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| walk(value, seen)),
            _ => {}
        }
    }
    walk(&mut value, &mut Vec::new());
    value
}

/// Splits a recorded stream into its events.
pub(super) fn lines(fixture: &str) -> Vec<&str> {
    fixture.lines().collect()
}

/// Returns the bytes of an upstream stream.
pub(super) fn wire<T: AsRef<str>>(chunks: &[T]) -> Vec<u8> {
    let events = chunks.iter().map(|chunk| match chunk.as_ref() {
        comment if comment.starts_with(':') => format!("{comment}\n\n"),
        data => format!("data: {data}\n\n"),
    });
    events.collect::<String>().into_bytes()
}

/// Returns the data of the complete events in `bytes`.
pub(super) fn data_of(bytes: &[u8]) -> Vec<String> {
    let mut all = Vec::new();
    let mut splitter = sse::Splitter::default();
    splitter
        .push(bytes, |event| {
            all.extend(sse::data(event).map(|data| String::from_utf8(data.into_owned()).unwrap()));
        })
        .unwrap();
    all
}
