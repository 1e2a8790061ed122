//! The hold for a request's input: never less than the possible tokens, and exact once the balance
//! or a limit depends on it.

use proto::v1;
use serde_json::{Value, json};
use tests::http::Answer;
use tests::{Product, RawUpstream, Session, chunk, json_answer, question, stream_head};
use tokio::task::JoinSet;

/// 216 KB of plain English, 40,002 tokens.
fn long_text() -> String {
    "lorem ipsum dolor sit amet ".repeat(8_000)
}

fn answered(input: u64, output: u64) -> String {
    let usage = json!({ "prompt_tokens": input, "completion_tokens": output });
    let choices = json!([{ "message": { "content": "hi" }, "finish_reason": "stop" }]);
    json_answer(200, &json!({ "choices": choices, "usage": usage }).to_string())
}

/// Adds a model `name` on an upstream, and a member with a balance and a key.
async fn customer(
    product: &Product,
    name: &str,
    balance_usd: &str,
) -> (RawUpstream, Session, String) {
    let upstream = RawUpstream::start().await;
    let operator = product.operator().await;
    operator.add_model_on(name, &[&upstream.url]).await;
    let member = product.member(name).await;
    let key = member.key().await.secret;
    operator.credit(name, "-5").await;
    operator.credit(name, balance_usd).await;
    (upstream, member, key)
}

/// Sends a request that the upstream answers. Returns the response and the cap that the upstream
/// received.
async fn send_request(
    product: &Product,
    upstream: &RawUpstream,
    key: &str,
    body: &Value,
    usage: [u64; 2],
) -> (Answer, Option<u64>) {
    let answer = answered(usage[0], usage[1]);
    let request = product.chat(key, body);
    let (answer, sent) = tokio::join!(request.answer(), upstream.answer(answer));
    (answer, sent.json()["max_tokens"].as_u64())
}

/// Expects that a second request like `body` is refused while the first is in flight: the balance
/// pays for one.
async fn check_only_one_is_served(product: &Product, name: &str, balance_usd: &str, body: Value) {
    let (upstream, _, key) = customer(product, name, balance_usd).await;
    let mut body = body;
    body["model"] = name.into();
    body["max_tokens"] = 5.into();
    let first = product.chat(&key, &body).answer();
    let second = async {
        let call = upstream.call().await;
        let refused = product.chat(&key, &body).answer().await;
        assert_eq!(refused.status, 429, "{name}: {refused:?}");
        let mut call = call;
        call.send(answered(100, 1)).await;
        call.finish().await;
    };
    let (first, ()) = tokio::join!(first, second);
    assert_eq!(first.status, 200, "{name}: {first:?}");
}

#[tokio::test]
async fn text_in_any_field_counts_towards_the_hold() {
    let product = std::sync::Arc::new(Product::start().await);
    let text = long_text();
    let hi = json!([{ "role": "user", "content": "hi" }]);
    let schema = json!({ "name": "a", "description": text, "schema": {} });
    let cases = [
        ("content", json!({ "messages": [{ "role": "user", "content": text }] })),
        (
            "functions",
            json!({ "messages": hi, "functions": [{ "name": "f", "description": text }] }),
        ),
        (
            "schema",
            json!({
                "messages": hi,
                "response_format": { "type": "json_schema", "json_schema": schema },
            }),
        ),
        ("documents", json!({ "messages": hi, "documents": [{ "text": text }] })),
        (
            "reasoning",
            json!({ "messages": [{ "role": "assistant", "reasoning": text, "content": "a" }] }),
        ),
    ];
    let mut checks = JoinSet::new();
    for (name, body) in cases {
        let product = product.clone();
        checks.spawn(async move { check_only_one_is_served(&product, name, "0.06", body).await });
    }
    checks.join_all().await;
}

#[tokio::test]
async fn requests_with_few_tokens_per_byte_do_not_lower_the_hold_of_others() {
    let product = Product::start().await;
    let (upstream, _, key) = customer(&product, "blank", "5").await;
    let blank = question("blank", &format!("a{}", " ".repeat(20_000)));
    for _ in 0..100 {
        let (answer, _) = send_request(&product, &upstream, &key, &blank, [200, 1]).await;
        assert_eq!(answer.status, 200);
    }
    let text = json!({ "messages": [{ "role": "user", "content": long_text() }] });
    check_only_one_is_served(&product, "long", "0.06", text).await;
}

