//! Shutdown as seen by clients, load balancers and operators.

use std::time::Duration;

use gateway::workers::WorkerRuntime;
use proto::v1::RequestStatus;
use serde_json::{Value, json};
use tests::{
    Certificate, FEW_TOKENS, Product, RawUpstream, Session, Setup, chunk, json_answer, question,
    stream_head, with_timeout,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

const PIECE: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n";

#[tokio::test]
async fn readiness_turns_off_before_the_port_closes() {
    let delay = Duration::from_secs(10);
    let product = Product::with(|setup| {
        setup.config.drain_delay = delay;
        setup.worker_runtime = WorkerRuntime::Current;
    })
    .await;
    let key = product.member("alice").await.key().await.secret;
    product.shutdown.cancel();
    let unready = async { while product.get("/readyz").answer().await.status != 503 {} };
    with_timeout("the end of readiness", unready).await;
    let answer = product.chat(&key, &question("sim-chat", "hi")).answer().await;
    assert_eq!(answer.status, 200, "requests before the load balancer reacts are served");
    tokio::time::pause();
    let closed = async { while product.get("/readyz").connect().await.is_ok() {} };
    with_timeout("the end of the port", async {
        tokio::time::sleep(delay).await;
        closed.await;
    })
    .await;
    tokio::time::resume();
    product.stop().await;
}

/// Returns a gateway with a drain timeout of zero, an upstream and a key.
async fn context() -> (Product, RawUpstream, String) {
    let product = Product::with(|setup| {
        setup.config.drain = Duration::ZERO;
        setup.worker_runtime = WorkerRuntime::Current;
    })
    .await;
    let upstream = RawUpstream::start().await;
    product.operator().await.add_model_on("asked", &[&upstream.url]).await;
    let key = product.member("alice").await.key().await.secret;
    (product, upstream, key)
}

/// Stops the gateway, and returns the only record.
async fn record_of(product: Product) -> proto::v1::RequestRecord {
    let product = product.stop().await.start().await;
    Session::sign_in(&product.admin, "alice").await.record().await
}

/// Regression test: the stream was cut in the middle of an event, or of a transfer-encoding chunk.
#[tokio::test]
async fn a_stream_cut_off_by_a_shutdown_ends_in_an_error_event() {
    for path in ["/v1/chat/completions", "/v1/responses"] {
        let (product, upstream, key) = context().await;
        let mut body = match path {
            "/v1/responses" => json!({ "model": "asked", "input": "hi" }),
            _ => question("asked", "hi"),
        };
        body["stream"] = json!(true);
        let begin = async {
            let mut call = upstream.call().await;
            call.send(format!("{}{}", stream_head(), chunk(PIECE))).await;
            call
        };
        let request = product.post(path).bearer(&key).json(&body);
        let (mut answer, mut call) = tokio::join!(request.send(), begin);
        answer.event().await.unwrap();
        product.shutdown.cancel();
        let events = answer.events().await;
        let last = events.iter().rfind(|event| event.as_str() != "data: [DONE]").unwrap();
        let data = last.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        if path == "/v1/responses" {
            assert_eq!(data["type"], "response.failed", "{events:?}");
            assert_eq!(data["response"]["status"], "failed");
        } else {
            assert_eq!(data["error"]["code"], "server_shutting_down", "{events:?}");
        }
        let message = data.to_string();
        assert!(message.contains("shutting down"), "{message}");
        call.closed().await;
        let record = record_of(product).await;
        assert_eq!(record.status(), RequestStatus::Interrupted, "{record:?}");
        assert_eq!(record.error_code.as_deref(), Some("server_shutting_down"));
        assert_eq!(record.tokens.unwrap().output, Some(1), "the streamed output is charged");
    }
}

/// Regression test: the record had no error code, because the error could not be delivered.
#[tokio::test]
async fn a_stream_cut_off_while_its_client_does_not_read_is_recorded_as_interrupted() {
    let (product, upstream, key) = context().await;
    let mut body = question("asked", "hi");
    body["stream"] = json!(true);
    let request = product.chat(&key, &body);
    let request = request.socket(|socket| socket.set_recv_buffer_size(4 * 1_024));
    let (_client, mut call) = tokio::join!(request.send(), upstream.begin_stream());
    tokio::time::pause();
    // The clock advances only when every buffer up to the client is full.
    let full = timeout(Duration::from_secs(5), call.stream_endlessly(FEW_TOKENS)).await;
    assert!(full.is_err(), "the gateway has disconnected");
    tokio::time::resume();
    let record = record_of(product).await;
    assert_eq!((record.status(), record.http_status), (RequestStatus::Interrupted, Some(200)));
    assert_eq!(record.error_code.as_deref(), Some("server_shutting_down"), "{record:?}");
}

/// Regression test: the connection was closed once the whole answer was with the gateway's HTTP layer.
#[tokio::test]
async fn a_slow_reader_gets_the_whole_of_a_large_answer_in_a_shutdown() {
    let product = Product::start().await;
    let upstream = RawUpstream::start().await;
    product.operator().await.add_model_on("asked", &[&upstream.url]).await;
    let key = product.member("alice").await.key().await.secret;
    let request = product.chat(&key, &question("asked", "hi"));
    let request = request.socket(|socket| socket.set_recv_buffer_size(4 * 1_024));
    let text = FEW_TOKENS.repeat(1_000_000);
    let body = json!({ "choices": [{ "message": { "content": text }, "finish_reason": "stop" }] });
    let body = body.to_string();
    let (begun, _) = tokio::join!(request.send(), upstream.answer(json_answer(200, &body)));
    product.shutdown.cancel();
    let answer = begun.answer().await;
    assert!(answer.text() == body, "{} of {} bytes", answer.body.len(), body.len());
    product.stop().await;
}

/// A Responses stream whose head was sent before the upstream answered.
#[tokio::test]
async fn a_stream_without_an_upstream_answer_ends_in_an_error_event() {
    let (product, upstream, key) = context().await;
    let body = json!({ "model": "asked", "input": "hi", "stream": true });
    let request = product.post("/v1/responses").bearer(&key).json(&body);
    let waiting = async {
        let call = upstream.call().await;
        // the head is delayed for some seconds
        tokio::time::pause();
        call
    };
    let (mut answer, _call) = tokio::join!(request.send(), waiting);
    tokio::time::resume();
    answer.event().await.unwrap();
    product.shutdown.cancel();
    let events = answer.events().await;
    let failed = events.iter().find(|event| event.contains("response.failed")).unwrap();
    let data = failed.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let usage = &serde_json::from_str::<Value>(data).unwrap()["response"]["usage"];
    let record = record_of(product).await;
    // Regression test: the event had no usage.
    let tokens = record.tokens.unwrap();
    assert!(tokens.input.unwrap() > 0 && tokens.output == Some(0), "{tokens:?}");
    assert_eq!(
        (usage["input_tokens"].as_u64(), usage["output_tokens"].as_u64()),
        (tokens.input, tokens.output)
    );
    // Regression test: the record had no error code.
    assert_eq!((record.status(), record.http_status), (RequestStatus::Interrupted, Some(200)));
    assert_eq!(record.error_code.as_deref(), Some("server_shutting_down"), "{record:?}");
    assert_eq!(record.notes, <[String; 0]>::default());
}

#[tokio::test]
async fn a_request_without_an_answer_gets_503_at_a_shutdown() {
    for path in ["/v1/chat/completions", "/v1/responses"] {
        let (product, upstream, key) = context().await;
        let body = match path {
            "/v1/responses" => json!({ "model": "asked", "input": "hi" }),
            _ => question("asked", "hi"),
        };
        let request = product.post(path).bearer(&key).json(&body);
        let mut client = JoinSet::new();
        client.spawn(async move { request.answer().await });
        let mut call = upstream.call().await;
        product.shutdown.cancel();
        let answer = with_timeout("an answer", client.join_next()).await.unwrap().unwrap();
        assert_eq!((answer.status, answer.header("retry-after")), (503, "1"), "{path}");
        assert_eq!(answer.error()["code"], "server_shutting_down");
        call.closed().await;
        let record = record_of(product).await;
        assert_eq!((record.status(), record.http_status), (RequestStatus::Interrupted, Some(503)));
    }
}

/// Waits until the gateway has closed a connection, and checks that no deadline had to pass for that.
async fn closed_promptly(product: &Product, mut stream: TcpStream) {
    tokio::time::pause();
    let began = Instant::now();
    product.shutdown.cancel();
    let mut rest = Vec::new();
    _ = with_timeout("the end of a connection", stream.read_to_end(&mut rest)).await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    tokio::time::resume();
}

/// Regression test: the shutdown waited for half of a head until a deadline of its client passed.
#[tokio::test]
async fn a_shutdown_does_not_wait_for_half_of_a_request() {
    let health = "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
    for sent in ["", "G", "GET /healthz HTTP/1.1\r\nhost:", "PRI * HT", health] {
        let current = |setup: &mut Setup| setup.worker_runtime = WorkerRuntime::Current;
        let product = Product::on_http1(current).await;
        let mut stream = TcpStream::connect(product.http).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        // The gateway has read what was sent before.
        assert_eq!(product.get("/healthz").answer().await.status, 200);
        closed_promptly(&product, stream).await;
        product.stop().await;
    }
}

/// Regression test: as above, for half of a TLS handshake.
#[tokio::test]
async fn a_shutdown_does_not_wait_for_half_of_a_handshake() {
    let dir = tempfile::tempdir().unwrap();
    let certificate = Certificate::create();
    let files = certificate.write(dir.path());
    let product = Product::on_http1(|setup| {
        setup.config.tls = Some(files);
        setup.worker_runtime = WorkerRuntime::Current;
    })
    .await;
    let mut stream = TcpStream::connect(product.http).await.unwrap();
    stream.write_all(&[22, 3, 1]).await.unwrap();
    let health = product.get("/healthz").tls(certificate.client_config("http/1.1"));
    assert_eq!(health.answer().await.status, 200);
    closed_promptly(&product, stream).await;
    product.stop().await;
}
