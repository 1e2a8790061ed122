//! Monthly tokens and spending caps of keys: fully usable, never exceeded, across restarts and
//! rotations.

use std::sync::Arc;
use std::time::Duration;

use proto::v1::{self, RequestStatus};
use serde_json::{Value, json};
use tests::http::Answer;
use tests::{ManualClock, NewKey, Product, RawUpstream, Session, json_answer, question};

/// Returns a gateway in the middle of a month, with a model `asked` on the test's upstream.
async fn product() -> (Product, ManualClock, RawUpstream) {
    let clock = ManualClock::at("2026-11-20T12:00:00Z");
    let ticking = clock.clone();
    let product = Product::with(move |setup| setup.clock = Arc::new(ticking)).await;
    let upstream = RawUpstream::start().await;
    product.operator().await.add_model_on("asked", &[&upstream.url]).await;
    (product, clock, upstream)
}

/// Sends a request whose answer reports this usage.
async fn use_tokens(
    product: &Product,
    upstream: &RawUpstream,
    key: &str,
    [input, output]: [u64; 2],
) -> (Answer, Value) {
    let usage = json!({ "prompt_tokens": input, "completion_tokens": output });
    let body = json!({ "choices": [{}], "usage": usage }).to_string();
    let request = product.chat(key, &question("asked", "hi"));
    let (answer, sent) = tokio::join!(request.answer(), upstream.answer(json_answer(200, &body)));
    assert_eq!(answer.status, 200, "{answer:?}");
    (answer, sent.json())
}

#[track_caller]
fn check_used_up(answer: &Answer, text: &str) {
    assert_eq!((answer.status, &answer.error()["code"]), (429, &json!("insufficient_quota")));
    assert!(answer.error()["message"].as_str().unwrap().contains(text), "{answer:?}");
    assert_eq!((answer.header("x-should-retry"), answer.header("retry-after")), ("false", ""));
}

fn monthly(tokens: u64) -> v1::Limits {
    v1::Limits { monthly_tokens: Some(tokens), ..Default::default() }
}

async fn capped(alice: &Session, cap: &str) -> NewKey {
    alice.key_with(|key| cap.clone_into(&mut key.spend_cap_usd)).await
}

#[tokio::test]
async fn a_monthly_quota_survives_restarts_and_resets_with_the_month() {
    let (product, clock, upstream) = product().await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    use_tokens(&product, &upstream, &key, [5, 495]).await;
    // a quota that is set later covers the earlier usage
    product.operator().await.limit_plan(monthly(1_000)).await;
    let (answer, sent) = use_tokens(&product, &upstream, &key, [5, 145]).await;
    let cap = sent["max_tokens"].as_u64().unwrap();
    assert!((300..500).contains(&cap), "the rest of the month: {cap}");
    assert_eq!(answer.header("x-tollgate-translation"), format!("output_cap_lowered={cap}"));

    let product = product.stop().await.start().await;
    use_tokens(&product, &upstream, &key, [5, 330]).await;
    let product = product.stop().await.start().await;
    let refused = product.chat(&key, &question("asked", "hi")).answer().await;
    check_used_up(
        &refused,
        "what is left of the 1000 tokens per month of this account's plan does not suffice for this request \
         until 2026-12-01T00:00:00Z",
    );
    clock.advance(Duration::from_hours(11 * 24));
    use_tokens(&product, &upstream, &key, [1, 1]).await;
}

#[tokio::test]
async fn a_stream_ends_where_the_monthly_quota_ends() {
    let (product, _, upstream) = product().await;
    let alice = product.member("alice").await;
    let key = alice.key_with(|key| key.limits = Some(monthly(5_000))).await.secret;
    let mut body = question("asked", "hi");
    body["stream"] = json!(true);
    let request = product.chat(&key, &body);
    let (answer, ()) = tokio::join!(request.answer(), upstream.answer_endlessly());
    assert!(answer.text().contains("\"finish_reason\":\"length\""));
    assert!(answer.text().ends_with("data: [DONE]\n\n"));
    assert_eq!(alice.record().await.status(), RequestStatus::Incomplete);
}

#[tokio::test]
async fn a_strict_key_gets_an_error_with_the_rest_of_the_quota_instead_of_a_lower_cap() {
    let (product, _, _) = product().await;
    let alice = product.member("alice").await;
    let strict = |key: &mut v1::CreateKeyRequest| {
        key.limits = Some(monthly(500));
        key.translation = v1::Translation::Strict.into();
    };
    let key = alice.key_with(strict).await.secret;
    let body = json!({ "model": "asked", "input": "hi", "max_output_tokens": 9_000 });
    let refused = product.post("/v1/responses").bearer(&key).json(&body).answer().await;
    check_used_up(&refused, "lower `max_output_tokens`");
}

#[tokio::test]
async fn three_hundred_concurrent_requests_never_overspend_a_keys_cap() {
    let product = Product::start().await;
    product.serve_model("asked", product.simulator_url(), "sim-chat").await;
    let alice = product.member("alice").await;
    let key = capped(&alice, "0.004").await.secret;
    let statuses = product.ask_at_once(&key, "asked", 300).await;
    assert!(statuses.iter().all(|status| [200, 429].contains(status)), "{statuses:?}");
    assert!(statuses.contains(&200) && statuses.contains(&429));
    let records = alice.records(300).await;
    let costs = records.iter().filter_map(|it| it.cost_usd.as_ref()?.parse::<f64>().ok());
    let spent: f64 = costs.sum();
    assert!(spent > 0.0 && spent <= 0.004 + 1e-12, "{spent}");
    let uncapped = alice.key().await.secret;
    let answer = product.chat(&uncapped, &question("asked", "hi")).answer().await;
    assert_eq!(answer.status, 200, "the account has money");
}

#[tokio::test]
async fn a_keys_spending_is_kept_across_rotations_and_restarts() {
    let (product, _, upstream) = product().await;
    let alice = product.member("alice").await;
    let old = capped(&alice, "0.01").await;
    // 2 dollars per million output tokens
    use_tokens(&product, &upstream, &old.secret, [0, 2_000]).await;
    let rotate = v1::RotateKeyRequest { id: old.id, overlap_seconds: 3_600 };
    let rotated = alice.keys().rotate_key(rotate).await.unwrap().into_inner();
    assert_eq!(rotated.key.unwrap().spend_cap_usd, "0.01");
    let new = rotated.secret;
    use_tokens(&product, &upstream, &new, [0, 1_000]).await;
    use_tokens(&product, &upstream, &old.secret, [0, 1_000]).await;

    let product = product.stop().await.start().await;
    let (answer, sent) = use_tokens(&product, &upstream, &new, [0, 900]).await;
    let cap = sent["max_tokens"].as_u64().unwrap();
    assert!((900..1_000).contains(&cap), "two tenths of a cent are left: {cap}");
    assert_eq!(answer.header("x-tollgate-translation"), format!("output_cap_lowered={cap}"));
    // Usage beyond the hold, and beyond the cap that was sent, is not charged.
    use_tokens(&product, &upstream, &old.secret, [1_000, 500_000]).await;
    for secret in [&new, &old.secret] {
        let refused = product.chat(secret, &question("asked", "hi")).answer().await;
        check_used_up(
            &refused,
            "what is left of the 0.01 dollars that this key may spend does not pay",
        );
    }
    let alice = Session::sign_in(&product.admin, "alice").await;
    let balance: f64 = alice.account().await.balance_usd.parse().unwrap();
    assert!((4.99..4.9901).contains(&balance), "the key has spent its cap of one cent: {balance}");
}
