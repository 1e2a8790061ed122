//! Requests whose client disconnects: depending on the key, the upstream is cancelled or its answer
//! is drained.

use std::time::Duration;

use gateway::workers::WorkerRuntime;
use proto::v1::{self, RequestRecord, RequestStatus, UsageBasis};
use serde_json::{Value, json};
use tests::http::{PendingAnswer, Request};
use tests::{
    Call, Product, RawUpstream, Session, Setup, chunk, json_answer, question, stream_head,
    with_timeout,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

const PIECE: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n";
const REST: &str = concat!(
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":700}}\n\n",
    "data: [DONE]\n\n",
);
const PLAIN: &str = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":700}}"#;

struct TestContext {
    product: Product,
    upstream: RawUpstream,
    alice: Session,
    /// A key that drains for a minute, with a concurrency limit of one.
    key: String,
}

async fn context() -> TestContext {
    context_on(Product::start().await).await
}

/// Returns a context over HTTP/1.1, where a connection reads the end of its client before the answer of the upstream.
/// With HTTP/2 they are read by two tasks: if both arrive together, the answer may come first.
async fn ordered_context() -> TestContext {
    context_on(Product::on_http1(|_| {}).await).await
}

async fn context_on(product: Product) -> TestContext {
    let upstream = RawUpstream::start().await;
    product.operator().await.add_model_on("asked", &[&upstream.url]).await;
    let alice = product.member("alice").await;
    let limits = v1::Limits { concurrency: Some(1), ..Default::default() };
    let key = alice.key_with(|key| {
        key.client_gone = v1::ClientGone::Drain.into();
        key.drain_seconds = 60;
        key.limits = Some(limits);
    });
    let key = key.await.secret;
    TestContext { product, upstream, alice, key }
}

impl TestContext {
    fn request(&self, path: &str, stream: bool) -> Request {
        let mut body = match path {
            "/v1/responses" => json!({ "model": "asked", "input": "hi" }),
            _ => question("asked", "hi"),
        };
        body["stream"] = json!(stream);
        self.product.post(path).bearer(&self.key).json(&body)
    }

    /// Returns a stream whose first piece has arrived, as seen by the client and by the upstream.
    async fn streaming(&self, path: &str) -> (PendingAnswer, Call) {
        let begin = async {
            let mut call = self.upstream.call().await;
            call.send(format!("{}{}", stream_head(), chunk(PIECE))).await;
            call
        };
        let (mut answer, call) = tokio::join!(self.request(path, true).send(), begin);
        answer.event().await.unwrap();
        (answer, call)
    }

    /// Returns a plain request that has reached the upstream and whose client has disconnected
    /// since.
    async fn left(&self, request: Request) -> Call {
        let mut client = JoinSet::new();
        client.spawn(async move { request.try_send().await.is_ok() });
        let call = self.upstream.call().await;
        client.shutdown().await;
        call
    }

    async fn is_busy(&self) -> bool {
        let answer = self.request("/v1/chat/completions", false).answer().await;
        let code = Value::from("rate_limit_exceeded");
        answer.status == 429 && answer.error()["code"] == code
    }

    /// Returns the record of the request that reached the upstream.
    async fn record(&self, count: usize) -> RequestRecord {
        let mut records = self.alice.records(count).await;
        records.retain(|record| record.deployment.is_some());
        assert_eq!(records.len(), 1, "{records:#?}");
        records.remove(0)
    }
}

#[track_caller]
fn check(record: &RequestRecord, basis: UsageBasis, note: &str) {
    assert_eq!(
        (record.status(), record.usage_basis()),
        (RequestStatus::Cancelled, basis),
        "{record:?}"
    );
    assert_eq!(record.notes, [note]);
}

#[tokio::test]
async fn a_drained_stream_is_read_to_its_end_and_charged_by_reported_usage() {
    for path in ["/v1/chat/completions", "/v1/responses"] {
        let context = context().await;
        let (answer, mut call) = context.streaming(path).await;
        drop(answer);
        assert!(context.is_busy().await, "its slot is taken until the drain ends");
        call.send(chunk(REST) + &chunk("")).await;
        let record = context.record(2).await;
        check(&record, UsageBasis::Upstream, "client_gone:drained");
        assert_eq!((record.http_status, record.tokens.unwrap().output), (Some(200), Some(700)));
    }
}

#[tokio::test]
async fn a_drained_plain_request_is_read_to_its_end() {
    for path in ["/v1/chat/completions", "/v1/responses"] {
        let context = ordered_context().await;
        let mut call = context.left(context.request(path, false)).await;
        assert!(context.is_busy().await);
        call.send(json_answer(200, PLAIN)).await;
        let record = context.record(2).await;
        check(&record, UsageBasis::Upstream, "client_gone:drained");
        assert_eq!((record.http_status, record.tokens.unwrap().output), (None, Some(700)));
    }
}

#[tokio::test]
async fn a_drained_answer_can_be_replayed() {
    let mut context = ordered_context().await;
    let request = |context: &TestContext| {
        context.request("/v1/chat/completions", false).header("idempotency-key", "one")
    };
    let mut call = context.left(request(&context)).await;
    call.send(json_answer(200, PLAIN)).await;
    let answer = request(&context).answer().await;
    assert_eq!((answer.status, answer.header("idempotent-replayed")), (200, "true"));
    let record = context.record(2).await;
    check(&record, UsageBasis::Upstream, "client_gone:drained");
    context.product = context.product.stop().await.start().await;
    let answer = request(&context).answer().await;
    assert_eq!((answer.status, &answer.error()["code"]), (409, &json!("idempotent_answer_gone")));
}

#[tokio::test]
async fn an_upstream_failure_after_the_client_disconnected_is_recorded_as_failed() {
    let context = ordered_context().await;
    let mut call = context.left(context.request("/v1/chat/completions", false)).await;
    call.send(json_answer(500, "{}")).await;
    let record = context.record(1).await;
    assert_eq!((record.status(), record.http_status), (RequestStatus::Failed, None), "{record:?}");
    assert_eq!(
        (record.cost_usd.as_deref(), record.notes.as_slice()),
        (Some("0"), &["client_gone:drained".to_owned()][..])
    );
}

#[tokio::test]
async fn an_answer_truncated_after_the_client_disconnected_counts_against_the_upstream() {
    let context = context().await;
    let (answer, call) = context.streaming("/v1/chat/completions").await;
    drop(answer);
    assert!(context.is_busy().await);
    drop(call);
    let record = context.record(2).await;
    assert_eq!(record.status(), RequestStatus::Failed, "{record:?}");
    assert_eq!(record.notes, ["client_gone:drained"]);
    let operator = context.product.operator().await;
    let request = v1::ListUpstreamHealthRequest::default();
    let all = operator.traffic().list_upstream_health(request).await.unwrap().into_inner();
    let upstream = all.upstreams.iter().find(|it| it.name == "up-asked-0").unwrap();
    assert_eq!((upstream.requests, upstream.failures), (1, 1));
}

#[tokio::test]
async fn without_a_drain_policy_the_upstream_is_cancelled_and_the_record_notes_it() {
    let context = context().await;
    let context = TestContext { key: context.alice.key().await.secret, ..context };
    let (answer, mut call) = context.streaming("/v1/chat/completions").await;
    drop(answer);
    call.closed().await;
    check(&context.record(1).await, UsageBasis::Counted, "client_gone:cancelled");
}

/// Regression test: the request was charged although it never left, because a deployment was chosen.
#[tokio::test]
async fn a_request_that_has_not_left_when_its_client_disconnects_is_not_charged() {
    let context = ordered_context().await;
    let key = context.alice.key().await.secret;
    // The TLS handshake never ends, so no request can be sent.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/v1", listener.local_addr().unwrap());
    context.product.operator().await.add_model_on("secure", &[&url]).await;
    for path in ["/v1/chat/completions", "/v1/responses"] {
        let body = match path {
            "/v1/responses" => json!({ "model": "secure", "input": "hi" }),
            _ => question("secure", "hi"),
        };
        let request = context.product.post(path).bearer(&key).json(&body);
        let mut client = JoinSet::new();
        client.spawn(async move { request.try_send().await.is_ok() });
        let (connection, _) = with_timeout("a connection", listener.accept()).await.unwrap();
        with_timeout("a handshake", connection.readable()).await.unwrap();
        client.shutdown().await;
    }
    for record in context.alice.records(2).await {
        check(&record, UsageBasis::None, "client_gone:cancelled");
        assert_eq!(record.cost_usd.as_deref(), Some("0"), "{record:?}");
        assert_eq!(record.deployment.as_deref(), Some("up-secure-0/upstream-model"));
    }
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_a_drain() {
    let context = context().await;
    let (answer, _call) = context.streaming("/v1/chat/completions").await;
    drop(answer);
    assert!(context.is_busy().await);
    let product = context.product.stop().await.start().await;
    let alice = Session::sign_in(&product.admin, "alice").await;
    let record = alice.records(2).await.into_iter().find(|record| record.deployment.is_some());
    check(&record.unwrap(), UsageBasis::Counted, "client_gone:cancelled");
}

#[tokio::test]
async fn a_drain_ends_at_its_timeout() {
    let context = context().await;
    let key = context.alice.key_with(|key| {
        key.client_gone = v1::ClientGone::Drain.into();
        key.drain_seconds = 1;
    });
    let context = TestContext { key: key.await.secret, ..context };
    let (answer, mut call) = context.streaming("/v1/chat/completions").await;
    drop(answer);
    call.closed().await;
    check(&context.record(1).await, UsageBasis::Counted, "client_gone:cancelled");
}

#[tokio::test]
async fn a_drain_policy_has_bounds_and_is_listed_with_its_key() {
    let alice = Product::start().await;
    let alice = alice.member("alice").await;
    let make = async |client_gone: v1::ClientGone, drain_seconds| {
        let request = v1::CreateKeyRequest {
            label: "k".to_owned(),
            client_gone: client_gone.into(),
            drain_seconds,
            ..Default::default()
        };
        alice.keys().create_key(request).await.map(|made| made.into_inner().key.unwrap())
    };
    let key = make(v1::ClientGone::Drain, 3_600).await.unwrap();
    assert_eq!((key.client_gone(), key.drain_seconds), (v1::ClientGone::Drain, 3_600));
    let key = make(v1::ClientGone::Unspecified, 0).await.unwrap();
    assert_eq!((key.client_gone(), key.drain_seconds), (v1::ClientGone::Cancel, 0));
    for (client_gone, seconds) in
        [(v1::ClientGone::Drain, 0), (v1::ClientGone::Drain, 3_601), (v1::ClientGone::Cancel, 1)]
    {
        let refused = make(client_gone, seconds).await.unwrap_err();
        assert!(refused.message().contains("drain_seconds"), "{refused}");
    }
}

/// TCP does not tell a client that closes its sending side from one that has left.
#[tokio::test]
async fn a_client_that_closes_its_sending_side_is_recorded_as_gone() {
    let product = Product::on_http1(|_| {}).await;
    let upstream = RawUpstream::start().await;
    product.operator().await.add_model_on("asked", &[&upstream.url]).await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    let request = product.chat(&key, &question("asked", "hi"));
    let mut client = request.connect().await.unwrap();
    client.write_all(&request.bytes()).await.unwrap();
    let mut call = upstream.call().await;
    client.shutdown().await.unwrap();
    call.closed().await;
    let mut answer = Vec::new();
    with_timeout("the end", client.read_to_end(&mut answer)).await.unwrap();
    assert_eq!(answer, b"", "{}", String::from_utf8_lossy(&answer));
    assert_eq!(alice.record().await.status(), RequestStatus::Cancelled);
}

/// Regression test: a request that arrived together with the end of its connection had neither an answer nor a
/// record.
#[tokio::test]
async fn a_request_whose_client_closes_its_side_at_once_is_recorded() {
    let current = |setup: &mut Setup| setup.worker_runtime = WorkerRuntime::Current;
    let product = Product::on_http1(current).await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    for stream in [false, true] {
        let mut body = question("sim-chat", "hi");
        body["stream"] = json!(stream);
        let request = product.chat(&key, &body);
        let mut client = request.connect().await.unwrap();
        // The gateway runs on this thread, so that it sees both at once.
        client.write_all(&request.bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        let mut answer = Vec::new();
        _ = with_timeout("the end of a connection", client.read_to_end(&mut answer)).await;
        assert_eq!(String::from_utf8_lossy(&answer), "");
    }
    for record in alice.records(2).await {
        assert_eq!(record.status(), RequestStatus::Cancelled, "{record:?}");
        assert_eq!(record.notes, ["client_gone:cancelled"]);
    }
}

/// Regression test: the end of a client stayed unnoticed behind bytes that it had sent after its request, until the next
/// bytes of the answer.
#[tokio::test]
async fn a_client_that_leaves_after_more_bytes_cancels_its_request() {
    let soon = |setup: &mut Setup| {
        setup.config.edge.timeouts.hang_up = Duration::from_millis(20);
    };
    let product = Product::on_http1(soon).await;
    let upstream = RawUpstream::start().await;
    product.operator().await.add_model_on("asked", &[&upstream.url]).await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    let request = product.chat(&key, &question("asked", "hi"));
    // Only Linux reports the end of one direction.
    let closes = if cfg!(target_os = "linux") { &["half", "whole"][..] } else { &["whole"] };
    for close in closes {
        let mut client = request.connect().await.unwrap();
        client
            .write_all(&[&request.bytes()[..], b"GET /v1/models HTTP/1.1\r\n"].concat())
            .await
            .unwrap();
        let mut call = upstream.call().await;
        if *close == "half" {
            client.shutdown().await.unwrap();
        } else {
            drop(client);
        }
        with_timeout("the end of the request", call.closed()).await;
    }
    for record in alice.records(closes.len()).await {
        assert_eq!(record.status(), RequestStatus::Cancelled);
    }
}
