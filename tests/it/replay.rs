//! `Idempotency-Key`: a retry gets the response of the first attempt, free of charge.

use std::sync::Arc;
use std::time::Duration;

use proto::v1::{self, RequestStatus};
use serde_json::{Value, json};
use simulator::{Settings, Simulator, TruthLog};
use tests::http::{Answer, Request};
use tests::{ManualClock, Product, RawUpstream, Session, json_answer, question};
use tokio::task::JoinSet;

const ANSWER: &str = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;

/// Returns a gateway with a simulator and the simulator's truth log.
async fn product() -> (Product, TruthLog) {
    let truth = TruthLog::memory();
    let settings = Settings { seed: 1, truth: truth.clone() };
    let product = Product::with(|setup| setup.simulator = Simulator::new(settings)).await;
    (product, truth)
}

/// Returns a gateway with a model on the test's upstream.
async fn on_raw() -> (Product, RawUpstream, Session, String) {
    let (product, upstream) = (Product::start().await, RawUpstream::start().await);
    product.operator().await.add_model_on("asked", &[&upstream.url]).await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    (product, upstream, alice, key)
}

fn keyed(request: Request, key: &str) -> Request {
    request.header("idempotency-key", key)
}

fn streamed(mut body: Value) -> Value {
    body["stream"] = json!(true);
    body
}

#[track_caller]
fn check_error(answer: &Answer, status: u16, code: &str, first: &str) {
    assert_eq!((answer.status, &answer.error()["code"]), (status, &json!(code)), "{answer:?}");
    assert!(answer.error()["message"].as_str().unwrap().contains(first), "{answer:?}");
}

#[tokio::test]
async fn a_retry_gets_the_same_response_and_is_not_charged() {
    let (product, truth) = product().await;
    let alice = product.member("alice").await;
    let limits = v1::Limits { rpm: Some(9), ..Default::default() };
    let key = alice.key_with(|key| key.limits = Some(limits)).await.secret;
    let response = json!({ "model": "sim-chat", "input": "hello" });
    let chat = question("sim-chat", "hello");
    let cases = [
        ("/v1/chat/completions", chat.clone()),
        ("/v1/chat/completions", streamed(chat)),
        ("/v1/responses", response.clone()),
        ("/v1/responses", streamed(response)),
    ];
    for (number, (path, body)) in cases.into_iter().enumerate() {
        let name = format!("case {number}");
        let send_request = || keyed(product.post(path).bearer(&key).json(&body), &name).answer();
        let first = send_request().await;
        assert_eq!((first.status, first.header("idempotent-replayed")), (200, ""));
        let before = alice.records(2 * number + 1).await;
        let balance = alice.account().await.balance_usd;

        let again = send_request().await;
        assert_eq!((again.status, again.header("idempotent-replayed")), (200, "true"));
        assert_eq!(again.body, first.body, "{path}");
        assert_eq!(again.header("content-type"), first.header("content-type"));
        let limit = |answer: &Answer| answer.header("x-ratelimit-limit-requests").to_owned();
        assert_eq!((limit(&first).as_str(), limit(&again).as_str()), ("9", ""));
        assert_ne!(again.header("x-request-id"), first.header("x-request-id"));

        assert_eq!(truth.entries().len(), number + 1, "the upstream gets no second request");
        assert_eq!(alice.account().await.balance_usd, balance);
        let record = alice.records(2 * number + 2).await.pop().unwrap();
        let original = before.last().unwrap();
        assert_eq!(record.notes, [format!("idempotent_replay_of={}", original.id)]);
        assert_eq!(record.cost_usd.as_deref(), Some("0"), "{record:?}");
        assert_eq!((record.status(), record.stream), (RequestStatus::Completed, original.stream));
        assert_eq!((&record.model, record.tokens), (&original.model, None));
        assert_ne!(original.cost_usd.as_deref(), Some("0"), "{original:?}");
    }
}

#[tokio::test]
async fn a_retry_waits_for_a_plain_answer_in_flight() {
    let (product, upstream, alice, key) = on_raw().await;
    let send_request = || keyed(product.chat(&key, &question("asked", "hi")), "one").answer();
    let answering = async {
        let mut call = upstream.call().await;
        // the first attempt has reached the upstream: further requests are retries
        let mut retries = JoinSet::new();
        retries.spawn(keyed(product.chat(&key, &question("asked", "hi")), "one").answer());
        let other = keyed(product.chat(&key, &question("asked", "ho")), "one").answer().await;
        check_error(&other, 422, "idempotency_key_reused", "");
        call.send(json_answer(200, ANSWER)).await;
        retries.join_next().await.unwrap().unwrap()
    };
    let (first, again) = tokio::join!(send_request(), answering);
    assert_eq!((first.status, first.header("idempotent-replayed")), (200, ""));
    assert_eq!((again.status, again.header("idempotent-replayed")), (200, "true"));
    assert_eq!(again.body, first.body);
    let charged = alice.records(3).await.into_iter().filter(|record| record.tokens.is_some());
    assert_eq!(charged.count(), 1);
}

#[tokio::test]
async fn a_retry_of_a_stream_in_flight_gets_retry_after() {
    let (product, _) = product().await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    let body = streamed(question("sim-chat", "hi [sim stall=2]"));
    let request = || keyed(product.chat(&key, &body), "one");
    let mut first = request().send().await;
    first.event().await.unwrap();
    let again = request().answer().await;
    check_error(
        &again,
        409,
        "idempotency_in_progress",
        first.headers["x-request-id"].to_str().unwrap(),
    );
    assert_eq!((again.header("retry-after"), again.header("x-should-retry")), ("5", ""));
    let refused = alice.records(1).await.pop().unwrap();
    assert_eq!(refused.status(), RequestStatus::Rejected, "{refused:?}");
    assert_eq!((refused.stream, refused.model.as_deref()), (true, Some("sim-chat")));

    drop(first);
    let cancelled = alice.records(2).await.pop().unwrap();
    assert_eq!(cancelled.status(), RequestStatus::Cancelled, "{cancelled:?}");
    let mut anew = request().send().await;
    assert_eq!(anew.status, 200, "an answer cut off by a disconnect is not replayed");
    assert!(!anew.headers.contains_key("idempotent-replayed"));
    anew.event().await.unwrap();
}

