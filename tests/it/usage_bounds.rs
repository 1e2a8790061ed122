//! Reported usage is charged up to its plausible maximum; unreported usage is counted.

use std::fmt::Write as _;

use bpe_openai::o200k_base;
use proto::v1::{self, RequestRecord, RequestStatus, UsageBasis};
use serde_json::{Value, json};
use tests::http::{Answer, text_of};
use tests::{Product, RawUpstream, Session, chunk, json_answer, question, stream_head};

struct TestContext {
    product: Product,
    upstream: RawUpstream,
    alice: Session,
    key: String,
}

/// Returns a member with an additional balance of 100 dollars, and a model that costs 1 and 2
/// dollars per million tokens.
async fn context() -> TestContext {
    let (product, upstream) = (Product::start().await, RawUpstream::start().await);
    let operator = product.operator().await;
    operator.add_model_on("asked", &[&upstream.url]).await;
    let alice = product.member("alice").await;
    operator.credit("alice", "100").await;
    let key = alice.key().await.secret;
    TestContext { product, upstream, alice, key }
}

/// Returns an answer with `message` and `usage`, plain or streamed.
fn answered(stream: bool, message: &Value, usage: &Value) -> String {
    if !stream {
        let choice = json!({ "index": 0, "message": message, "finish_reason": "stop" });
        return json_answer(200, &json!({ "choices": [choice], "usage": usage }).to_string());
    }
    let delta = json!({ "choices": [{ "index": 0, "delta": message }] });
    let end = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] });
    let mut events = format!("data: {delta}\n\ndata: {end}\n\n");
    if !usage.is_null() {
        let usage = json!({ "choices": [], "usage": usage });
        _ = write!(events, "data: {usage}\n\n");
    }
    events.push_str("data: [DONE]\n\n");
    format!("{}{}{}", stream_head(), chunk(&events), chunk(""))
}

impl TestContext {
    async fn send_request(
        &self,
        path: &str,
        body: &Value,
        sent: String,
    ) -> (Answer, RequestRecord) {
        let before = self.alice.records(0).await.len();
        let request = self.product.post(path).bearer(&self.key).json(body);
        let (answer, _) = tokio::join!(request.answer(), self.upstream.answer(sent));
        assert_eq!(answer.status, 200, "{answer:?}");
        (answer, self.alice.records(before + 1).await.pop().unwrap())
    }

    /// Sends the request in all four forms, and returns each response with its record.
    async fn send_in_all_forms(
        &self,
        message: &Value,
        usage: &Value,
    ) -> Vec<(Answer, RequestRecord)> {
        let mut seen = Vec::new();
        for stream in [false, true] {
            let responses = json!({ "model": "asked", "input": "hi" });
            for (path, mut body) in
                [("/v1/chat/completions", question("asked", "hi")), ("/v1/responses", responses)]
            {
                body["stream"] = stream.into();
                seen.push(self.send_request(path, &body, answered(stream, message, usage)).await);
            }
        }
        seen
    }

    async fn health(&self) -> v1::UpstreamHealth {
        let mut traffic = self.product.operator().await.traffic();
        let request = v1::ListUpstreamHealthRequest {};
        let listed = traffic.list_upstream_health(request).await.unwrap().into_inner();
        listed.upstreams.into_iter().find(|it| it.name == "up-asked-0").unwrap()
    }
}

fn usd(amount: Option<&str>) -> f64 {
    amount.unwrap().parse().unwrap()
}

/// Returns the usage in a Responses answer, plain or streamed; `None` for a chat answer.
fn reported_usage(answer: &Answer) -> Option<Value> {
    let whole = match answer.text().split("event: response.completed\ndata: ").nth(1) {
        Some(event) => {
            serde_json::from_str::<Value>(event.lines().next().unwrap()).unwrap()["response"]
                .clone()
        }
        None => serde_json::from_str::<Value>(answer.text()).ok()?,
    };
    (whole["object"] == "response").then(|| whole["usage"].clone())
}

