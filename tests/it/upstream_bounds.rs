//! The bound on the connections to an upstream.

use proto::v1::{self, BreakerState};
use serde_json::json;
use tests::http::{Answer, PendingAnswer, Request};
use tests::{
    Call, Certificate, Product, RawUpstream, SecureSimulator, Session, chunk, json_answer,
    priced_model, question, stream_head, with_timeout,
};
use tokio::task::JoinSet;

const ANSWER: &str = r#"{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;

/// A gateway of two workers, and an upstream with one connection for which one request may wait.
struct TestContext {
    product: Product,
    operator: Session,
    alice: Session,
    key: String,
    upstream: RawUpstream,
}

impl TestContext {
    /// Serves the model `asked` on the bounded upstream `up-asked-0`, and then at `others`.
    async fn start(others: &[&str]) -> Self {
        let (product, upstream) = (Product::start().await, RawUpstream::start().await);
        let operator = product.operator().await;
        let urls: Vec<_> = [&*upstream.url].into_iter().chain(others.iter().copied()).collect();
        operator.add_model_on("asked", &urls).await;
        let alice = product.member("alice").await;
        let key = alice.key().await.secret;
        let context = Self { product, operator, alice, key, upstream };
        context
            .update(|change| (change.max_connections, change.max_waiting) = (Some(1), Some(1)))
            .await;
        context
    }

    async fn update(&self, change: impl FnOnce(&mut v1::UpdateUpstreamRequest)) {
        let name = "up-asked-0".to_owned();
        let mut request = v1::UpdateUpstreamRequest { name, ..Default::default() };
        change(&mut request);
        self.operator.upstreams().update_upstream(request).await.unwrap();
    }

    fn request(&self, stream: bool) -> Request {
        let mut body = question("asked", "hi");
        body["stream"] = json!(stream);
        self.product.chat(&self.key, &body)
    }

    /// Begins a stream, so that no further connection is free.
    async fn occupy(&self) -> (PendingAnswer, Call) {
        let begin = async {
            let mut call = self.upstream.call().await;
            call.send(format!("{}{}", stream_head(), chunk(&piece()))).await;
            call
        };
        let (mut answer, call) = tokio::join!(self.request(true).send(), begin);
        answer.event().await.unwrap();
        (answer, call)
    }

    /// Expects that a request gets the connection.
    async fn is_free(&self, after: &str) {
        let request = self.request(false);
        let (answer, _) =
            tokio::join!(request.answer(), self.upstream.answer(json_answer(200, ANSWER)));
        assert_eq!(answer.status, 200, "after {after}: {answer:?}");
    }
}

fn piece() -> String {
    let piece = json!({ "choices": [{ "index": 0, "delta": { "content": "hi" } }] });
    format!("data: {piece}\n\n")
}

fn is_overloaded(answer: &Answer) -> bool {
    let code = answer.error()["code"].clone();
    (answer.status, code) == (503, json!("upstream_overloaded"))
        && answer.header("retry-after") == "1"
}

/// Sends two requests while no connection is free. One of them waits, the other one finds that one waits already.
#[tokio::test]
async fn one_request_waits_for_a_connection_of_any_worker_and_the_next_is_refused() {
    let context = TestContext::start(&[]).await;
    let (answer, mut call) = context.occupy().await;
    let mut requests = JoinSet::new();
    requests.spawn(context.request(false).answer());
    requests.spawn(context.request(false).answer());
    let refused = with_timeout("a refusal", requests.join_next()).await.unwrap().unwrap();
    assert!(is_overloaded(&refused), "{refused:?}");
    tokio::select! {
        biased;
        _ = context.upstream.call() => panic!("there is a second connection"),
        () = std::future::ready(()) => {}
    }
    call.send(chunk("data: [DONE]\n\n") + &chunk("")).await;
    drop(answer);
    let (served, _) =
        tokio::join!(requests.join_next(), context.upstream.answer(json_answer(200, ANSWER)));
    let served = served.unwrap().unwrap();
    assert_eq!(served.status, 200, "{served:?}");
    let records = context.alice.records(3).await;
    let refused = records.iter().find(|record| record.http_status == Some(503)).unwrap();
    assert_eq!(refused.error_code.as_deref(), Some("upstream_overloaded"));
    assert_eq!(refused.cost_usd.as_deref(), Some("0"));
}

/// Regression test: the requests of one key took all places to wait, and those of other keys were refused.
#[tokio::test]
async fn the_requests_of_an_account_do_not_keep_others_from_waiting() {
    let context = TestContext::start(&[]).await;
    context.update(|change| change.max_waiting = Some(3)).await;
    let bob = context.product.member("bob").await.key().await.secret;
    let (answer, mut call) = context.occupy().await;
    let mut requests = JoinSet::new();
    for _ in 0..4 {
        requests.spawn(context.request(false).answer());
    }
    let refused = with_timeout("a refusal", requests.join_next()).await.unwrap().unwrap();
    assert!(is_overloaded(&refused), "three requests wait: {refused:?}");
    let mut of_bob = JoinSet::new();
    of_bob.spawn(context.product.chat(&bob, &question("asked", "this is bob")).answer());
    let dropped = with_timeout("another refusal", requests.join_next()).await.unwrap().unwrap();
    assert!(is_overloaded(&dropped), "the newest request leaves its place: {dropped:?}");
    call.send(chunk("data: [DONE]\n\n") + &chunk("")).await;
    drop(answer);
    // The upstream keeps its calls open, and each is answered before the next one gets the connection.
    let mut calls = Vec::new();
    for _ in 0..3 {
        calls.push(context.upstream.answer(json_answer(200, ANSWER)).await);
    }
    let is_of_bob: Vec<_> = calls.iter().map(|call| call.body.contains("bob")).collect();
    assert_eq!(is_of_bob, [false, true, false], "accounts take turns");
    let answers = [requests.join_all().await, of_bob.join_all().await].concat();
    assert_eq!(answers.iter().map(|answer| answer.status).collect::<Vec<_>>(), [200; 3]);
}

