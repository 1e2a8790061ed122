//! The same answer has the same tokens and cost in every form: plain or streamed, chat or
//! Responses. The gateway's own count is used only if the upstream reports none.

use proto::v1::{RequestRecord, RequestStatus, TokenCounts, UsageBasis};
use serde_json::{Value, json};
use tests::{Product, RawUpstream, Session, chunk, json_answer, stream_head};

/// Tools in the formats of chat and of Responses.
const TOOLS: [&str; 2] = [
    r#"[{"type":"function","function":{"name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}]"#,
    r#"[{"type":"function","name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}]"#,
];

/// An answer of an upstream.
struct Fixture {
    reasoning: &'static str,
    content: &'static str,
    /// Names and arguments.
    calls: &'static [(&'static str, &'static str)],
}

const FIXTURES: [Fixture; 4] = [
    Fixture { reasoning: "", content: "Rain, caf\u{e9}s and \"quotes\", all day.", calls: &[] },
    Fixture {
        reasoning: "",
        content: "",
        calls: &[("weather", r#"{"city":"Rome"}"#), ("weather", r#"{"city":"Reykjavik"}"#)],
    },
    Fixture { reasoning: "They want the weather.", content: "It rains.", calls: &[] },
    Fixture {
        reasoning: "Unclear which Paris is meant.",
        content: "Let me look.",
        calls: &[("weather", r#"{"city":"Paris, Texas"}"#)],
    },
];

fn usage() -> Value {
    json!({
        "prompt_tokens": 1_000, "prompt_tokens_details": { "cached_tokens": 400 },
        "completion_tokens": 70, "completion_tokens_details": { "reasoning_tokens": 30 },
    })
}

impl Fixture {
    fn finish(&self) -> &'static str {
        if self.calls.is_empty() { "stop" } else { "tool_calls" }
    }

    /// Returns the answer as one body.
    fn plain(&self, usage: Option<&Value>) -> String {
        let calls = (0..).zip(self.calls).map(|(index, (name, arguments))| {
            let function = json!({ "name": name, "arguments": arguments });
            json!({ "id": format!("call_{index}"), "type": "function", "function": function })
        });
        let mut message = json!({ "role": "assistant", "content": self.content });
        if !self.reasoning.is_empty() {
            message["reasoning_content"] = json!(self.reasoning);
        }
        if !self.calls.is_empty() {
            message["tool_calls"] = calls.collect();
        }
        let choice = json!({ "index": 0, "message": message, "finish_reason": self.finish() });
        let mut body = json!({ "id": "c", "model": "m", "choices": [choice] });
        if let Some(usage) = usage {
            body["usage"] = usage.clone();
        }
        json_answer(200, &body.to_string())
    }

    /// Returns the answer as a stream of small pieces.
    fn streamed(&self, usage: Option<&Value>) -> String {
        let mut deltas = Vec::new();
        deltas.extend(pieces(self.reasoning).map(|text| json!({ "reasoning_content": text })));
        deltas.extend(pieces(self.content).map(|text| json!({ "content": text })));
        for (index, (name, arguments)) in (0..).zip(self.calls) {
            let function = json!({ "name": name, "arguments": "" });
            let id = format!("call_{index}");
            let call =
                json!({ "index": index, "id": id, "type": "function", "function": function });
            deltas.push(json!({ "tool_calls": [call] }));
            deltas.extend(pieces(arguments).map(|text| {
                json!({ "tool_calls": [{ "index": index, "function": { "arguments": text } }] })
            }));
        }
        let event = |choices: Value, usage: Option<&Value>| {
            let mut data = json!({ "id": "c", "model": "m", "choices": choices });
            if let Some(usage) = usage {
                data["usage"] = usage.clone();
            }
            format!("data: {data}\n\n")
        };
        let mut stream: String = deltas
            .into_iter()
            .map(|delta| event(json!([{ "index": 0, "delta": delta }]), None))
            .collect();
        let end = json!([{ "index": 0, "delta": {}, "finish_reason": self.finish() }]);
        stream.push_str(&event(end, None));
        if usage.is_some() {
            stream.push_str(&event(json!([]), usage));
        }
        stream.push_str("data: [DONE]\n\n");
        format!("{}{}{}", stream_head(), chunk(&stream), chunk(""))
    }

    /// Returns the request in four forms: path, body and whether it is streamed.
    fn requests(&self) -> Vec<(&'static str, String, bool)> {
        let mut requests = Vec::new();
        for (path, question, tools) in [
            ("/v1/chat/completions", r#""messages":[{"role":"user","content":"hi"}]"#, TOOLS[0]),
            ("/v1/responses", r#""input":"hi""#, TOOLS[1]),
        ] {
            let tools = if self.calls.is_empty() { "[]" } else { tools };
            let tools = if tools == "[]" { String::new() } else { format!(r#","tools":{tools}"#) };
            for stream in [false, true] {
                let body = format!(r#"{{"model":"asked",{question},"stream":{stream}{tools}}}"#);
                requests.push((path, body, stream));
            }
        }
        requests
    }

    /// Sends the request in all forms, and returns the records.
    async fn play(
        &self,
        (product, upstream): (&Product, &RawUpstream),
        (caller, key): (&Session, &str),
        usage: Option<&Value>,
    ) -> Vec<RequestRecord> {
        let before = caller.records(0).await.len();
        let requests = self.requests();
        for (path, body, stream) in &requests {
            let sent = if *stream { self.streamed(usage) } else { self.plain(usage) };
            let request = product.post(path).bearer(key).body(body.clone()).send();
            let (exchange, _) = tokio::join!(request, upstream.answer(sent));
            assert_eq!(exchange.status, 200, "{path}");
            _ = exchange.answer().await;
        }
        caller.records(before + requests.len()).await.split_off(before)
    }
}

/// Splits a text into pieces of three characters.
fn pieces(text: &str) -> impl Iterator<Item = String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(3).map(String::from_iter).collect::<Vec<_>>().into_iter()
}

#[tokio::test]
async fn the_same_answer_has_the_same_tokens_in_every_request_form() {
    let (product, upstream) = (Product::start().await, RawUpstream::start().await);
    product.operator().await.add_model_on("asked", &[&upstream.url]).await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    let reported_counts = TokenCounts {
        input: Some(1_000),
        cached: Some(400),
        output: Some(70),
        reasoning: Some(30),
    };
    // counted while it arrives, if it is streamed
    let long = Fixture {
        reasoning: "Every word of it counts. ".repeat(1_000).leak(),
        content: "It rains, caf\u{e9} or not.\n".repeat(2_000).leak(),
        calls: &[("weather", r#"{"city":"Rome"}"#)],
    };
    for fixture in FIXTURES.iter().chain([&long]) {
        let play = |usage| fixture.play((&product, &upstream), (&alice, &key), usage);
        let (counted, reported) = (play(None).await, play(Some(&usage())).await);
        for record in counted.iter().chain(&reported) {
            assert_eq!(record.status(), RequestStatus::Completed, "{record:?}");
        }
        for record in &reported {
            assert_eq!(record.usage_basis(), UsageBasis::Upstream, "{record:?}");
            assert_eq!(record.tokens, Some(reported_counts), "{record:?}");
            // 600, 400 and 70 tokens at 1, 0.1 and 2 dollars per million
            assert_eq!(record.cost_usd.as_deref(), Some("0.00078"), "{record:?}");
        }
        for record in &counted {
            assert_eq!(record.usage_basis(), UsageBasis::Counted, "{record:?}");
            assert_eq!(record.tokens, counted[0].tokens, "{counted:#?}");
            assert_eq!(record.cost_usd, counted[0].cost_usd, "{counted:#?}");
            let tokens = record.tokens.unwrap();
            assert!(tokens.input > Some(0) && tokens.output > Some(0), "{record:?}");
            let reasoned = tokens.reasoning > Some(0);
            assert_eq!(reasoned, !fixture.reasoning.is_empty(), "{record:?}");
        }
    }
}
