//! Serialisation of answers: one JSON body, or the events of a stream. Pure.

use std::num::NonZeroUsize;

use bytes::Bytes;
use serde_json::{Value, json};

use super::answer::{Answer, Usage};
use super::rejection::Rejection;
use super::text::{TextChunk, split_chunks};

/// The `created` time of all answers, which is fixed because answers are deterministic.
const CREATED: u64 = 1_735_689_600;

/// The fields that all events of an answer share.
#[derive(Clone, Debug)]
pub(super) struct Envelope {
    pub(super) id: String,
    pub(super) model: String,
}

/// The options of a streamed answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Streaming {
    /// Characters per chunk; a word per chunk if `None`.
    pub(super) chunk: Option<NonZeroUsize>,
    pub(super) usage: bool,
    pub(super) done: bool,
}

/// A part of a body: one event of a stream, or a whole plain answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) data: Bytes,
    /// The completion tokens in `data`.
    pub(super) tokens: u64,
    /// Whether `data` contains the usage.
    pub(super) usage: bool,
}

/// One event of a stream.
enum Event {
    Delta(Value, u64),
    Finish(&'static str),
    Usage(Usage),
    Done,
}

/// Returns the body of a plain answer.
pub(super) fn plain(envelope: &Envelope, answer: &Answer, usage: bool) -> Frame {
    let mut message = json!({ "role": "assistant", "content": answer.content, "refusal": null });
    if let Some(reasoning) = &answer.reasoning {
        message["reasoning_content"] = json!(reasoning);
    }
    if !answer.calls.is_empty() {
        let calls = answer.calls.iter().map(|call| {
            let function = json!({ "name": call.name, "arguments": call.arguments });
            json!({ "id": call.id, "type": "function", "function": function })
        });
        message["tool_calls"] = calls.collect();
    }
    let finish = answer.finish.reason();
    let choice = json!({
        "index": 0, "message": message, "logprobs": null, "finish_reason": finish,
    });
    let mut body = envelope.json("chat.completion", json!([choice]));
    if usage {
        body["usage"] = usage_json(answer.usage);
    }
    Frame { data: body.to_string().into(), tokens: answer.usage.completion, usage }
}

/// Returns the events of a streamed answer, serialised lazily.
pub(super) fn stream(
    envelope: Envelope,
    answer: &Answer,
    streaming: Streaming,
) -> impl Iterator<Item = Frame> + use<> {
    let mut events = vec![role(answer)];
    events.extend(deltas(answer, streaming.chunk));
    events.extend(answer.finish.reason().map(Event::Finish));
    events.extend(streaming.usage.then_some(Event::Usage(answer.usage)));
    events.extend(streaming.done.then_some(Event::Done));
    events.into_iter().map(move |event| event.encode(&envelope, streaming.usage))
}

/// Returns an event with invalid JSON.
pub(super) fn garbage() -> Frame {
    event("{\"id\":\"chatcmpl-sim\",\"choices\":[{\"delta\"")
}

/// Returns an event with an error.
pub(super) fn error(rejection: &Rejection) -> Frame {
    event(&rejection.body().to_string())
}

/// Returns the first event. Its `content` is empty, or null if the plain answer's is null, so that
/// the concatenated deltas equal the plain answer.
fn role(answer: &Answer) -> Event {
    let content = answer.content.as_ref().map(|_| "");
    Event::Delta(json!({ "role": "assistant", "content": content }), 0)
}

fn deltas(answer: &Answer, chunk: Option<NonZeroUsize>) -> Vec<Event> {
    let mut events = Vec::new();
    let mut text = |text: &str, delta: &dyn Fn(String) -> Value| {
        for TextChunk { text, words } in split_chunks(text, chunk) {
            events.push(Event::Delta(delta(text), words));
        }
    };
    text(
        answer.reasoning.as_deref().unwrap_or_default(),
        &|piece| json!({ "reasoning_content": piece }),
    );
    text(answer.content.as_deref().unwrap_or_default(), &|piece| json!({ "content": piece }));
    for (index, call) in answer.calls.iter().enumerate() {
        let function = json!({ "name": call.name, "arguments": "" });
        let start =
            json!({ "index": index, "id": call.id, "type": "function", "function": function });
        events.push(Event::Delta(json!({ "tool_calls": [start] }), 1));
        for TextChunk { text, words } in split_chunks(&call.arguments, chunk) {
            let more = json!({ "index": index, "function": { "arguments": text } });
            events.push(Event::Delta(json!({ "tool_calls": [more] }), words));
        }
    }
    events
}

fn usage_json(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": { "cached_tokens": usage.cached },
        "completion_tokens_details": { "reasoning_tokens": usage.reasoning },
    })
}

fn event(data: &str) -> Frame {
    Frame { data: format!("data: {data}\n\n").into(), tokens: 0, usage: false }
}

// === impl Envelope ===

impl Envelope {
    fn json(&self, object: &str, choices: Value) -> Value {
        let mut json = json!({
            "id": self.id,
            "object": object,
            "created": CREATED,
            "model": self.model,
            "system_fingerprint": "sim",
        });
        json["choices"] = choices;
        json
    }
}

// === impl Event ===