#[tokio::test]
async fn no_request_is_charged_for_more_tokens_than_its_bytes_permit() {
    let context = context().await;
    let usage = json!({ "prompt_tokens": 1_000_000_000, "completion_tokens": 2 });
    for (answer, record) in context.send_in_all_forms(&json!({ "content": "hi" }), &usage).await {
        let input = record.tokens.unwrap().input.unwrap();
        assert!(input < 20_000, "{record:?}");
        assert!(usd(record.cost_usd.as_deref()) < 0.02, "{record:?}");
        assert!(
            record.notes.contains(&"usage_bounded:prompt_tokens=1000000000".to_owned()),
            "{record:?}"
        );
        assert_eq!(record.usage_basis(), UsageBasis::Upstream, "{record:?}");
        if let Some(reported_usage) = reported_usage(&answer) {
            assert_eq!(reported_usage["input_tokens"], json!(input), "{answer:?}");
            assert_eq!(reported_usage["total_tokens"], json!(input + 2), "{answer:?}");
        }
    }
    let balance: f64 = context.alice.account().await.balance_usd.parse().unwrap();
    assert!(balance > 104.9, "{balance}");
    let health = context.health().await;
    assert_eq!(health.implausible_usage, 4, "{health:?}");
    assert!(health.last_error.contains("1000000000 prompt tokens"), "{health:?}");
    // the ledger verifies although the excess was not charged
    let request = v1::VerifyLedgerRequest {};
    let operator = context.product.operator().await;
    assert!(operator.ledger().verify_ledger(request).await.unwrap().into_inner().ok);
}

#[tokio::test]
async fn no_request_is_charged_for_more_than_its_context_window_or_its_cap() {
    let context = context().await;
    let change = v1::UpdateModelRequest {
        id: "asked".to_owned(),
        context_window: Some(4_000),
        max_output_tokens: Some(1_000),
        ..v1::UpdateModelRequest::default()
    };
    context.product.operator().await.models().update_model(change).await.unwrap();
    let usage = json!({ "prompt_tokens": 10_000, "completion_tokens": 10_000 });
    for (cap, choices, output) in [(None, 1, 1_000), (Some(50), 1, 50), (Some(50), 2, 100)] {
        let mut body = question("asked", "hi");
        body["max_tokens"] = json!(cap);
        body["n"] = json!(choices);
        let sent = answered(false, &json!({ "content": "hi" }), &usage);
        let (_, record) = context.send_request("/v1/chat/completions", &body, sent).await;
        let tokens = record.tokens.unwrap();
        assert_eq!((tokens.input, tokens.output), (Some(4_000), Some(output)), "{record:?}");
        assert!(
            record.notes.contains(&"usage_bounded:completion_tokens=10000".to_owned()),
            "{record:?}"
        );
    }
}

#[tokio::test]
async fn extreme_token_counts_do_not_affect_later_requests() {
    let context = context().await;
    for huge in [json!(i64::MAX), json!(u64::MAX)] {
        let usage = json!({ "prompt_tokens": huge, "completion_tokens": huge, "total_tokens": huge,
            "prompt_tokens_details": { "cached_tokens": huge },
            "completion_tokens_details": { "reasoning_tokens": huge } });
        context.send_in_all_forms(&json!({ "content": "hi" }), &usage).await;
    }
    for odd in [json!(-1), json!(1.5), json!("9"), json!(true), json!([])] {
        let usage = json!({ "prompt_tokens": odd, "completion_tokens": odd });
        for (_, record) in context.send_in_all_forms(&json!({ "content": "hi" }), &usage).await {
            assert_eq!(record.usage_basis(), UsageBasis::Counted, "{odd}: {record:?}");
        }
    }
    let balance: f64 = context.alice.account().await.balance_usd.parse().unwrap();
    assert!(balance > 100.0, "{balance}");
    let operator = context.product.operator().await;
    let request = v1::VerifyLedgerRequest {};
    assert!(operator.ledger().verify_ledger(request).await.unwrap().into_inner().ok);
    // the token estimate learned from them does not inflate the next hold
    let sent = answered(
        false,
        &json!({ "content": "hi" }),
        &json!({ "prompt_tokens": 9, "completion_tokens": 1 }),
    );
    let (_, record) =
        context.send_request("/v1/chat/completions", &question("asked", "hi"), sent).await;
    assert_eq!(record.cost_usd.as_deref(), Some("0.000011"));
}

