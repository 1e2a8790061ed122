//! Background health checks: an upstream that fails them gets requests only if no other one can serve them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};

use proto::v1::{self, HealthCheckState};
use tests::{Product, RawUpstream, Session, json_answer, question, with_timeout};

const ANSWER: &str = r#"{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;

/// Answers checks with `status` and chats with success. Records the request lines in `seen`.
async fn serve(upstream: &RawUpstream, status: &AtomicU16, seen: &Mutex<Vec<String>>) {
    loop {
        let mut call = upstream.call().await;
        seen.lock().unwrap().push(call.head.lines().next().unwrap().to_owned());
        let is_check = call.head.starts_with("GET ");
        let status = if is_check { status.load(Ordering::Relaxed) } else { 200 };
        call.send(json_answer(status, ANSWER)).await;
        call.finish().await;
    }
}

async fn set_check(operator: &Session, path: &str) {
    let request = v1::UpdateUpstreamRequest {
        name: "up-asked-0".to_owned(),
        health_check: Some(path.to_owned()),
        health_check_interval_ms: Some(if path.is_empty() { 0 } else { 1_000 }),
        ..Default::default()
    };
    operator.upstreams().update_upstream(request).await.unwrap();
}

async fn health(operator: &Session) -> v1::UpstreamHealth {
    let request = v1::ListUpstreamHealthRequest {};
    let all = operator.traffic().list_upstream_health(request).await.unwrap().into_inner();
    all.upstreams.into_iter().find(|it| it.name == "up-asked-0").unwrap()
}

async fn until(operator: &Session, state: HealthCheckState) {
    with_timeout("the result of a health check", async {
        while health(operator).await.health_check() != state {}
    })
    .await;
}

#[tokio::test]
async fn an_upstream_that_fails_its_health_check_gets_requests_only_without_another() {
    let product = Product::start().await;
    let (first, second) = (RawUpstream::start().await, RawUpstream::start().await);
    let operator = product.operator().await;
    operator.add_model_on("asked", &[&first.url, &second.url]).await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    let (status, seen) = (AtomicU16::new(503), Mutex::default());
    let served_by = async |count: usize| {
        let answer = product.chat(&key, &question("asked", "hi")).answer().await;
        assert_eq!(answer.status, 200, "{answer:?}");
        alice.records(count).await.pop().unwrap().deployment.unwrap()
    };
    let story = async {
        set_check(&operator, "/up?deep=1").await;
        until(&operator, HealthCheckState::Failing).await;
        assert_eq!(health(&operator).await.last_error, "health check: it answered HTTP 503");
        let route = v1::ExplainRouteRequest { model: "asked".to_owned(), prompt_cache_key: None };
        let route = operator.models().explain_route(route).await.unwrap().into_inner();
        assert_eq!(route.steps[1].reason, "tried last: it fails its health check");
        let fallback = async {
            second.answer(json_answer(200, ANSWER)).await;
            // The second request finds no other upstream.
            second.answer(json_answer(503, "{}")).await;
        };
        let requests = async { [served_by(1).await, served_by(2).await] };
        let (served, ()) = tokio::join!(requests, fallback);
        assert_eq!(served, ["up-asked-1/upstream-model", "up-asked-0/upstream-model"]);

        status.store(200, Ordering::Relaxed);
        until(&operator, HealthCheckState::Passing).await;
        assert_eq!(served_by(3).await, "up-asked-0/upstream-model");
        set_check(&operator, "").await;
        until(&operator, HealthCheckState::Unspecified).await;
    };
    tokio::select! {
        () = serve(&first, &status, &seen) => unreachable!("it serves on"),
        () = story => {}
    }
    let seen = seen.into_inner().unwrap();
    let (checks, chats): (Vec<_>, Vec<_>) = seen.iter().partition(|line| line.starts_with("GET "));
    assert!(checks.iter().all(|line| *line == "GET /up?deep=1 HTTP/1.1"), "{checks:?}");
    assert!(checks.len() >= 3, "two failures and a success: {checks:?}");
    assert_eq!(chats.len(), 2);
}

#[tokio::test]
async fn a_check_that_cannot_be_sent_is_refused() {
    let product = Product::start().await;
    let operator = product.operator().await;
    for (path, interval, field) in [
        ("health", None, "`health_check`"),
        ("/a b", None, "`health_check`"),
        ("/a#b", None, "`health_check`"),
        ("http://other.example/health", None, "`health_check`"),
        ("/health", Some(999), "`health_check_interval_ms`"),
        ("", Some(5_000), "`health_check_interval_ms`"),
    ] {
        let upstream = v1::Upstream {
            name: "u".to_owned(),
            url: "http://u.example/v1".to_owned(),
            health_check: path.to_owned(),
            health_check_interval_ms: interval,
            ..Default::default()
        };
        let request = v1::AddUpstreamRequest { upstream: Some(upstream) };
        let refused = operator.upstreams().add_upstream(request).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{path}");
        assert!(refused.message().contains(field), "{refused:?}");
    }
}
