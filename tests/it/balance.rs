//! Promise 2: money is exact. Concurrent requests never spend more than the balance.

use proto::v1::RequestStatus;
use serde_json::{Value, json};
use tests::{Product, RawUpstream, Session, json_answer, question};

async fn product_with_balance(balance_usd: &str) -> (Product, RawUpstream, Session, String) {
    let (product, upstream) = (Product::start().await, RawUpstream::start().await);
    let operator = product.operator().await;
    operator.add_model_on("asked", &[&upstream.url]).await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    operator.credit("alice", "-5").await;
    operator.credit("alice", balance_usd).await;
    (product, upstream, alice, key)
}

fn answered(tokens: u64) -> String {
    let choices = json!([{ "message": { "content": "hi" }, "finish_reason": "stop" }]);
    let usage = json!({ "prompt_tokens": 1, "completion_tokens": tokens });
    json_answer(200, &json!({ "choices": choices, "usage": usage }).to_string())
}

#[tokio::test]
async fn a_cap_above_the_balance_is_lowered_and_noted() {
    // 1, 0.1 and 2 dollars per million tokens
    let (product, upstream, alice, key) = product_with_balance("0.001").await;
    let mut body = question("asked", "hi");
    for (name, value) in [("max_tokens", json!(25_000_000)), ("max_tokens", Value::Null)] {
        body[name] = value;
        let (answer, sent) =
            tokio::join!(product.chat(&key, &body).answer(), upstream.answer(answered(0)));
        assert_eq!(answer.status, 200, "{answer:?}");
        let cap = sent.json()["max_tokens"].as_u64().unwrap();
        assert!((1..=500).contains(&cap), "half a cent a thousand tokens: {cap}");
        let header = format!("output_cap_lowered={cap}");
        assert_eq!(answer.header("x-tollgate-translation"), header);
    }
    let response = json!({ "model": "asked", "input": "hi", "max_output_tokens": 25_000_000 });
    let request = product.post("/v1/responses").bearer(&key).json(&response);
    let (answer, sent) = tokio::join!(request.answer(), upstream.answer(answered(0)));
    let cap = sent.json()["max_tokens"].as_u64().unwrap();
    assert_eq!(answer.header("x-tollgate-translation"), format!("output_cap_lowered={cap}"));
    for record in alice.records(3).await {
        assert!(record.notes[0].starts_with("output_cap_lowered="), "{record:?}");
    }
}

#[tokio::test]
async fn usage_beyond_the_balance_is_not_charged() {
    let (product, upstream, alice, key) = product_with_balance("0.001").await;
    let (answer, _) = tokio::join!(
        product.chat(&key, &question("asked", "hi")).answer(),
        // half a dollar's worth, whatever the cap was
        upstream.answer(answered(250_000))
    );
    assert_eq!(answer.status, 200);
    let record = alice.record().await;
    // charged up to the cap that was sent, which the balance pays for
    let cost: f64 = record.cost_usd.as_deref().unwrap().parse().unwrap();
    let left: f64 = alice.account().await.balance_usd.parse().unwrap();
    assert!((0.0009..=0.001).contains(&cost), "{record:?}");
    assert!((cost + left - 0.001).abs() < 1e-12, "{left} left");
    assert!(record.notes.contains(&"usage_bounded:completion_tokens=250000".to_owned()));
    if left > 0.0 {
        // the rest, which was held for the input, would pay for a few more tokens
        product.operator().await.credit("alice", &format!("-{left:.9}")).await;
    }
    let refused = product.chat(&key, &question("asked", "hi")).answer().await;
    assert_eq!((refused.status, &refused.error()["code"]), (429, &json!("insufficient_quota")));
    assert_eq!(refused.header("x-should-retry"), "false");
}

#[tokio::test]
async fn a_thousand_concurrent_requests_never_overspend_the_balance() {
    let product = Product::start().await;
    product.serve_model("asked", product.simulator_url(), "sim-chat").await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    let operator = product.operator().await;
    operator.credit("alice", "-5").await;
    operator.credit("alice", "0.02").await;
    let statuses = product.ask_at_once(&key, "asked", 1_000).await;
    assert!(statuses.iter().all(|status| [200, 429].contains(status)), "{statuses:?}");
    let served = statuses.iter().filter(|status| **status == 200).count();
    assert!(served > 0);
    let records = alice.records(1_000).await;
    assert_eq!(tests::requests_of(&records), 1_000);
    let spent: f64 =
        records.iter().filter_map(|it| it.cost_usd.as_ref()?.parse::<f64>().ok()).sum();
    let left: f64 = alice.account().await.balance_usd.parse().unwrap();
    assert!(left >= 0.0 && (left + spent - 0.02).abs() < 1e-9, "left {left}, spent {spent}");
}

#[tokio::test]
async fn a_stream_whose_balance_runs_out_ends_as_incomplete() {
    let (product, upstream, alice, key) = product_with_balance("0.01").await;
    for path in ["/v1/chat/completions", "/v1/responses"] {
        let mut body = question("asked", "hi");
        if path == "/v1/responses" {
            body = json!({ "model": "asked", "input": "hi" });
        }
        body["stream"] = json!(true);
        let request = product.post(path).bearer(&key).json(&body);
        let (answer, ()) = tokio::join!(request.answer(), upstream.answer_endlessly());
        assert_eq!(answer.status, 200);
        assert!(answer.text().ends_with("data: [DONE]\n\n"));
        let limit = ["\"finish_reason\":\"length\"", "response.incomplete"];
        assert!(limit.iter().any(|it| answer.text().contains(it)), "{path}");
        product.operator().await.credit("alice", "0.01").await;
    }
    for record in alice.records(2).await {
        assert_eq!(record.status(), RequestStatus::Incomplete, "{record:?}");
    }
    let left: f64 = alice.account().await.balance_usd.parse().unwrap();
    assert!(left >= 0.0);
}