impl Event {
    fn encode(self, envelope: &Envelope, with_usage: bool) -> Frame {
        let chunk = |choices: Value, usage: Option<Usage>| {
            let mut chunk = envelope.json("chat.completion.chunk", choices);
            if with_usage {
                chunk["usage"] = usage.map_or(Value::Null, usage_json);
            }
            event(&chunk.to_string())
        };
        let choice = |delta: Value, finish: Option<&str>| {
            let mut choice = json!({ "index": 0, "logprobs": null, "finish_reason": finish });
            choice["delta"] = delta;
            json!([choice])
        };
        match self {
            Self::Delta(delta, tokens) => Frame { tokens, ..chunk(choice(delta, None), None) },
            Self::Finish(reason) => chunk(choice(json!({}), Some(reason)), None),
            Self::Usage(usage) => Frame { usage: true, ..chunk(json!([]), Some(usage)) },
            Self::Done => event("[DONE]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::Call;
    use super::super::script::Finish;
    use super::*;

    fn envelope() -> Envelope {
        Envelope { id: "chatcmpl-1".to_owned(), model: "sim-chat".to_owned() }
    }

    fn example() -> Answer {
        let call = |at: u32| Call {
            id: format!("call_{at}"),
            name: format!("tool_{at}"),
            arguments: r#"{"city": "New York"}"#.to_owned(),
        };
        Answer {
            reasoning: Some("Let me see.".to_owned()),
            content: Some("Grüße aus Köln".to_owned()),
            calls: vec![call(0), call(1)],
            finish: Finish::ToolCalls,
            usage: Usage { prompt: 9, cached: 4, completion: 14, reasoning: 3 },
        }
    }

    fn events(frames: &[Frame]) -> Vec<Value> {
        let data = |frame: &Frame| {
            let text = std::str::from_utf8(&frame.data).expect("text").to_owned();
            let data = text.strip_prefix("data: ").and_then(|it| it.strip_suffix("\n\n"));
            data.expect("an event").to_owned()
        };
        let (done, chunks) = frames.split_last().expect("frames");
        assert_eq!(data(done), "[DONE]");
        chunks.iter().map(|frame| serde_json::from_str(&data(frame)).expect("JSON")).collect()
    }

    /// Joins the deltas into a message.
    fn folded(chunks: &[Value]) -> Value {
        let append = |slot: &mut Value, more: &Value| {
            if let Some(more) = more.as_str() {
                *slot = json!(format!("{}{more}", slot.as_str().unwrap_or_default()));
            }
        };
        let mut message = json!({ "role": "assistant", "content": null, "refusal": null });
        for delta in chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]) {
            append(&mut message["content"], &delta["content"]);
            if delta.get("reasoning_content").is_some() {
                append(&mut message["reasoning_content"], &delta["reasoning_content"]);
            }
            for call in delta["tool_calls"].as_array().into_iter().flatten() {
                if message.get("tool_calls").is_none() {
                    message["tool_calls"] = json!([]);
                }
                let calls = message["tool_calls"].as_array_mut().expect("calls");
                let index = usize::try_from(call["index"].as_u64().expect("index")).expect("small");
                if index == calls.len() {
                    let mut first = call.clone();
                    first.as_object_mut().expect("a call").remove("index");
                    calls.push(first);
                } else {
                    let more = &call["function"]["arguments"];
                    append(&mut calls[index]["function"]["arguments"], more);
                }
            }
        }
        message
    }

    #[track_caller]
    fn check(answer: &Answer, chunk: usize) {
        let streaming = Streaming { chunk: NonZeroUsize::new(chunk), usage: true, done: true };
        let frames: Vec<Frame> = stream(envelope(), answer, streaming).collect();
        let chunks = events(&frames);
        let whole = plain(&envelope(), answer, true);
        let body: Value = serde_json::from_slice(&whole.data).expect("JSON");

        assert_eq!(folded(&chunks), body["choices"][0]["message"]);
        let sent: u64 = frames.iter().map(|frame| frame.tokens).sum();
        assert_eq!((sent, whole.tokens), (answer.usage.completion, answer.usage.completion));
        let (usage, rest) = chunks.split_last().expect("chunks");
        assert_eq!((&usage["usage"], &usage["choices"]), (&body["usage"], &json!([])));
        assert!(rest.iter().all(|chunk| chunk["usage"].is_null()));
        let finish = &rest.last().expect("chunks")["choices"][0]["finish_reason"];
        assert_eq!(*finish, body["choices"][0]["finish_reason"]);
    }

    #[test]
    fn concatenated_events_equal_the_plain_answer() {
        for chunk in [0, 1, 2, 5, 1000] {
            check(&example(), chunk);
            check(&Answer { content: None, ..answer_of(11) }, chunk);
        }
    }

    fn answer_of(completion: u64) -> Answer {
        let example = example();
        Answer { usage: Usage { completion, ..example.usage }, ..example }
    }

    #[test]
    fn usage_finish_and_done_can_be_left_out() {
        let answer = Answer { finish: Finish::Omitted, ..example() };
        let streaming = Streaming { chunk: None, usage: false, done: false };
        for frame in stream(envelope(), &answer, streaming) {
            let text = std::str::from_utf8(&frame.data).expect("text");
            assert!(text.contains("\"finish_reason\":null"), "{text}");
            assert!(!text.contains("usage"), "{text}");
        }
        let body: Value =
            serde_json::from_slice(&plain(&envelope(), &answer, false).data).expect("JSON");
        assert!(body.get("usage").is_none());
    }
}
