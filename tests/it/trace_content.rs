//! The text of prompts and answers in spans: only of the requests of a key that has opted in, and without secrets.

use gateway::config::{OtlpSettings, SignalSetting};
use proto::v1;
use serde_json::{Value, json};
use tests::collector::{Behaviour, Collector, attribute};
use tests::{Product, RawUpstream, Session, chunk, json_answer, stream_head};

const PROMPT: &str = "marmalade";
const ANSWER: &str = "gooseberry";
const SECRET: &str = "sk-tg-9f2c0123456789abcdef";
const INPUT: &str = "gen_ai.input.messages";
const OUTPUT: &str = "gen_ai.output.messages";

async fn start(collector: &Collector) -> Product {
    let settings = OtlpSettings {
        signals: Some(vec![SignalSetting::Traces, SignalSetting::Logs]),
        trace_ratio: Some(1.0),
        ..OtlpSettings::default()
    };
    Product::with(|setup| setup.config.otlp = collector.config(settings)).await
}

async fn set_trace_content(owner: &Session, id: &str, is_on: bool) -> v1::Key {
    let id = id.to_owned();
    let change = v1::UpdateKeyRequest { id, trace_content: Some(is_on), ..Default::default() };
    owner.keys().update_key(change).await.unwrap().into_inner().key.unwrap()
}

/// Returns the answer of the upstream, whose secret is in two events of a stream.
fn answer(stream: bool) -> String {
    if !stream {
        let message = json!({ "role": "assistant", "content": format!("{ANSWER} {SECRET}") });
        let choice = json!({ "index": 0, "finish_reason": "stop", "message": message });
        let usage = json!({ "prompt_tokens": 5, "completion_tokens": 3 });
        return json_answer(200, &json!({ "choices": [choice], "usage": usage }).to_string());
    }
    let (first, second) = SECRET.split_at(9);
    let event = |text: &str| {
        let choice = json!({ "index": 0, "delta": { "content": text } });
        chunk(&format!("data: {}\n\n", json!({ "choices": [choice] })))
    };
    let end = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] });
    let usage = json!({ "choices": [], "usage": { "prompt_tokens": 5, "completion_tokens": 3 } });
    let end = chunk(&format!("data: {end}\n\ndata: {usage}\n\ndata: [DONE]\n\n"));
    let text = [event(&format!("{ANSWER} {first}")), event(second)].concat();
    format!("{}{text}{end}{}", stream_head(), chunk(""))
}

#[tokio::test]
async fn only_the_spans_of_a_key_that_has_opted_in_have_its_text() {
    let collector = Collector::start(Behaviour::Accept).await;
    let (product, upstream) = (start(&collector).await, RawUpstream::start().await);
    product.operator().await.add_model_on("asked", &[&upstream.url]).await;
    let alice = product.member("alice").await;
    let (traced, other) = (alice.key().await, alice.key().await);
    assert!(set_trace_content(&alice, &traced.id, true).await.trace_content);
    let requests = [&traced, &other].into_iter().flat_map(|key| {
        let paths = ["/v1/chat/completions", "/v1/responses"];
        paths.into_iter().flat_map(move |path| [(key, path, false), (key, path, true)])
    });
    for (key, path, stream) in requests {
        let text = format!("{PROMPT} {SECRET}");
        let mut body = match path {
            "/v1/responses" => json!({ "input": text }),
            _ => json!({ "messages": [{ "role": "user", "content": text }] }),
        };
        body["model"] = json!("asked");
        body["stream"] = json!(stream);
        let request = product.post(path).bearer(&key.secret).json(&body);
        let (answered, _) = tokio::join!(request.answer(), upstream.answer(answer(stream)));
        assert_eq!(answered.status, 200);
    }
    let spans = collector.requests(8).await;
    let of_key = |id: &str| {
        let is_its = |span: &&otlp_proto::trace::v1::Span| {
            span.kind == 2 && attribute(&span.attributes, "tollgate.key") == id
        };
        spans.iter().filter(is_its).collect::<Vec<_>>()
    };
    let with_text = of_key(&traced.id);
    assert_eq!(with_text.len(), 4);
    for span in with_text {
        let messages =
            |name| -> Value { serde_json::from_str(&attribute(&span.attributes, name)).unwrap() };
        let input = json!([{ "role": "user", "parts": [{ "type": "text", "content": "marmalade [redacted]" }] }]);
        assert_eq!(messages(INPUT), input);
        let output = json!([{
            "role": "assistant",
            "parts": [{ "type": "text", "content": "gooseberry [redacted]" }],
            "finish_reason": "stop",
        }]);
        assert_eq!(messages(OUTPUT), output);
    }
    let of_others: Vec<_> = spans
        .iter()
        .filter(|span| span.kind != 2 || attribute(&span.attributes, "tollgate.key") != traced.id)
        .collect();
    let all = format!("{of_others:?}");
    assert!(!all.contains(PROMPT) && !all.contains(ANSWER) && !all.contains("messages"), "{all}");
    let all = format!("{spans:?}{:?}", collector.wait_for("the log", |_| true).await.log_records);
    assert!(!all.contains("9f2c0123456789abcdef"), "{all}");

    // The change is in the audit log, and can be undone.
    let audit = v1::ListAuditRequest::default();
    let audit = alice.audit().list_audit(audit).await.unwrap().into_inner();
    let entry = audit.entries.iter().find(|entry| entry.action == "key.update").unwrap();
    assert_eq!(entry.details, "trace_content: none -> true");
    assert!(!set_trace_content(&alice, &traced.id, false).await.trace_content);
    let body = json!({ "model": "asked", "messages": [{ "role": "user", "content": PROMPT }] });
    let request = product.chat(&traced.secret, &body);
    let (answered, _) = tokio::join!(request.answer(), upstream.answer(answer(false)));
    assert_eq!(answered.status, 200);
    let last = collector.requests(9).await.into_iter().rfind(|span| span.kind == 2).unwrap();
    assert_eq!(attribute(&last.attributes, INPUT), "");
}

