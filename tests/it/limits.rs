//! Limits: requests per minute, tokens per minute, concurrency, balance.

use std::sync::Arc;
use std::time::Duration;

use domain::money::Nanos;
use proto::v1;
use serde_json::json;
use tests::http::Answer;
use tests::{ManualClock, Product, RawUpstream, json_answer, question};
use tokio::task::JoinSet;

async fn product() -> (Product, ManualClock) {
    let clock = ManualClock::at("2026-11-20T12:00:00Z");
    let ticking = clock.clone();
    (Product::with(move |setup| setup.clock = Arc::new(ticking)).await, clock)
}

/// Returns a plain answer with this usage.
fn used(input: u64, output: u64) -> String {
    let usage = json!({ "prompt_tokens": input, "completion_tokens": output });
    json_answer(200, &json!({ "choices": [{}], "usage": usage }).to_string())
}

#[track_caller]
fn check_limited(answer: &Answer, scope: &str) -> Duration {
    assert_eq!(answer.status, 429, "{answer:?}");
    let error = answer.error();
    assert_eq!(error["code"], "rate_limit_exceeded");
    assert!(error["message"].as_str().unwrap().contains(scope), "{error}");
    let seconds: u64 = answer.header("retry-after").parse().unwrap();
    let millis: u64 = answer.header("retry-after-ms").parse().unwrap();
    assert!(seconds >= 1 && seconds == millis.div_ceil(1000), "{answer:?}");
    Duration::from_secs(seconds)
}

#[tokio::test]
async fn requests_per_minute_are_limited_and_retry_after_is_exact() {
    let (product, clock) = product().await;
    let alice = product.member("alice").await;
    let limits = v1::Limits { rpm: Some(2), ..Default::default() };
    let key = alice.key_with(|key| key.limits = Some(limits)).await.secret;
    let send_request = || product.chat(&key, &question("sim-chat", "hi")).answer();
    assert_eq!((send_request().await.status, send_request().await.status), (200, 200));
    let wait = check_limited(&send_request().await, "requests per minute of this key (limit 2)");
    clock.advance(wait);
    assert_eq!(send_request().await.status, 200);

    let other = alice.key().await.secret;
    let free = product.chat(&other, &question("sim-chat", "hi")).answer().await;
    assert_eq!(free.status, 200, "the limit applies to one key only");
    let refused = alice.records(5).await.remove(2);
    assert_eq!(refused.status(), v1::RequestStatus::Rejected, "{refused:?}");
    assert_eq!(refused.error_code.as_deref(), Some("rate_limit_exceeded"));
    assert_eq!((refused.http_status, refused.deployment), (Some(429), None));
}

#[tokio::test]
async fn tokens_per_minute_of_a_plan_apply_to_all_keys_of_an_account() {
    let (product, clock) = product().await;
    let upstream = RawUpstream::start().await;
    let operator = product.operator().await;
    operator.add_model_on("asked", &[&upstream.url]).await;
    operator.limit_plan(v1::Limits { tpm: Some(400), ..Default::default() }).await;
    let alice = product.member("alice").await;
    let (first, second) = (alice.key().await.secret, alice.key().await.secret);
    let body = question("asked", "hi");
    let send_request = |key: &str| product.chat(key, &body).answer();
    let meanwhile = async {
        let mut call = upstream.call().await;
        // the whole limit is reserved, because the length of the answer is unknown
        let wait =
            check_limited(&send_request(&second).await, "tokens per minute of this account's plan");
        assert_eq!(wait, Duration::from_secs(61));
        call.send(used(5, 35)).await;
    };
    let (answer, ()) = tokio::join!(send_request(&first), meanwhile);
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("x-ratelimit-limit-tokens"), "400");
    assert_eq!(answer.header("x-ratelimit-remaining-tokens"), "0");
    let (answer, _) = tokio::join!(send_request(&second), upstream.answer(used(5, 375)));
    assert_eq!(answer.status, 200, "unused tokens are available again");
    let refused = send_request(&first).await;
    let wait = check_limited(&refused, "tokens per minute of this account's plan (limit 400)");
    assert_eq!(
        refused.header("x-ratelimit-remaining-tokens"),
        "0",
        "usage exceeds the limit by 20"
    );
    clock.advance(wait);
    let (answer, _) = tokio::join!(send_request(&second), upstream.answer(used(1, 1)));
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn a_request_larger_than_its_limit_is_refused_with_a_remedy() {
    let (product, _) = product().await;
    let alice = product.member("alice").await;
    let limits = v1::Limits { tpm: Some(100), ..Default::default() };
    let key = alice.key_with(|key| key.limits = Some(limits)).await.secret;
    let body = question("sim-chat", &"word ".repeat(100));
    let refused = product.chat(&key, &body).answer().await;
    assert_eq!((refused.status, &refused.error()["code"]), (429, &json!("rate_limit_exceeded")));
    let message = refused.error()["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains("more than the limit of 100 tokens per minute of this key"),
        "{message}"
    );
    assert!(message.contains("shorten its input"), "{message}");
    assert_eq!((refused.header("x-should-retry"), refused.header("retry-after")), ("false", ""));
}

