//! Idle connections are closed, and do not prevent others from being served.
//!
//! Where a test waits for a deadline, time is paused: it advances to the next timer when the
//! runtime is idle.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use gateway::workers::WorkerRuntime;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use proto::v1::RequestStatus;
use serde_json::json;
use tests::http::Request;
use tests::process::{self, Gateway};
use tests::{FEW_TOKENS, Product, RawUpstream, Session, Setup, question, with_timeout};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::task::JoinSet;

/// The bytes that silent clients send: nothing, one letter, a part of the HTTP/2 preface, all of
/// it, and an unfinished HTTP/1 head.
const SILENT: [&str; 5] =
    ["", "P", "PRI", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET /healthz HTTP/1.1\r\n"];

/// Returns a gateway whose workers run on the test's runtime. The tests write to its ports by hand.
async fn on_test_clock() -> Product {
    Product::on_http1(|setup| setup.worker_runtime = WorkerRuntime::Current).await
}

/// Waits until the peer has closed a connection.
async fn closed(mut stream: TcpStream) {
    let mut buffer = [0; 1_024];
    let closing = async { while matches!(stream.read(&mut buffer).await, Ok(1..)) {} };
    with_timeout("the end of a connection", closing).await;
}

async fn silent(to: SocketAddr, bytes: &str) -> TcpStream {
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    stream
}

fn address(admin: &str) -> SocketAddr {
    admin.strip_prefix("http://").unwrap().parse().unwrap()
}

/// Regression test: protocol detection had no deadline, and the admin port had none at all.
#[tokio::test]
async fn a_connection_without_a_request_is_closed_on_both_ports() {
    let product = on_test_clock().await;
    for to in [product.http, address(&product.admin)] {
        for bytes in SILENT {
            let stream = silent(to, bytes).await;
            tokio::time::pause();
            closed(stream).await;
            tokio::time::resume();
        }
    }
}

/// Regression test: 1,010 silent connections permanently blocked a process with 1,024 descriptors.
#[tokio::test]
async fn silent_connections_do_not_lock_out_the_operator() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.arg("-c").arg("ulimit -n 256; exec \"$0\" \"$@\"").arg(process::binary("gateway"));
    command.env_clear().kill_on_drop(true);
    let gateway = Gateway::serve(command, dir.path(), |_| {}).await;
    let mut held = Vec::new();
    for _ in 0..300 {
        held.push(silent(gateway.http, "P").await);
    }
    let alice = Session::register(&gateway.admin, "alice", "correct horse battery alice").await;
    assert_eq!(alice.account().await.name, "alice");
    drop(held);
    // the descriptors of the closed connections are free again
    let answer = async {
        loop {
            let asked = tests::http::Request::get(gateway.http, "/readyz").try_send().await;
            if asked.is_ok_and(|answer| answer.status == 200) {
                break;
            }
        }
    };
    with_timeout("an answer", answer).await;
    let log = gateway.stop().await;
    assert!(log.contains("cannot take connections"), "{log}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_gateway_raises_its_descriptor_limit_to_the_hard_limit() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    let script = "ulimit -Sn 300; ulimit -Hn 1500; exec \"$0\" \"$@\"";
    command.arg("-c").arg(script).arg(process::binary("gateway"));
    command.env_clear().kill_on_drop(true);
    let gateway = Gateway::serve(command, dir.path(), |_| {}).await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", gateway.id())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let (soft, hard) = (files.split_whitespace().nth(3), files.split_whitespace().nth(4));
    assert_eq!((soft, hard), (Some("1500"), Some("1500")));
}

/// Sets the timeout for clients to some seconds, and lets the tests pause it.
fn with_client_timeout(setup: &mut Setup) {
    setup.config.client_idle = Some(Duration::from_secs(5));
    setup.worker_runtime = WorkerRuntime::Current;
}

/// Returns the gateway with an upstream and a key.
async fn context(product: Product) -> (Product, RawUpstream, Session, String) {
    let upstream = RawUpstream::start().await;
    product.operator().await.add_model_on("asked", &[&upstream.url]).await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    (product, upstream, alice, key)
}

#[track_caller]
fn check_cancelled(record: &proto::v1::RequestRecord) {
    assert_eq!(record.status(), RequestStatus::Cancelled, "{record:?}");
    assert_eq!(record.notes, ["client_gone:cancelled"]);
}

/// Regression test: such a client kept its slot and its upstream forever.
#[tokio::test]
async fn a_client_that_never_reads_is_treated_as_disconnected() {
    let product = Product::with(with_client_timeout).await;
    let (product, upstream, alice, key) = context(product).await;
    for path in ["/v1/chat/completions", "/v1/responses"] {
        let mut body = match path {
            "/v1/responses" => json!({ "model": "asked", "input": "hi" }),
            _ => question("asked", "hi"),
        };
        body["stream"] = json!(true);
        let request = product.post(path).bearer(&key).json(&body);
        let request = request.socket(|socket| socket.set_recv_buffer_size(4 * 1_024));
        let (client, mut call) = tokio::join!(request.send(), upstream.begin_stream());
        tokio::time::pause();
        // it ends only when the gateway disconnects
        with_timeout("the end of the upstream's stream", call.stream_endlessly(FEW_TOKENS)).await;
        tokio::time::resume();
        drop(client);
    }
    for record in alice.records(2).await {
        check_cancelled(&record);
    }
}

/// An HTTP/2 stream without flow-control window, on a live connection.
#[tokio::test]
async fn a_stalled_http2_stream_is_reset_without_affecting_other_streams() {
    let product = Product::on_http1(with_client_timeout).await;
    let (product, upstream, alice, key) = context(product).await;
    let stream = TcpStream::connect(product.http).await.unwrap();
    let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(1_024)
        .handshake::<_, Full<Bytes>>(TokioIo::new(stream))
        .await
        .unwrap();
    let mut running = JoinSet::new();
    running.spawn(async move { _ = connection.await });
    let mut body = question("asked", "hi");
    body["stream"] = json!(true);
    let request = hyper::Request::post(format!("http://{}/v1/chat/completions", product.http))
        .header("authorization", format!("Bearer {key}"))
        .body(Full::new(Bytes::from(body.to_string())))
        .unwrap();
    let (response, mut call) = tokio::join!(sender.send_request(request), upstream.begin_stream());
    let response = response.unwrap();
    tokio::time::pause();
    with_timeout("the end of the upstream's stream", call.stream_endlessly(FEW_TOKENS)).await;
    tokio::time::resume();
    check_cancelled(&alice.record().await);
    assert!(response.into_body().collect().await.is_err(), "the stream is reset");

    let request = hyper::Request::get(format!("http://{}/healthz", product.http));
    let request = request.body(Full::default()).unwrap();
    let answer = with_timeout("an answer", sender.send_request(request)).await.unwrap();
    assert_eq!(answer.status(), 200, "the connection still serves");
}

#[tokio::test]
async fn an_idle_http2_connection_is_closed() {
    let product = on_test_clock().await;
    let stream = TcpStream::connect(product.http).await.unwrap();
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let mut running = JoinSet::new();
    running.spawn(async move { _ = connection.await });
    let request = hyper::Request::get(format!("http://{}/healthz", product.http));
    let request = request.body(Full::<Bytes>::default()).unwrap();
    let answer = with_timeout("an answer", sender.send_request(request)).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes().len(), 15);
    tokio::time::pause();
    // minutes pass on the paused clock, more than the limit of `with_timeout`
    running.join_next().await.unwrap().unwrap();
    tokio::time::resume();
    assert!(sender.is_closed());
}