/// A key that opts out while a request of it is under way, or while its spans wait for the collector, exports no text of
/// them.
#[tokio::test]
async fn no_text_is_exported_once_the_key_has_opted_out() {
    let collector = Collector::start(Behaviour::Refuse).await;
    let (product, upstream) = (start(&collector).await, RawUpstream::start().await);
    product.operator().await.add_model_on("asked", &[&upstream.url]).await;
    let alice = product.member("alice").await;
    let key = alice.key().await;
    set_trace_content(&alice, &key.id, true).await;
    let ask = |stream: bool| {
        let messages = json!([{ "role": "user", "content": PROMPT }]);
        let body = json!({ "model": "asked", "stream": stream, "messages": messages });
        product.chat(&key.secret, &body)
    };
    // The spans of the first one wait, because the collector refuses them for now.
    let (answered, _) = tokio::join!(ask(false).answer(), upstream.answer(answer(false)));
    assert_eq!(answered.status, 200);
    collector.wait_for("a refused export", |received| received.exports > 0).await;
    let opting_out = async {
        let mut call = upstream.call().await;
        set_trace_content(&alice, &key.id, false).await;
        call.send(answer(true)).await;
        call.finish().await;
    };
    let (answered, ()) = tokio::join!(ask(true).answer(), opting_out);
    assert_eq!(answered.status, 200);
    collector.set_behaviour(Behaviour::Accept);
    let spans = format!("{:?}", collector.requests(2).await);
    assert!(!spans.contains(PROMPT) && !spans.contains(ANSWER), "{spans}");
}

/// A long prompt and a long answer are cut, and the newest part of a conversation is kept.
#[tokio::test]
async fn the_text_in_a_span_is_bounded() {
    let collector = Collector::start(Behaviour::Accept).await;
    let (product, upstream) = (start(&collector).await, RawUpstream::start().await);
    product.operator().await.add_model_on("asked", &[&upstream.url]).await;
    let alice = product.member("alice").await;
    let key = alice.key().await;
    set_trace_content(&alice, &key.id, true).await;
    let long = "é".repeat(20_000);
    let messages = json!([
        { "role": "system", "content": "oldest" },
        { "role": "user", "content": long },
        { "role": "user", "content": "newest" },
    ]);
    let message = json!({ "role": "assistant", "content": long });
    let choice = json!({ "index": 0, "finish_reason": "stop", "message": message });
    let usage = json!({ "prompt_tokens": 5, "completion_tokens": 3 });
    let answer = json_answer(200, &json!({ "choices": [choice], "usage": usage }).to_string());
    let request = product.chat(&key.secret, &json!({ "model": "asked", "messages": messages }));
    let (answered, _) = tokio::join!(request.answer(), upstream.answer(answer));
    assert_eq!(answered.status, 200);
    let spans = collector.requests(1).await;
    let span = spans.iter().find(|span| span.kind == 2).unwrap();
    for name in [INPUT, OUTPUT] {
        let text = attribute(&span.attributes, name);
        assert!(text.len() < 17_000 && text.contains("é[truncated]"), "{name}: {}", text.len());
        serde_json::from_str::<Value>(&text).unwrap();
    }
    let input = attribute(&span.attributes, INPUT);
    assert!(input.contains("newest") && !input.contains("oldest"), "{input}");
}
