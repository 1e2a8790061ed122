//! Errors of HTTP itself, before there is a request.

use std::net::SocketAddr;

use gateway::workers::WorkerRuntime;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tests::http2::{PRIORITY, frame, opening};
use tests::{Certificate, Product, with_timeout};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const HEALTH: &str = "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";

/// Returns an unreadable head for each error, with the status and code of the answer.
fn unreadable() -> [(String, u16, &'static str); 3] {
    let headers = "x: 1\r\n".repeat(101);
    let long = "GET /v1/models HTTP/1.1\r\nhost: a\r\ncookie: ";
    [
        ("GET\u{1} / HTTP/1.1\r\n\r\n".to_owned(), 400, "malformed_request"),
        (format!("GET / HTTP/1.1\r\n{headers}\r\n"), 431, "headers_too_large"),
        // exactly what the gateway reads of a head
        (format!("{long}{}", "a".repeat(64 * 1_024 - long.len())), 431, "headers_too_large"),
    ]
}

/// Checks that `answer` is one error of the API that ends the connection.
#[track_caller]
fn check_error(answer: &str, status: u16, code: &str) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    let mut lines = head.lines();
    assert!(lines.next().unwrap().starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    let header = |name: &str| {
        let mut values = head.lines().filter_map(|line| line.split_once(": "));
        values.find(|(found, _)| *found == name).map(|(_, value)| value)
    };
    assert_eq!(header("content-type"), Some("application/json"), "{answer}");
    assert_eq!(header("connection"), Some("close"), "{answer}");
    assert_eq!(header("x-request-id").map(str::len), Some(36), "{answer}");
    assert!(header("date").is_some_and(|date| date.ends_with(" GMT")), "{answer}");
    assert_eq!(header("content-length"), Some(body.len().to_string().as_str()), "{answer}");
    let error = &serde_json::from_str::<Value>(body).unwrap()["error"];
    assert_eq!((&error["code"], &error["type"]), (&code.into(), &"invalid_request_error".into()));
    assert!(error["param"].is_null() && error["message"].is_string(), "{answer}");
}

/// Sends `bytes` and reads until the gateway closes the connection.
async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, bytes: &str) -> String {
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut answer = String::new();
    with_timeout("the end of a connection", stream.read_to_string(&mut answer)).await.unwrap();
    answer
}

/// Opens a connection, sends `request` if it is not empty, and reads the answer.
async fn after(to: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !request.is_empty() && !answer.ends_with(b"}") {
        with_timeout("an answer", stream.read_buf(&mut answer)).await.unwrap();
    }
    stream
}

/// Regression test: the answer had no body and no request id.
#[tokio::test]
async fn a_head_that_cannot_be_read_gets_an_error_of_the_api() {
    let product = Product::on_http1(|_| {}).await;
    for (head, status, code) in unreadable() {
        let stream = TcpStream::connect(product.http).await.unwrap();
        check_error(&exchange(stream, &head).await, status, code);
        // after an answered request, and sent with it
        let stream = TcpStream::connect(product.http).await.unwrap();
        let answers = exchange(stream, &format!("{HEALTH}{head}")).await;
        let (first, second) = answers.split_once(r#"{"status":"ok"}"#).unwrap();
        assert!(first.starts_with("HTTP/1.1 200"), "{answers}");
        check_error(second, status, code);
    }
}

#[tokio::test]
async fn a_head_that_cannot_be_read_gets_an_error_of_the_api_over_tls() {
    let dir = tempfile::tempdir().unwrap();
    let certificate = Certificate::create();
    let files = certificate.write(dir.path());
    let product = Product::on_http1(|setup| setup.config.tls = Some(files)).await;
    for (head, status, code) in unreadable() {
        let tcp = TcpStream::connect(product.http).await.unwrap();
        let localhost = ServerName::try_from("localhost").unwrap();
        let tls = TlsConnector::from(certificate.client_config("http/1.1")).connect(localhost, tcp);
        let tls = with_timeout("the handshake", tls).await.unwrap();
        check_error(&exchange(tls, &head).await, status, code);
    }
}

/// Regression test: a client that was too slow got no answer.
#[tokio::test]
async fn a_head_that_does_not_arrive_in_time_gets_an_error_of_the_api() {
    let product = Product::on_http1(|setup| setup.worker_runtime = WorkerRuntime::Current).await;
    let part = "POST /v1/chat/completions HTTP/1.1\r\nhost:";
    for first in ["", HEALTH] {
        let stream = after(product.http, first).await;
        tokio::time::pause();
        check_error(&exchange(stream, part).await, 408, "request_timeout");
        tokio::time::resume();
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_without_an_error() {
    let product = Product::on_http1(|setup| setup.worker_runtime = WorkerRuntime::Current).await;
    for first in ["", HEALTH] {
        let stream = after(product.http, first).await;
        tokio::time::pause();
        let answer = exchange(stream, "").await;
        tokio::time::resume();
        assert_eq!(answer, "", "after {first:?}");
    }
}

/// Regression test: frames of HTTP/2 that need no answer could be sent without an end, and delayed the other
/// connections of the worker.
#[tokio::test]
async fn a_client_that_floods_a_connection_without_a_request_is_disconnected() {
    let product = Product::on_http1(|_| {}).await;
    let mut connection = TcpStream::connect(product.http).await.unwrap();
    connection.write_all(&opening()).await.unwrap();
    let burst = frame(PRIORITY, 0, 1, &[0; 5]).repeat(1_000);
    let flood = async { while connection.write_all(&burst).await.is_ok() {} };
    with_timeout("the end of the connection", flood).await;
    assert_eq!(product.get("/healthz").answer().await.status, 200);
}
