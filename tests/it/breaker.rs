//! A repeatedly failing upstream is skipped for a while if another one can serve the model.

use std::sync::Arc;
use std::time::Duration;

use proto::v1::{self, BreakerState};
use serde_json::json;
use tests::{ManualClock, Product, RawUpstream, Session, json_answer, question};

/// Returns a gateway on a stopped clock and the key of a member.
async fn product() -> (Product, ManualClock, Session, String) {
    let clock = ManualClock::at("2026-11-20T10:00:00Z");
    let ours = clock.clone();
    let product = Product::with(|setup| setup.clock = Arc::new(ours)).await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    (product, clock, alice, key)
}

/// Deploys the model `asked` on `first` and, as a fallback, on `second`; both are the simulator.
async fn serve(operator: &Session, first: &str, second: &str) {
    let deployments = (0..).zip([("first", first), ("second", second)]);
    let deployments = deployments.map(|(priority, (upstream, model))| v1::Deployment {
        upstream: upstream.to_owned(),
        upstream_model: model.to_owned(),
        weight: 1,
        priority,
    });
    let model = v1::Model {
        id: "asked".to_owned(),
        deployments: deployments.collect(),
        ..Default::default()
    };
    for name in ["first", "second"] {
        let (name, url) = (name.to_owned(), "sim:".to_owned());
        operator.add_upstream(v1::Upstream { name, url, ..Default::default() }).await;
    }
    operator.add_model(model).await;
}

async fn health(operator: &Session, name: &str) -> v1::UpstreamHealth {
    let request = v1::ListUpstreamHealthRequest {};
    let all = operator.traffic().list_upstream_health(request).await.unwrap().into_inner();
    all.upstreams.into_iter().find(|it| it.name == name).unwrap()
}

/// Sends a request and returns its HTTP status.
async fn send_request(product: &Product, key: &str) -> u16 {
    product.chat(key, &question("asked", "hi")).answer().await.status
}

#[tokio::test]
async fn an_open_breaker_diverts_requests_until_a_probe_succeeds() {
    let (product, clock, alice, key) = product().await;
    let operator = product.operator().await;
    serve(&operator, "sim-chat?status=503&times=6", "sim-chat").await;
    for _ in 0..5 {
        assert_eq!(send_request(&product, &key).await, 200);
    }
    let first = health(&operator, "first").await;
    assert_eq!(first.breaker(), BreakerState::Open);
    assert_eq!((first.requests, first.failures), (5, 5));
    assert_eq!(first.last_error, "it answered HTTP 503");
    assert_eq!(first.retry_at.unwrap().seconds - first.last_error_at.unwrap().seconds, 5);
    let second = health(&operator, "second").await;
    assert_eq!((second.breaker(), second.requests), (BreakerState::Closed, 5));
    assert_eq!((second.failures, second.last_error.as_str()), (0, ""));

    for _ in 0..3 {
        assert_eq!(send_request(&product, &key).await, 200);
    }
    assert_eq!(health(&operator, "first").await.requests, 5, "it gets no requests");

    clock.advance(Duration::from_secs(5));
    assert_eq!(health(&operator, "first").await.breaker(), BreakerState::HalfOpen);
    assert_eq!(send_request(&product, &key).await, 200);
    let first = health(&operator, "first").await;
    assert_eq!((first.breaker(), first.requests), (BreakerState::Open, 6));

    clock.advance(Duration::from_secs(10));
    for _ in 0..2 {
        assert_eq!(send_request(&product, &key).await, 200);
    }
    let first = health(&operator, "first").await;
    assert_eq!((first.breaker(), first.requests), (BreakerState::Closed, 8));
    let served = alice.records(11).await.into_iter().filter_map(|record| record.deployment);
    assert_eq!(served.filter(|deployment| deployment.starts_with("first/")).count(), 2);
}

#[tokio::test]
async fn requests_are_sent_although_the_breakers_of_all_deployments_are_open() {
    let (product, _clock, _alice, key) = product().await;
    let operator = product.operator().await;
    serve(&operator, "sim-chat?status=503", "sim-chat?status=500").await;
    for _ in 0..8 {
        assert_eq!(send_request(&product, &key).await, 502);
    }
    for name in ["first", "second"] {
        let health = health(&operator, name).await;
        assert_eq!((health.breaker(), health.requests), (BreakerState::Open, 8), "{name}");
    }
}

#[tokio::test]
async fn changing_an_upstream_resets_its_breaker() {
    let (product, _clock, _alice, key) = product().await;
    let operator = product.operator().await;
    serve(&operator, "sim-chat?status=503", "sim-chat").await;
    for _ in 0..5 {
        send_request(&product, &key).await;
    }
    assert_eq!(health(&operator, "first").await.breaker(), BreakerState::Open);
    let request = v1::UpdateUpstreamRequest {
        name: "first".to_owned(),
        url: Some("sim:again".to_owned()),
        ..Default::default()
    };
    operator.upstreams().update_upstream(request).await.unwrap();
    let first = health(&operator, "first").await;
    assert_eq!((first.breaker(), first.requests), (BreakerState::Closed, 0));
    send_request(&product, &key).await;
    assert_eq!(health(&operator, "first").await.requests, 1);
}

#[tokio::test]
async fn a_bad_request_does_not_count_against_the_upstream() {
    let (product, _clock, _alice, key) = product().await;
    let operator = product.operator().await;
    serve(&operator, "sim-chat?status=400", "sim-chat").await;
    for _ in 0..6 {
        assert_eq!(send_request(&product, &key).await, 400);
    }
    let first = health(&operator, "first").await;
    assert_eq!((first.breaker(), first.requests, first.failures), (BreakerState::Closed, 6, 0));
    assert!(first.latency.is_some());
}

#[tokio::test]
async fn a_truncated_answer_counts_against_the_upstream() {
    let (product, _clock, alice, key) = product().await;
    let operator = product.operator().await;
    serve(&operator, "sim-chat?cut=1", "sim-chat").await;
    let mut body = question("asked", "hi");
    for stream in [false, true] {
        body["stream"] = json!(stream);
        product.chat(&key, &body).answer().await;
    }
    alice.records(2).await;
    let first = health(&operator, "first").await;
    assert_eq!((first.requests, first.failures), (2, 2));
    assert_eq!(first.last_error, "it closed the answer early");
}

#[tokio::test]
async fn the_last_error_contains_nothing_from_the_upstreams_body() {
    let (product, upstream) = (Product::start().await, RawUpstream::start().await);
    let operator = product.operator().await;
    operator.add_model_on("asked", &[&upstream.url]).await;
    let key = product.member("alice").await.key().await.secret;
    let body = r#"{"error":{"message":"incorrect API key provided: sk-upstream-9f","type":"t"}}"#;
    tokio::join!(send_request(&product, &key), upstream.answer(json_answer(401, body)));
    let health = health(&operator, "up-asked-0").await;
    assert_eq!((health.failures, health.last_error.as_str()), (1, "it answered HTTP 401"));
}