#[tokio::test]
async fn plausible_usage_is_charged_in_full() {
    let context = context().await;
    let image = json!([{ "type": "text", "text": "what is this?" },
        { "type": "image_url", "image_url": { "url": "https://example.com/a.png" } }]);
    // a server that adds a long prompt, and an image with many tiles
    for (content, prompt) in [(json!("hi"), 9_000), (image, 60_000)] {
        let body =
            json!({ "model": "asked", "messages": [{ "role": "user", "content": content }] });
        let usage = json!({ "prompt_tokens": prompt, "completion_tokens": 90_000 });
        let sent = answered(false, &json!({ "content": "hi" }), &usage);
        let (_, record) = context.send_request("/v1/chat/completions", &body, sent).await;
        let tokens = record.tokens.unwrap();
        assert_eq!((tokens.input, tokens.output), (Some(prompt), Some(90_000)), "{record:?}");
        assert!(record.notes.is_empty(), "{record:?}");
    }
    assert_eq!(context.health().await.implausible_usage, 0);
}

#[tokio::test]
async fn unreported_usage_is_counted_and_recorded_as_counted() {
    let context = context().await;
    let message = json!({ "content": "hello world, hello world" });
    let left_out = [
        json!({ "prompt_tokens": 5 }),
        json!({ "prompt_tokens": 5, "completion_tokens": null, "total_tokens": 5 }),
        json!({ "prompt_tokens": 5, "completion_tokens": 0 }),
    ];
    for usage in left_out {
        for (answer, record) in context.send_in_all_forms(&message, &usage).await {
            let tokens = record.tokens.unwrap();
            assert_eq!((tokens.input, tokens.output), (Some(5), Some(5)), "{usage}: {record:?}");
            assert_eq!(record.usage_basis(), UsageBasis::Counted, "{usage}: {record:?}");
            assert_eq!(record.notes, ["usage_counted=completion_tokens"], "{usage}");
            if let Some(reported_usage) = reported_usage(&answer) {
                assert_eq!(
                    (&reported_usage["input_tokens"], &reported_usage["output_tokens"]),
                    (&json!(5), &json!(5))
                );
                assert_eq!(reported_usage["total_tokens"], json!(10));
            }
        }
    }
    for (_, record) in context.send_in_all_forms(&message, &json!({ "completion_tokens": 7 })).await
    {
        let tokens = record.tokens.unwrap();
        assert!(tokens.input.unwrap() > 0 && tokens.output == Some(7), "{record:?}");
        assert_eq!(record.notes, ["usage_counted=prompt_tokens"]);
        assert_eq!(record.usage_basis(), UsageBasis::Counted);
    }
}

#[tokio::test]
async fn text_in_unknown_fields_counts_as_output() {
    let context = context().await;
    for message in [
        json!({ "content": "", "thinking": "hello world" }),
        json!({ "content": null, "audio": { "id": "a", "transcript": "hello world" } }),
        json!({ "content": { "text": "hello world" } }),
        json!({ "content": "", "reasoning_details": [{ "type": "reasoning.summary", "summary": "hello world" }] }),
        json!({ "x": { "y": { "text": "hello world" } } }),
        json!({ "some_new_field": "hello world" }),
        json!({ "blocks": [{ "type": "thinking", "thinking": "hello world" }] }),
        json!({ "content": "hello world", "text": "hello world" }),
    ] {
        for (_, record) in context.send_in_all_forms(&message, &Value::Null).await {
            assert_eq!(record.tokens.unwrap().output, Some(2), "{message}: {record:?}");
            assert_eq!(record.usage_basis(), UsageBasis::Counted, "{message}: {record:?}");
            assert_eq!(record.status(), RequestStatus::Completed, "{message}: {record:?}");
        }
    }
}