#[tokio::test]
async fn a_request_that_finds_no_free_connection_goes_to_the_next_deployment() {
    let next = RawUpstream::start().await;
    let context = TestContext::start(&[&next.url]).await;
    context.update(|change| change.max_waiting = Some(0)).await;
    let occupied = context.occupy().await;
    for _ in 0..6 {
        let request = context.request(false);
        let (answer, _) = tokio::join!(request.answer(), next.answer(json_answer(200, ANSWER)));
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let request = v1::ListUpstreamHealthRequest {};
    let health = context.operator.traffic().list_upstream_health(request).await;
    let health = health.unwrap().into_inner().upstreams;
    let first = health.iter().find(|health| health.name == "up-asked-0").unwrap();
    assert_eq!((first.breaker(), first.failures), (BreakerState::Closed, 0));
    assert_eq!(first.requests, 1, "requests that did not reach it are not its requests");
    drop(occupied);
}

#[tokio::test]
async fn a_request_waits_no_longer_than_the_connect_timeout() {
    let context = TestContext::start(&[]).await;
    let deadlines = v1::Deadlines { connect_ms: Some(50), ..Default::default() };
    context.update(|change| change.deadlines = Some(deadlines)).await;
    let _occupied = context.occupy().await;
    let refused = context.request(false).answer().await;
    assert!(is_overloaded(&refused), "{refused:?}");
}

#[tokio::test]
async fn a_connection_is_free_again_however_its_answer_ends() {
    let context = TestContext::start(&[]).await;
    let (answer, mut call) = context.occupy().await;
    drop(answer);
    call.closed().await;
    context.is_free("a client that left").await;

    let (answer, call) = context.occupy().await;
    drop(call);
    answer.events().await;
    context.is_free("an answer that broke off").await;

    let set = async |first_byte_ms| {
        let deadlines = v1::Deadlines { first_byte_ms, ..Default::default() };
        context.update(|change| change.deadlines = Some(deadlines)).await;
    };
    set(Some(50)).await;
    let silent = async { context.upstream.call().await.closed().await };
    let (answer, ()) = tokio::join!(context.request(false).answer(), silent);
    assert_eq!(answer.status, 504, "{answer:?}");
    set(Some(0)).await;
    context.is_free("a timeout").await;
}

/// With HTTP/2, all requests of a worker share a connection, and the bound is one of requests.
#[tokio::test]
async fn the_bound_is_one_of_requests_with_http2() {
    let context = TestContext::start(&[]).await;
    let certificate = Certificate::create();
    let simulator = context.product.home.setup.simulator.clone();
    let upstream = SecureSimulator::start(simulator, &certificate, "h2").await;
    let entry = v1::Upstream {
        name: "h2".to_owned(),
        url: upstream.url.clone(),
        ca_certificates: certificate.pem.clone(),
        max_connections: Some(1),
        max_waiting: Some(0),
        ..Default::default()
    };
    context.operator.add_upstream(entry).await;
    for (model, served) in [("endless", "sim-chat?words=100000&pace_ms=5"), ("short", "sim-chat")] {
        context.operator.add_model(priced_model(model, &[("h2", served)])).await;
    }
    let mut body = question("endless", "hi");
    body["stream"] = json!(true);
    let mut endless = context.product.chat(&context.key, &body).send().await;
    endless.event().await.unwrap();
    let short = context.product.chat(&context.key, &question("short", "hi"));
    let refused = short.clone().answer().await;
    assert!(is_overloaded(&refused), "{refused:?}");
    drop(endless);
    context.alice.records(2).await;
    assert_eq!(short.answer().await.status, 200);
}

/// Regression test: the last event had no usage.
#[tokio::test]
async fn a_stream_that_is_cancelled_while_it_waits_for_a_connection_reports_no_tokens() {
    let context = TestContext::start(&[]).await;
    let (_answer, _call) = context.occupy().await;
    let body = json!({ "model": "asked", "input": "hi", "stream": true });
    let request = context.product.post("/v1/responses").bearer(&context.key).json(&body);
    // It gets its head, although there is no answer.
    let mut answer = request.send().await;
    answer.event().await.unwrap();
    let mut usage = context.operator.usage();
    let list = v1::ListRequestsInFlightRequest::default();
    let listed = usage.list_requests_in_flight(list).await.unwrap().into_inner().requests;
    let waiting = listed.into_iter().find(|it| it.endpoint == "responses").unwrap();
    usage.cancel_request(v1::CancelRequestRequest { id: waiting.id }).await.unwrap();
    let events = answer.events().await;
    let failed = events.iter().find(|event| event.contains("response.failed")).unwrap();
    let data = failed.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let usage = &serde_json::from_str::<serde_json::Value>(data).unwrap()["response"]["usage"];
    assert_eq!((&usage["input_tokens"], &usage["output_tokens"]), (&json!(0), &json!(0)));
    let records = context.alice.records(1).await;
    assert_eq!(records[0].tokens, None, "{records:?}");
}