#[tokio::test]
async fn responses_carry_the_tightest_limits_or_no_headers_without_limits() {
    let (product, _) = product().await;
    let operator = product.operator().await;
    let alice = product.member("alice").await;
    let asking = |path: &str| match path {
        "/v1/responses" => json!({ "model": "sim-chat", "input": "hi" }),
        _ => question("sim-chat", "hi"),
    };
    let free = alice.key().await.secret;
    for path in ["/v1/chat/completions", "/v1/responses"] {
        let answer = product.post(path).bearer(&free).json(&asking(path)).answer().await;
        assert_eq!(answer.status, 200);
        assert!(!answer.headers.keys().any(|name| name.as_str().starts_with("x-ratelimit-")));
    }
    operator.limit_plan(v1::Limits { rpm: Some(50), tpm: Some(9_000), ..Default::default() }).await;
    let limits = v1::Limits { rpm: Some(9), tpm: Some(90_000), ..Default::default() };
    let key = alice.key_with(|key| key.limits = Some(limits)).await.secret;
    let mut left = 9;
    for path in ["/v1/chat/completions", "/v1/responses"] {
        for stream in [false, true] {
            let mut body = asking(path);
            body["stream"] = json!(stream);
            let answer = product.post(path).bearer(&key).json(&body).answer().await;
            left -= 1;
            assert_eq!(answer.status, 200);
            assert_eq!(answer.header("x-ratelimit-limit-requests"), "9");
            assert_eq!(answer.header("x-ratelimit-remaining-requests"), left.to_string());
            assert_eq!(answer.header("x-ratelimit-reset-requests"), "1m1s");
            assert_eq!(answer.header("x-ratelimit-limit-tokens"), "9000");
            let tokens: u64 = answer.header("x-ratelimit-remaining-tokens").parse().unwrap();
            assert!((1..9_000).contains(&tokens), "{tokens}");
        }
    }
    let unknown = product.chat(&key, &question("nothing", "hi")).answer().await;
    assert_eq!((unknown.status, unknown.header("x-ratelimit-limit-requests")), (404, ""));
}

#[tokio::test]
async fn a_request_beyond_an_observed_limit_is_served_and_noted() {
    let (product, _) = product().await;
    let alice = product.member("alice").await;
    let observed = v1::Limits { rpm: Some(1), observe: Some(true), ..Default::default() };
    product.operator().await.limit_plan(observed).await;
    let key = alice.key().await.secret;
    for _ in 0..2 {
        let answer = product.chat(&key, &question("sim-chat", "hi")).answer().await;
        assert_eq!((answer.status, answer.header("x-ratelimit-limit-requests")), (200, ""));
    }
    let notes: Vec<_> = alice.records(2).await.into_iter().map(|record| record.notes).collect();
    assert_eq!(notes, [vec![], vec!["limit_observed=plan.rpm".to_owned()]]);
    let enforced = v1::Limits { observe: Some(false), ..observed };
    product.operator().await.limit_plan(enforced).await;
    let refused = product.chat(&key, &question("sim-chat", "hi")).answer().await;
    check_limited(&refused, "requests per minute of this account's plan (limit 1)");
}