#[tokio::test]
async fn a_failed_attempt_is_repeated() {
    let (product, truth) = product().await;
    let key = product.member("alice").await.key().await.secret;
    let send_request = |body: &Value| keyed(product.chat(&key, body), "one").answer();
    let failing = question("sim-chat", "hi [sim status=503 times=1]");
    assert_eq!(send_request(&failing).await.status, 503);
    let served = send_request(&failing).await;
    assert_eq!((served.status, served.header("idempotent-replayed")), (200, ""));
    assert_eq!(send_request(&failing).await.body, served.body);
    assert_eq!(truth.entries().len(), 2);

    let broken = streamed(question("sim-chat", "hi [sim cut=2 times=1]"));
    let send_request = || keyed(product.chat(&key, &broken), "two").answer();
    assert!(
        !send_request().await.text().contains("[DONE]"),
        "the stream breaks after its beginning"
    );
    let whole = send_request().await;
    assert!(whole.text().contains("[DONE]") && whole.header("idempotent-replayed").is_empty());
    assert_eq!(send_request().await.body, whole.body);
    let refused = question("no-such-model", "hi");
    for _ in 0..2 {
        let refused = keyed(product.chat(&key, &refused), "three").answer().await;
        assert_eq!(refused.error()["code"], "model_not_found");
    }
}

#[tokio::test]
async fn a_key_with_another_body_or_endpoint_is_refused() {
    let (product, truth) = product().await;
    let alice = product.member("alice").await;
    let (key, other) = (alice.key().await.secret, alice.key().await.secret);
    let send_request =
        |text: &str| keyed(product.chat(&key, &question("sim-chat", text)), "one").answer();
    let first = send_request("hello").await;
    check_error(
        &send_request("hullo").await,
        422,
        "idempotency_key_reused",
        first.header("x-request-id"),
    );
    let elsewhere = product.post("/v1/responses").bearer(&key).json(&question("sim-chat", "hello"));
    check_error(&keyed(elsewhere, "one").answer().await, 422, "idempotency_key_reused", "");
    let of_other = keyed(product.chat(&other, &question("sim-chat", "hullo")), "one");
    assert_eq!(
        of_other.answer().await.status,
        200,
        "idempotency keys are separate for each API key"
    );
    for malformed in [String::new(), "k".repeat(256)] {
        let answer = keyed(product.chat(&key, &question("sim-chat", "hi")), &malformed).answer();
        check_error(&answer.await, 400, "invalid_value", "Idempotency-Key");
    }
    assert_eq!(truth.entries().len(), 2);
}

#[tokio::test]
async fn an_answer_too_long_to_store_is_not_repeated() {
    let (product, truth) = product().await;
    let key = product.member("alice").await.key().await.secret;
    let body = streamed(question("sim-chat", "hi [sim words=10000]"));
    let first = keyed(product.chat(&key, &body), "one").answer().await;
    assert!(first.body.len() > 1024 * 1024, "{}", first.body.len());
    let again = keyed(product.chat(&key, &body), "one").answer().await;
    check_error(&again, 409, "idempotent_answer_gone", first.header("x-request-id"));
    assert_eq!(again.header("x-should-retry"), "false");
    assert_eq!(truth.entries().len(), 1);
}

#[tokio::test]
async fn stored_answers_and_their_expiry_survive_a_restart() {
    let clock = ManualClock::at("2026-11-20T12:00:00Z");
    let (ticking, truth) = (clock.clone(), TruthLog::memory());
    let settings = Settings { seed: 1, truth: truth.clone() };
    let product = Product::with(|setup| {
        setup.clock = Arc::new(ticking);
        setup.simulator = Simulator::new(settings);
    })
    .await;
    let key = product.member("alice").await.key().await.secret;
    let send_request =
        |product: &Product| keyed(product.chat(&key, &question("sim-chat", "hi")), "one").answer();
    let first = send_request(&product).await;
    assert_eq!(first.status, 200);
    clock.advance(Duration::from_mins(9));
    let product = product.stop().await.start().await;
    check_error(
        &send_request(&product).await,
        409,
        "idempotent_answer_gone",
        first.header("x-request-id"),
    );
    clock.advance(Duration::from_mins(1));
    let anew = send_request(&product).await;
    assert_eq!((anew.status, anew.header("idempotent-replayed")), (200, ""));
    assert_eq!(send_request(&product).await.header("idempotent-replayed"), "true");
    assert_eq!(truth.entries().len(), 2);
}

#[tokio::test]
async fn idempotency_keys_are_ignored_when_disabled() {
    let truth = TruthLog::memory();
    let settings = Settings { seed: 1, truth: truth.clone() };
    let product = Product::with(|setup| {
        setup.config.idempotency = Duration::ZERO;
        setup.simulator = Simulator::new(settings);
    })
    .await;
    let key = product.member("alice").await.key().await.secret;
    for text in ["hello", "hello", "hullo"] {
        let request = keyed(product.chat(&key, &question("sim-chat", text)), "one");
        assert_eq!(request.answer().await.status, 200);
    }
    assert_eq!(truth.entries().len(), 3);
}
