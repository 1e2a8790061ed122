//! What goes through the gateway now, and how much of its limits an account uses.

use domain::money::Nanos;
use proto::v1;
use tests::{Product, RawUpstream, Session, json_answer, question, with_timeout};

/// Watches the traffic of `account` until it is as `expected`.
async fn seen(
    who: &Session,
    account: &str,
    expected: impl Fn(&v1::WatchTrafficResponse) -> bool,
) -> v1::WatchTrafficResponse {
    let request = v1::WatchTrafficRequest { account: account.to_owned(), interval_ms: 250 };
    let mut pictures = who.traffic().watch_traffic(request).await.unwrap().into_inner();
    let watching = async {
        loop {
            let picture = pictures.message().await.unwrap().unwrap();
            if expected(&picture) {
                return picture;
            }
        }
    };
    with_timeout("the traffic that is expected", watching).await
}

fn ended(picture: &v1::WatchTrafficResponse) -> u64 {
    picture.minutes.iter().map(|minute| minute.requests).sum()
}

#[tokio::test]
async fn a_request_is_seen_under_way_and_then_as_ended_by_whom_it_concerns() {
    let (product, upstream) = (Product::start().await, RawUpstream::start().await);
    let operator = product.operator().await;
    operator.add_model_on("asked", &[&upstream.url]).await;
    let (alice, bob) = (product.member("alice").await, product.member("bob").await);
    let key = alice.key().await.secret;
    let answer = async {
        let mut call = upstream.call().await;
        for (who, account) in [(&alice, ""), (&operator, "*"), (&operator, "alice")] {
            let picture = seen(who, account, |picture| picture.in_flight == 1).await;
            assert_eq!(ended(&picture), 0);
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
    for (who, account) in [(&alice, ""), (&operator, "*"), (&operator, "alice")] {
        let over =
            |picture: &v1::WatchTrafficResponse| ended(picture) == 1 && picture.in_flight == 0;
        let picture = seen(who, account, over).await;
        assert_eq!(picture.minutes.len(), 60);
        assert_eq!(picture.minutes.iter().map(|minute| minute.tokens).sum::<u64>(), 40);
        assert!(picture.ttft.is_some() && picture.errors.is_empty(), "{picture:?}");
    }
    let picture = seen(&bob, "", |_| true).await;
    assert_eq!((picture.in_flight, ended(&picture), picture.ttft), (0, 0, None));
}

#[tokio::test]
async fn errors_are_told_by_their_code() {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    product.serve_model("broken", "sim:", "sim-chat?status=500").await;
    for model in ["gpt-9", "broken", "gpt-9"] {
        product.chat(&key, &question(model, "hi")).answer().await;
    }
    let picture = seen(&alice, "", |picture| ended(picture) == 3).await;
    let told = picture.errors.iter().map(|error| (error.code.as_str(), error.count));
    assert_eq!(told.collect::<Vec<_>>(), [("model_not_found", 2), ("upstream_error", 1)]);
    assert!(picture.errors.iter().all(|error| error.last_at.is_some()));
    assert_eq!(picture.minutes.iter().map(|minute| minute.errors).sum::<u64>(), 3);
}

#[tokio::test]
async fn pictures_come_until_the_gateway_stops() {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    let request = v1::WatchTrafficRequest { interval_ms: 250, ..Default::default() };
    let mut pictures = alice.traffic().watch_traffic(request).await.unwrap().into_inner();
    let mut last = None;
    for _ in 0..3 {
        let at = with_timeout("a picture", pictures.message()).await.unwrap().unwrap().at;
        assert!(at.map(|at| (at.seconds, at.nanos)) > last, "each is newer");
        last = at.map(|at| (at.seconds, at.nanos));
    }
    product.shutdown.cancel();
    let end = async { while let Ok(Some(_)) = pictures.message().await {} };
    with_timeout("the end of the pictures", end).await;
    product.stop().await;
}

#[tokio::test]
async fn limits_are_told_with_what_is_used_of_them() {
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
    for (who, account) in [(&alice, ""), (&operator, "alice")] {
        let request = v1::ListLimitUseRequest { account: account.to_owned() };
        let told = who.traffic().list_limit_use(request).await.unwrap().into_inner().limits;
        let told: Vec<_> = told
            .iter()
            .map(|it| (it.scope(), it.subject.as_str(), it.kind(), it.limit, it.used))
            .collect();
        assert_eq!(
            told,
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