/// Returns a stream of these chunks and its end marker.
fn stream_of(chunks: &[Value]) -> String {
    let mut events = String::new();
    for data in chunks {
        _ = write!(events, "data: {data}\n\n");
    }
    events.push_str("data: [DONE]\n\n");
    format!("{}{}{}", stream_head(), chunk(&events), chunk(""))
}

fn usage(input: u64, output: u64) -> Value {
    json!({ "prompt_tokens": input, "completion_tokens": output })
}

fn delta(text: &str) -> Value {
    json!({ "choices": [{ "index": 0, "delta": { "content": text } }] })
}

fn finish() -> Value {
    json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] })
}

fn with_usage(mut chunk: Value, usage: Value) -> Value {
    chunk["usage"] = usage;
    chunk
}

#[tokio::test]
async fn usage_reported_before_the_last_text_is_a_lower_bound() {
    let context = context().await;
    let text = "hello world ".repeat(1_000);
    let counted = o200k_base().count(&text) as u64;
    for (path, mut body) in [
        ("/v1/chat/completions", question("asked", "hi")),
        ("/v1/responses", json!({ "model": "asked", "input": "hi" })),
    ] {
        body["stream"] = json!(true);
        for (reported, output) in [(1, counted), (5_000, 5_000)] {
            let first = with_usage(delta("oh, "), usage(10, reported));
            let sent = stream_of(&[first, delta(&text), finish()]);
            let (_, record) = context.send_request(path, &body, sent).await;
            let tokens = record.tokens.unwrap();
            assert_eq!(tokens.input, Some(10), "{record:?}");
            assert!(tokens.output.unwrap().abs_diff(output) <= 2, "{record:?}");
            assert_eq!(record.usage_basis(), UsageBasis::Counted, "{record:?}");
            assert_eq!(record.notes, ["usage_counted=completion_tokens"]);
        }
        // of reports in every chunk, the last one is used
        let pieces = (1..=5).map(|number| with_usage(delta("hello "), usage(10, number)));
        let chunks: Vec<_> = pieces.chain([finish()]).collect();
        let (_, record) = context.send_request(path, &body, stream_of(&chunks)).await;
        assert_eq!(record.tokens.unwrap().output, Some(5), "{record:?}");
        assert_eq!(record.usage_basis(), UsageBasis::Upstream, "{record:?}");
    }
}

#[tokio::test]
async fn a_disconnect_before_the_last_usage_report_charges_the_streamed_output() {
    let context = context().await;
    let mut body = question("asked", "hi");
    body["stream"] = json!(true);
    let text = "hello world ".repeat(1_000);
    let events =
        format!("data: {}\n\ndata: {}\n\n", with_usage(delta(""), usage(10, 1)), delta(&text));
    let serve = async {
        let mut call = context.upstream.call().await;
        call.send(format!("{}{}", stream_head(), chunk(&events))).await;
        call
    };
    let request = context.product.post("/v1/chat/completions").bearer(&context.key).json(&body);
    let (mut answer, _call) = tokio::join!(request.send(), serve);
    for _ in 0..2 {
        answer.event().await.unwrap();
    }
    drop(answer);
    let record = context.alice.record().await;
    assert_eq!(record.status(), RequestStatus::Cancelled, "{record:?}");
    let counted = o200k_base().count(&text) as u64;
    assert_eq!(record.tokens.unwrap().output, Some(counted), "{record:?}");
}

#[tokio::test]
async fn a_counted_answer_is_charged_up_to_its_cap() {
    let context = context().await;
    let message = json!({ "content": "w ".repeat(300) });
    for usage in [Value::Null, json!({ "prompt_tokens": 8 })] {
        for (cap, choices, output) in [(5, 1, 5), (5, 2, 10)] {
            let mut body = question("asked", "hi");
            (body["max_tokens"], body["n"]) = (json!(cap), json!(choices));
            let sent = answered(false, &message, &usage);
            let (_, record) = context.send_request("/v1/chat/completions", &body, sent).await;
            assert_eq!(record.tokens.unwrap().output, Some(output), "{record:?}");
            assert_eq!(record.usage_basis(), UsageBasis::Counted, "{record:?}");
        }
    }
}

