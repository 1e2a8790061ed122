//! A repeatedly failing upstream is skipped for a while if another one can serve the model.

use std::sync::Arc;
use std::time::Duration;

use proto::v1::{self, BreakerState};
use serde_json::json;
use tests::{ManualClock, Product, RawUpstream, Session, json_answer, question, with_timeout};

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
async fn serve(product: &Product, first: &str, second: &str) {
    let operator = product.operator().await;
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
        let (name, url) = (name.to_owned(), product.simulator_url().to_owned());
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

/// Sends requests, all of which succeed, until the breaker of `first` is in `state`. Returns their number.
async fn send_until(
    product: &Product,
    key: &str,
    operator: &Session,
    state: BreakerState,
) -> usize {
    with_timeout("the state of the breaker", async {
        let mut sent = 0;
        while health(operator, "first").await.breaker() != state {
            assert_eq!(send_request(product, key).await, 200);
            sent += 1;
        }
        sent
    })
    .await
}

fn good_answer() -> String {
    json_answer(200, r#"{"choices":[{"message":{"content":"hi"}}]}"#)
}

/// Regression test: the request that found the pause over was the probe, and waited for an upstream that hung.
#[tokio::test]
async fn no_client_waits_for_the_probe_of_a_hung_upstream() {
    let (product, clock, alice, key) = product().await;
    let operator = product.operator().await;
    let (hung, good) = (RawUpstream::start().await, RawUpstream::start().await);
    operator.add_model_on("asked", &[&hung.url, &good.url]).await;
    let failing = async {
        for _ in 0..5 {
            hung.answer(json_answer(503, "{}")).await;
        }
    };
    let serving = async {
        loop {
            good.answer(good_answer()).await;
        }
    };
    let requests = async {
        tokio::join!(failing, async {
            for _ in 0..5 {
                assert_eq!(send_request(&product, &key).await, 200);
            }
        });
        clock.advance(Duration::from_secs(5));
        assert_eq!(send_request(&product, &key).await, 200);
        let probe = hung.call().await;
        assert!(probe.head.starts_with("GET /v1/models "), "{}", probe.head);
        assert_eq!(send_request(&product, &key).await, 200);
        let probed = json_answer(404, "{}");
        let mut probe = probe;
        probe.send(probed).await;
        probe.finish().await;
        // A server without a list of models answers: the next request is the trial.
        let trial = async {
            let call = hung.call().await;
            assert!(call.head.starts_with("POST /v1/chat/completions "), "{}", call.head);
        };
        let sending = async {
            loop {
                assert_eq!(send_request(&product, &key).await, 200);
            }
        };
        tokio::select! { () = trial => {}, () = sending => unreachable!("it sends on") }
    };
    tokio::select! { () = serving => unreachable!("it serves on"), () = requests => {} }
    drop(alice);
}

#[tokio::test]
async fn a_busy_upstream_gets_no_requests_until_its_retry_after_has_passed() {
    let (product, clock, _alice, key) = product().await;
    let operator = product.operator().await;
    let (busy, good) = (RawUpstream::start().await, RawUpstream::start().await);
    operator.add_model_on("asked", &[&busy.url, &good.url]).await;
    let refusal = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 20\r\ncontent-length: 0\r\n\r\n";
    let request = send_request(&product, &key);
    let (status, ..) = tokio::join!(request, busy.answer(refusal), good.answer(good_answer()));
    assert_eq!(status, 200);
    clock.advance(Duration::from_secs(19));
    let (status, _) = tokio::join!(send_request(&product, &key), good.answer(good_answer()));
    assert_eq!(status, 200);
    clock.advance(Duration::from_secs(1));
    let (status, _) = tokio::join!(send_request(&product, &key), busy.answer(good_answer()));
    assert_eq!(status, 200, "the pause is over");
}

#[tokio::test]
async fn an_open_breaker_diverts_requests_until_a_probe_succeeds() {
    let (product, clock, alice, key) = product().await;
    let operator = product.operator().await;
    serve(&product, "sim-chat?status=503&times=6", "sim-chat").await;
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
    let mut sent = 8 + send_until(&product, &key, &operator, BreakerState::Open).await;
    assert_eq!(health(&operator, "first").await.requests, 6, "one request was the trial");

    clock.advance(Duration::from_secs(10));
    sent += send_until(&product, &key, &operator, BreakerState::Closed).await;
    assert_eq!(health(&operator, "first").await.requests, 7);
    assert_eq!(send_request(&product, &key).await, 200);
    assert_eq!(health(&operator, "first").await.requests, 8);
    let served = alice.records(sent + 1).await.into_iter().filter_map(|record| record.deployment);
    assert_eq!(served.filter(|deployment| deployment.starts_with("first/")).count(), 2);
}

#[tokio::test]
async fn requests_are_sent_although_the_breakers_of_all_deployments_are_open() {
    let (product, _clock, _alice, key) = product().await;
    let operator = product.operator().await;
    serve(&product, "sim-chat?status=503", "sim-chat?status=500").await;
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
    serve(&product, "sim-chat?status=503", "sim-chat").await;
    for _ in 0..5 {
        send_request(&product, &key).await;
    }
    assert_eq!(health(&operator, "first").await.breaker(), BreakerState::Open);
    let request = v1::UpdateUpstreamRequest {
        name: "first".to_owned(),
        url: Some("sim:again".to_owned()),
        ca_certificates: Some(String::new()),
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
    serve(&product, "sim-chat?status=400", "sim-chat").await;
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
    serve(&product, "sim-chat?cut=1", "sim-chat").await;
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

#[tokio::test]
async fn a_reset_closes_an_open_breaker_and_is_audited() {
    let (product, _clock, _alice, key) = product().await;
    let operator = product.operator().await;
    serve(&product, "sim-chat?status=503&times=5", "sim-chat").await;
    send_until(&product, &key, &operator, BreakerState::Open).await;
    let reset = |name: &str| {
        let request = v1::ResetUpstreamRequest { name: name.to_owned() };
        let mut upstreams = operator.upstreams();
        async move { upstreams.reset_upstream(request).await }
    };
    reset("first").await.unwrap();
    let first = health(&operator, "first").await;
    assert_eq!((first.breaker(), first.failures), (BreakerState::Closed, 5));
    assert_eq!(send_request(&product, &key).await, 200);
    let first = health(&operator, "first").await;
    assert_eq!((first.breaker(), first.requests), (BreakerState::Closed, 6), "it got the request");
    assert_eq!(reset("nosuch").await.unwrap_err().code(), tonic::Code::NotFound);
    reset("second").await.unwrap();
    let entries = operator.audit().list_audit(v1::ListAuditRequest::default()).await.unwrap();
    let entries = entries.into_inner().entries.into_iter();
    let resets: Vec<_> = entries
        .filter(|it| it.action == "upstream.reset")
        .map(|it| format!("{} {}: {}", it.actor, it.object, it.details))
        .collect();
    assert_eq!(
        resets,
        ["operator second: nothing kept requests away", "operator first: breaker open"]
    );
}

/// Regression test: the answers to requests that were in flight opened the breaker again.
#[tokio::test]
async fn requests_from_before_a_reset_do_not_open_the_breaker_again() {
    let (product, _clock, alice, key) = product().await;
    let operator = product.operator().await;
    let upstream = RawUpstream::start().await;
    operator.add_model_on("asked", &[&upstream.url]).await;
    let asking = async { product.ask_at_once(&key, "asked", 6).await };
    let failing = async {
        let mut calls = Vec::new();
        for _ in 0..6 {
            calls.push(upstream.call().await);
        }
        let name = "up-asked-0".to_owned();
        operator.upstreams().reset_upstream(v1::ResetUpstreamRequest { name }).await.unwrap();
        for mut call in calls {
            call.send(json_answer(500, "{}")).await;
            call.finish().await;
        }
    };
    tokio::join!(asking, failing);
    alice.records(6).await;
    let health = health(&operator, "up-asked-0").await;
    assert_eq!((health.breaker(), health.failures), (BreakerState::Closed, 6));
}

#[tokio::test]
async fn a_reset_ends_the_pause_that_an_upstream_asked_for() {
    let (product, _clock, _alice, key) = product().await;
    let operator = product.operator().await;
    let (busy, good) = (RawUpstream::start().await, RawUpstream::start().await);
    operator.add_model_on("asked", &[&busy.url, &good.url]).await;
    let refusal = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 20\r\ncontent-length: 0\r\n\r\n";
    let request = send_request(&product, &key);
    let (status, ..) = tokio::join!(request, busy.answer(refusal), good.answer(good_answer()));
    assert_eq!(status, 200);
    let name = "up-asked-0".to_owned();
    operator.upstreams().reset_upstream(v1::ResetUpstreamRequest { name }).await.unwrap();
    let (status, _) = tokio::join!(send_request(&product, &key), busy.answer(good_answer()));
    assert_eq!(status, 200, "the pause is over");
}