#[tokio::test]
async fn images_by_url_count_towards_the_hold_by_number() {
    let product = Product::start().await;
    let image = json!({ "type": "image_url", "image_url": { "url": "http://x/y.png" } });
    let body = json!({ "messages": [{ "role": "user", "content": [image] }] });
    check_only_one_is_served(&product, "image", "0.006", body).await;
}

#[tokio::test]
async fn an_inline_image_does_not_count_as_text() {
    let product = Product::start().await;
    let (upstream, member, key) = customer(&product, "vision", "1").await;
    let url = format!("data:image/png;base64,{}", "iVBORw0K".repeat(250_000));
    let image = json!({ "type": "image_url", "image_url": { "url": url } });
    let content = json!([{ "type": "text", "text": "What is this?" }, image]);
    let body = json!({
        "model": "vision",
        "max_tokens": 100,
        "messages": [{ "role": "user", "content": content }],
    });
    let (answer, cap) = send_request(&product, &upstream, &key, &body, [1_500, 50]).await;
    assert_eq!((answer.status, cap), (200, Some(100)), "{answer:?}");
    let limits =
        v1::Limits { tpm: Some(200_000), monthly_tokens: Some(1_000_000), ..Default::default() };
    let limited = member.key_with(|key| key.limits = Some(limits)).await.secret;
    let (answer, cap) = send_request(&product, &upstream, &limited, &body, [1_500, 50]).await;
    assert_eq!((answer.status, cap), (200, Some(100)), "{answer:?}");
}

#[tokio::test]
async fn a_larger_balance_never_lowers_the_cap() {
    let product = Product::start().await;
    let mut body = question("asked", &long_text()[..81_000]);
    body["max_tokens"] = 8_000.into();
    let (upstream, _, key) = customer(&product, "asked", "0.034").await;
    let operator = product.operator().await;
    // One dollar per million input tokens, 15,000 here, and two per million output tokens.
    for more in ["0", "0.01", "0.03", "0.01", "0.005", "0.02", "0.1"] {
        if more != "0" {
            operator.credit("asked", more).await;
        }
        for stream in [false, true] {
            let mut body = body.clone();
            body["stream"] = stream.into();
            let answer = if stream {
                let request = product.chat(&key, &body);
                let (answer, sent) = tokio::join!(request.answer(), upstream.answer(streamed()));
                assert_eq!(sent.json()["max_tokens"], 8_000, "with {more} more: {answer:?}");
                answer
            } else {
                let (answer, cap) = send_request(&product, &upstream, &key, &body, [1, 1]).await;
                assert_eq!(cap, Some(8_000), "with {more} more: {answer:?}");
                answer
            };
            assert_eq!(answer.status, 200, "with {more} more: {answer:?}");
        }
    }
}

fn streamed() -> String {
    let answer = json!({
        "choices": [{ "index": 0, "delta": { "content": "hi" }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 1, "completion_tokens": 1 },
    });
    let events = chunk(&format!("data: {answer}\n\ndata: [DONE]\n\n"));
    format!("{}{events}0\r\n\r\n", stream_head())
}

#[tokio::test]
async fn the_input_of_a_responses_request_is_tokenized_before_it_is_refused() {
    let product = Product::start().await;
    let (upstream, _, key) = customer(&product, "asked", "0.08").await;
    let body = json!({ "model": "asked", "input": long_text(), "max_output_tokens": 16 });
    let request = product.post("/v1/responses").bearer(&key).json(&body);
    let (answer, _) = tokio::join!(request.answer(), upstream.answer(answered(40_000, 1)));
    assert_eq!(answer.status, 200, "{answer:?}");
    let limits = v1::Limits { monthly_tokens: Some(90_000), ..Default::default() };
    product.operator().await.limit_plan(limits).await;
    product.operator().await.credit("asked", "1").await;
    let request = product.post("/v1/responses").bearer(&key).json(&body);
    let (answer, _) = tokio::join!(request.answer(), upstream.answer(answered(40_000, 1)));
    assert_eq!(answer.status, 200, "{answer:?}");
    let refused = product.post("/v1/responses").bearer(&key).json(&body).answer().await;
    assert_eq!(refused.status, 429, "{refused:?}");
}