#[tokio::test]
async fn undelivered_text_is_not_charged() {
    let context = context().await;
    for usage in [None, Some(usage(8, 601))] {
        for cap in [5, 50] {
            let mut body = question("asked", "hi");
            (body["max_tokens"], body["stream"]) = (json!(cap), json!(true));
            let mut chunks = vec![delta(&"w ".repeat(30)); 20];
            chunks.extend(usage.clone().map(|usage| with_usage(delta("w"), usage)));
            chunks.push(finish());
            let (answer, record) =
                context.send_request("/v1/chat/completions", &body, stream_of(&chunks)).await;
            assert_eq!(record.status(), RequestStatus::Incomplete, "{record:?}");
            let received = o200k_base().count(&text_of(&answer.events())) as u64;
            let output = record.tokens.unwrap().output.unwrap();
            assert!(output <= received.min(cap) + 1, "{received} received: {record:?}");
            assert!(output + 1 >= received.min(cap), "{received} received: {record:?}");
        }
    }
}

#[tokio::test]
async fn a_failed_request_without_output_is_not_charged() {
    let context = context().await;
    let usage = json!({ "choices": [], "usage": usage(9, 100_000) });
    let broken = json!({ "error": { "message": "out of memory" }, "usage": usage["usage"] });
    let event = format!("data: {usage}\n\nevent: error\ndata: {{}}\n\n");
    let streamed = format!("{}{}{}", stream_head(), chunk(&event), chunk(""));
    for (stream, sent) in [(true, streamed), (false, json_answer(200, &broken.to_string()))] {
        let before = context.alice.records(0).await.len();
        let mut body = question("asked", "hi");
        body["stream"] = stream.into();
        let request = context.product.chat(&context.key, &body);
        let (answer, _) = tokio::join!(request.answer(), context.upstream.answer(sent));
        assert_eq!(answer.status, 502, "{answer:?}");
        let record = context.alice.records(before + 1).await.pop().unwrap();
        assert_eq!(record.status(), RequestStatus::Failed, "{record:?}");
        assert_eq!(record.cost_usd.as_deref(), Some("0"), "{record:?}");
    }
    // the streamed output is charged
    let events = format!("data: {}\n\nevent: error\ndata: {{}}\n\n", delta("hello world"));
    let sent = format!("{}{}{}", stream_head(), chunk(&events), chunk(""));
    let mut body = question("asked", "hi");
    body["stream"] = json!(true);
    let (_, record) = context.send_request("/v1/chat/completions", &body, sent).await;
    assert_eq!(record.status(), RequestStatus::Failed, "{record:?}");
    assert_eq!(record.tokens.unwrap().output, Some(2), "{record:?}");
}

#[tokio::test]
async fn reported_zero_prompt_tokens_are_replaced_by_a_count() {
    let context = context().await;
    for (_, record) in context.send_in_all_forms(&json!({ "content": "hi" }), &usage(0, 2)).await {
        let tokens = record.tokens.unwrap();
        assert_eq!((tokens.input, tokens.output), (Some(8), Some(2)), "{record:?}");
        assert_eq!(record.usage_basis(), UsageBasis::Counted, "{record:?}");
        assert_eq!(record.notes, ["usage_counted=prompt_tokens"]);
    }
}

#[tokio::test]
async fn an_implausible_cached_token_count_is_discarded() {
    let context = context().await;
    let mut report = usage(1_000_000_000, 2);
    report["prompt_tokens_details"] = json!({ "cached_tokens": 1_000_000_000 });
    for (_, record) in context.send_in_all_forms(&json!({ "content": "hi" }), &report).await {
        assert_eq!(record.tokens.unwrap().cached, None, "{record:?}");
        assert!(usd(record.cost_usd.as_deref()) > 0.016, "{record:?}");
    }
}
