//! Current traffic of the gateway, and an account's use of its limits.

use domain::money::Nanos;
use proto::v1;
use tests::{Product, RawUpstream, Session, json_answer, question, with_timeout};

/// Watches the traffic of `account` until it satisfies `expected`.
async fn wait_for_snapshot(
    caller: &Session,
    account: &str,
    expected: impl Fn(&v1::WatchTrafficResponse) -> bool,
) -> v1::WatchTrafficResponse {
    let request = v1::WatchTrafficRequest { account: account.to_owned(), interval_ms: 250 };
    let mut snapshots = caller.traffic().watch_traffic(request).await.unwrap().into_inner();
    let watching = async {
        loop {
            let snapshot = snapshots.message().await.unwrap().unwrap();
            if expected(&snapshot) {
                return snapshot;
            }
        }
    };
    with_timeout("the expected traffic", watching).await
}

fn ended(snapshot: &v1::WatchTrafficResponse) -> u64 {
    snapshot.minutes.iter().map(|minute| minute.requests).sum()
}

#[tokio::test]
async fn a_request_is_shown_in_flight_and_then_as_ended_to_its_account() {
    let (product, upstream) = (Product::start().await, RawUpstream::start().await);
    let operator = product.operator().await;
    operator.add_model_on("asked", &[&upstream.url]).await;
    let (alice, bob) = (product.member("alice").await, product.member("bob").await);
    let key = alice.key().await.secret;
    let answer = async {
        let mut call = upstream.call().await;
        for (caller, account) in [(&alice, ""), (&operator, "*"), (&operator, "alice")] {
            let snapshot =
                wait_for_snapshot(caller, account, |snapshot| snapshot.in_flight == 1).await;
            assert_eq!(ended(&snapshot), 0);
        }
        let health =
            operator.traffic().list_upstream_health(v1::ListUpstreamHealthRequest {}).await;
        let health = health.unwrap().into_inner().upstreams;
        let counts = health.iter().map(|it| (it.name.as_str(), it.in_flight));
        assert_eq!(counts.collect::<Vec<_>>(), [("simulator", 0), ("up-asked-0", 1)]);
        let body = r#"{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":30,"completion_tokens":10}}"#;
        call.send(json_answer(200, body)).await;
        call.finish().await;
    };
    tokio::join!(product.chat(&key, &question("asked", "hi")).answer(), answer);
    for (caller, account) in [(&alice, ""), (&operator, "*"), (&operator, "alice")] {
        let over =
            |snapshot: &v1::WatchTrafficResponse| ended(snapshot) == 1 && snapshot.in_flight == 0;
        let snapshot = wait_for_snapshot(caller, account, over).await;
        assert_eq!(snapshot.minutes.len(), 60);
        assert_eq!(snapshot.minutes.iter().map(|minute| minute.tokens).sum::<u64>(), 40);
        assert!(snapshot.ttft.is_some() && snapshot.errors.is_empty(), "{snapshot:?}");
        assert_eq!(snapshot.ledger.is_some(), account == "*", "{account}");
        if let Some(ledger) = snapshot.ledger {
            let (balance, held): (Nanos, Nanos) =
                (ledger.balance_usd.parse().unwrap(), ledger.held_usd.parse().unwrap());
            assert!(balance > Nanos(0) && held == Nanos(0) && !ledger.stopped);
        }
    }
    let snapshot = wait_for_snapshot(&bob, "", |_| true).await;
    assert_eq!((snapshot.in_flight, ended(&snapshot), snapshot.ttft), (0, 0, None));
}

#[tokio::test]
async fn errors_are_counted_by_code() {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    product.serve_model("broken", product.simulator_url(), "sim-chat?status=500").await;
    for model in ["gpt-9", "broken", "gpt-9"] {
        product.chat(&key, &question(model, "hi")).answer().await;
    }
    let snapshot = wait_for_snapshot(&alice, "", |snapshot| ended(snapshot) == 3).await;
    let codes = snapshot.errors.iter().map(|error| (error.code.as_str(), error.count));
    assert_eq!(codes.collect::<Vec<_>>(), [("model_not_found", 2), ("upstream_error", 1)]);
    assert!(snapshot.errors.iter().all(|error| error.last_at.is_some()));
    assert_eq!(snapshot.minutes.iter().map(|minute| minute.errors).sum::<u64>(), 3);
}

#[tokio::test]
async fn snapshots_are_sent_until_the_gateway_stops() {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    let request = v1::WatchTrafficRequest { interval_ms: 250, ..Default::default() };
    let mut snapshots = alice.traffic().watch_traffic(request).await.unwrap().into_inner();
    let mut last = None;
    for _ in 0..3 {
        let at = with_timeout("a snapshot", snapshots.message()).await.unwrap().unwrap().at;
        assert!(at.map(|at| (at.seconds, at.nanos)) > last, "each snapshot is newer");
        last = at.map(|at| (at.seconds, at.nanos));
    }
    product.shutdown.cancel();
    let end = async { while let Ok(Some(_)) = snapshots.message().await {} };
    with_timeout("the end of the snapshots", end).await;
    product.stop().await;
}

#[tokio::test]
async fn limits_are_shown_with_their_use() {
    let product = Product::start().await;
    let operator = product.operator().await;
    let limits = |rpm, tpm| {
        let limits = v1::Limits { rpm: Some(rpm), tpm, ..Default::default() };
        Some(limits)
    };
    let plan = v1::Plan {
        name: "free".to_owned(),
        trial_credit_usd: "5".to_owned(),
        limits: limits(100, Some(1_000_000)),
        ..Default::default()
    };
    operator.plans().put_plan(v1::PutPlanRequest { plan: Some(plan) }).await.unwrap();
    let alice = product.member("alice").await;
    let key = alice
        .key_with(|key| {
            key.limits = limits(20, None);
            key.spend_cap_usd = "2".to_owned();
        })
        .await;
    product.chat(&key.secret, &question("sim-chat", "hi")).answer().await;
    let record = alice.record().await;
    let tokens = record.tokens.unwrap();
    let cost: Nanos = record.cost_usd.unwrap().parse().unwrap();
    let tokens = tokens.input.unwrap() + tokens.output.unwrap();
    for (caller, account) in [(&alice, ""), (&operator, "alice")] {
        let request = v1::ListLimitUseRequest { account: account.to_owned() };
        let codes = caller.traffic().list_limit_use(request).await.unwrap().into_inner().limits;
        let codes: Vec<_> = codes
            .iter()
            .map(|it| (it.scope(), it.subject.as_str(), it.kind(), it.limit, it.used))
            .collect();
        assert_eq!(
            codes,
            [
                (v1::LimitScope::Plan, "free", v1::LimitKind::Requests, 100, 1),
                (v1::LimitScope::Plan, "free", v1::LimitKind::Tokens, 1_000_000, tokens),
                (v1::LimitScope::Key, key.id.as_str(), v1::LimitKind::Requests, 20, 1),
                (
                    v1::LimitScope::Key,
                    key.id.as_str(),
                    v1::LimitKind::Spending,
                    2_000_000_000,
                    cost.0.unsigned_abs()
                ),
            ]
        );
    }
}