/// Returns an admin call whose request body does not follow its head.
fn unfinished_call(admin: SocketAddr, method: &str) -> hyper::Request<Unfinished> {
    hyper::Request::post(format!("http://{admin}/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Unfinished)
        .unwrap()
}

/// A body that is pending forever.
struct Unfinished;

impl Body for Unfinished {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}

/// Opens an HTTP/2 connection whose streams have this flow-control window.
async fn multiplexed<B>(to: SocketAddr, window: u32) -> (http2::SendRequest<B>, JoinSet<()>)
where
    B: Body<Data = Bytes, Error = Infallible> + Send + Unpin + 'static,
{
    let stream = TcpStream::connect(to).await.unwrap();
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(window)
        .handshake(TokioIo::new(stream))
        .await
        .unwrap();
    let mut running = JoinSet::new();
    running.spawn(async move { _ = connection.await });
    (sender, running)
}

#[tokio::test]
async fn an_admin_call_whose_body_does_not_arrive_exceeds_its_deadline() {
    let product = on_test_clock().await;
    let admin = address(&product.admin);
    let (mut sender, _running) = multiplexed(admin, 1_024).await;
    let call = unfinished_call(admin, "tollgate.admin.v1.AccountService/SignIn");
    let call = sender.send_request(call);
    tokio::time::pause();
    let answer = with_timeout("an answer", call).await.unwrap();
    tokio::time::resume();
    assert_eq!(answer.headers()["grpc-status"], "4", "DEADLINE_EXCEEDED");
}

/// Regression test: the message was received and decoded first, up to 4 MiB of it.
#[tokio::test]
async fn an_admin_call_without_a_token_is_refused_before_its_body() {
    let product = on_test_clock().await;
    let admin = address(&product.admin);
    let (mut sender, _running) = multiplexed(admin, 1_024).await;
    for method in ["CatalogueService/ApplyChanges", "KeyService/ListKeys"] {
        let call = unfinished_call(admin, &format!("tollgate.admin.v1.{method}"));
        let answer = with_timeout("an answer", sender.send_request(call)).await.unwrap();
        assert_eq!(answer.headers()["grpc-status"], "16", "{method} is UNAUTHENTICATED");
    }
}

#[tokio::test]
async fn an_unauthenticated_stream_does_not_keep_its_connection_open() {
    let product = on_test_clock().await;
    let admin = address(&product.admin);
    let (mut sender, mut running) = multiplexed(admin, 1_024).await;
    let call = unfinished_call(admin, "grpc.reflection.v1.ServerReflection/ServerReflectionInfo");
    let answer = with_timeout("an answer", sender.send_request(call)).await.unwrap();
    tokio::time::pause();
    running.join_next().await.unwrap().unwrap();
    tokio::time::resume();
    drop(answer);
}

#[tokio::test]
async fn an_unread_admin_response_does_not_keep_its_connection_open() {
    let product = on_test_clock().await;
    let admin = address(&product.admin);
    let (mut sender, mut running) = multiplexed(admin, 0).await;
    let call = hyper::Request::post(format!(
        "http://{admin}/tollgate.admin.v1.AccountService/DescribeGateway"
    ));
    let call = call.header("content-type", "application/grpc").header("te", "trailers");
    // a message without fields
    let call = call.body(Full::new(Bytes::from_static(&[0; 5]))).unwrap();
    let answer = with_timeout("an answer", sender.send_request(call)).await.unwrap();
    assert_eq!(answer.headers().get("grpc-status"), None, "the message comes first");
    tokio::time::pause();
    running.join_next().await.unwrap().unwrap();
    tokio::time::resume();
    drop(answer);
}

/// Regression test: hyper considered the stream finished after it had taken the response, and the
/// client could hold its memory forever.
#[tokio::test]
async fn an_unread_stored_response_is_reset() {
    let product = Product::on_http1(with_client_timeout).await;
    let (product, _, alice, key) = context(product).await;
    let input = "word ".repeat(10_000);
    let body = json!({ "model": "sim-chat", "input": input });
    let answer = product.post("/v1/responses").bearer(&key).json(&body).answer().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    let (mut sender, _running) = multiplexed(product.http, 1).await;
    let url = format!("http://{}/v1/responses/{id}/input_items", product.http);
    let request = hyper::Request::get(url).header("authorization", format!("Bearer {key}"));
    let request = request.body(Full::<Bytes>::default()).unwrap();
    let response = with_timeout("an answer", sender.send_request(request)).await.unwrap();
    assert_eq!(response.status(), 200);
    tokio::time::pause();
    // the window has room for one byte meanwhile
    tokio::time::sleep(Duration::from_secs(10)).await;
    tokio::time::resume();
    let read = with_timeout("the end of a stream", response.into_body().collect()).await;
    assert!(read.is_err(), "the stream is reset");
    drop(alice);
}

/// Each worker has a thread, and all answer.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn every_worker_answers() {
    const WORKERS: usize = 3;
    let dir = tempfile::tempdir().unwrap();
    let gateway =
        Gateway::start(dir.path(), |command| _ = command.env("TOLLGATE_WORKERS", "3")).await;
    // a thread sets its name once it runs
    let named = async {
        loop {
            let threads = std::fs::read_dir(format!("/proc/{}/task", gateway.id())).unwrap();
            let name = |path: PathBuf| std::fs::read_to_string(path.join("comm")).unwrap();
            let names = threads.map(|thread| name(thread.unwrap().path()));
            if names.filter(|name| name.starts_with("worker-")).count() == WORKERS {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    with_timeout("the workers", named).await;

    let alice = Session::register(&gateway.admin, "alice", "correct horse battery alice").await;
    let key = alice.key().await.secret;
    let body = question("sim-chat", "hi");
    // open connections are spread evenly, so each worker has two
    let mut connections = Vec::new();
    for _ in 0..2 * WORKERS {
        connections.push(TcpStream::connect(gateway.http).await.unwrap());
    }
    let request = Request::post(gateway.http, "/v1/chat/completions").bearer(&key).json(&body);
    let request = request.header("connection", "close").bytes();
    for mut stream in connections {
        stream.write_all(&request).await.unwrap();
        let mut answer = String::new();
        with_timeout("an answer", stream.read_to_string(&mut answer)).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    gateway.stop().await;
}