#[tokio::test]
async fn a_disconnected_client_releases_its_slot() {
    let (product, _) = product().await;
    let upstream = RawUpstream::start().await;
    product.operator().await.add_model_on("asked", &[&upstream.url]).await;
    let alice = product.member("alice").await;
    let limits = v1::Limits { concurrency: Some(1), tpm: Some(100_000), ..Default::default() };
    let key = alice.key_with(|key| key.limits = Some(limits)).await.secret;
    let mut body = question("asked", "hi");
    body["stream"] = json!(true);
    let mut asking = JoinSet::new();
    asking.spawn(product.chat(&key, &body).answer());
    let mut call = upstream.call().await;
    drop(asking);
    call.closed().await;
    alice.records(1).await;
    let (answer, _) = tokio::join!(
        product.chat(&key, &question("asked", "hi")).answer(),
        upstream.answer(used(1, 1))
    );
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn a_slot_is_free_again_when_its_request_has_ended() {
    let (product, _) = product().await;
    let upstream = RawUpstream::start().await;
    product.operator().await.add_model_on("asked", &[&upstream.url]).await;
    let alice = product.member("alice").await;
    let limits = v1::Limits { concurrency: Some(1), ..Default::default() };
    let key = alice.key_with(|key| key.limits = Some(limits)).await.secret;
    let send_request = || product.chat(&key, &question("asked", "hi")).answer();
    let good = used(1, 1);
    let meanwhile = async {
        let mut call = upstream.call().await;
        check_limited(&send_request().await, "concurrent requests of this key (limit 1)");
        call.send(&good).await;
    };
    let (answer, ()) = tokio::join!(send_request(), meanwhile);
    assert_eq!(answer.status, 200);
    let (answer, _) = tokio::join!(send_request(), upstream.answer(&good));
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn an_exhausted_balance_is_not_retryable() {
    let (product, _) = product().await;
    let (alice, operator) = (product.member("alice").await, product.operator().await);
    let key = alice.key().await.secret;
    operator.credit("alice", "-5").await;
    let send_request = || product.chat(&key, &question("sim-chat", "hi")).answer();
    let refused = send_request().await;
    assert_eq!((refused.status, &refused.error()["code"]), (429, &json!("insufficient_quota")));
    assert_eq!((refused.header("x-should-retry"), refused.header("retry-after")), ("false", ""));
    assert_eq!(alice.account().await.balance_usd, "0");
    operator.credit("alice", "0.01").await;
    assert_eq!(send_request().await.status, 200);
}

#[tokio::test]
async fn credits_minus_charges_equal_the_balance() {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    product.operator().await.credit("alice", "0.000000123").await;
    let load = (0..200).map(|number| {
        let mut body =
            question("sim-chat", &format!("request {number} [sim words={}]", number % 40));
        body["stream"] = json!(number % 2 == 0);
        product.chat(&key, &body).answer()
    });
    let mut running = JoinSet::new();
    for request in load {
        running.spawn(request);
    }
    while let Some(answer) = running.join_next().await {
        assert_eq!(answer.unwrap().status, 200);
    }
    let amount = |text: &str| text.parse::<Nanos>().unwrap();
    let charges: Nanos = alice
        .records(200)
        .await
        .iter()
        .map(|record| amount(record.cost_usd.as_ref().unwrap()))
        .sum();
    assert!(charges > Nanos::ZERO);
    let expected = amount("5.000000123") + -charges;
    assert_eq!(amount(&alice.account().await.balance_usd), expected);

    let home = product.stop().await;
    let database = rusqlite::Connection::open(home.data_dir().join("tollgate.db")).unwrap();
    let query = "SELECT sum(amount) FROM ledger_entries WHERE account = (SELECT id FROM accounts WHERE name = 'alice')";
    let sum: i64 = database.query_row(query, (), |row| row.get(0)).unwrap();
    assert_eq!(Nanos(sum), expected, "the ledger agrees");
    let product = home.start().await;
    let alice = tests::Session::sign_in(&product.admin, "alice").await;
    assert_eq!(
        amount(&alice.account().await.balance_usd),
        expected,
        "the balance survives a restart"
    );
}
