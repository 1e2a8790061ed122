//! Requests that are not valid HTTP/1.1: each is answered with an error of the usual form.

use rustls::pki_types::ServerName;
use serde_json::Value;
use tests::http::Request;
use tests::{Certificate, Product, with_timeout};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Sends `bytes`, and returns all that is answered until the connection ends.
async fn answer_to(mut stream: impl AsyncRead + AsyncWrite + Unpin, bytes: &[u8]) -> String {
    // The gateway stops reading at an error.
    _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    _ = with_timeout("an answer", stream.read_to_end(&mut answer)).await;
    String::from_utf8(answer).unwrap()
}

/// Checks the head and the body of an error, and returns its request id.
#[track_caller]
fn check(answer: &str, status: u16, code: &str) -> String {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let header = |name: &str| {
        let lines: Vec<_> = head.lines().filter_map(|line| line.split_once(": ")).collect();
        let mut values = lines.iter().filter(|(known, _)| *known == name).map(|(_, value)| *value);
        let value = values.next().unwrap_or_else(|| panic!("no {name}: {head}"));
        assert_eq!(values.next(), None, "{name}");
        value.to_owned()
    };
    assert_eq!(header("content-type"), "application/json");
    assert_eq!(header("connection"), "close");
    assert_eq!(header("content-length"), body.len().to_string());
    let body: Value = serde_json::from_str(body).unwrap();
    let error = body["error"].as_object().unwrap();
    assert_eq!(error.len(), 4, "{error:?}");
    assert_eq!(error["code"], code, "{error:?}");
    assert_eq!(error["type"], "invalid_request_error");
    assert_ne!(error["message"], "");
    header("x-request-id")
}

/// Requests that cannot be parsed, with the status and the code of their answers.
fn requests() -> Vec<(Vec<u8>, u16, &'static str)> {
    let long = "a".repeat(70_000);
    let many = "x: y\r\n".repeat(200);
    vec![
        (b"nonsense\r\n\r\n".to_vec(), 400, "malformed_request"),
        (b"GET /v1/models HTTP/1.1\r\nbad header\r\n\r\n".to_vec(), 400, "malformed_request"),
        (b"GET /v1/models HTTP/9.9\r\n\r\n".to_vec(), 400, "malformed_request"),
        (format!("GET /{long} HTTP/1.1\r\n\r\n").into_bytes(), 431, "headers_too_large"),
        (format!("GET / HTTP/1.1\r\nx: {long}\r\n\r\n").into_bytes(), 431, "headers_too_large"),
        (format!("GET / HTTP/1.1\r\n{many}\r\n").into_bytes(), 431, "headers_too_large"),
    ]
}

#[tokio::test]
async fn a_request_that_cannot_be_parsed_is_answered_with_an_error_body() {
    let product = Product::start().await;
    let mut ids = Vec::new();
    for (request, status, code) in requests() {
        let stream = TcpStream::connect(product.http).await.unwrap();
        ids.push(check(&answer_to(stream, &request).await, status, code));
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), requests().len(), "each has its own id");

    // After a request on the same connection, in the same packet.
    let valid = "GET /healthz HTTP/1.1\r\nhost: gateway\r\n\r\n";
    let stream = TcpStream::connect(product.http).await.unwrap();
    let answers = answer_to(stream, format!("{valid}nonsense\r\n\r\n").as_bytes()).await;
    let (first, second) = answers.split_at(answers[1..].find("HTTP/1.1 ").unwrap() + 1);
    assert!(first.starts_with("HTTP/1.1 200 OK\r\n"), "{first}");
    check(second, 400, "malformed_request");
    assert_eq!(Request::get(product.http, "/readyz").answer().await.status, 200);
}

#[tokio::test]
async fn a_request_that_cannot_be_parsed_is_answered_over_tls() {
    let dir = tempfile::tempdir().unwrap();
    let certificate = Certificate::create(dir.path());
    let product = Product::with(|setup| {
        setup.config.tls = Some(certificate.files.clone());
        // The socket needs no TLS.
        let path = setup.config.data_dir.with_extension("sock");
        setup.config.admin_listen = gateway::config::AdminAddress::Unix(path);
    })
    .await;
    for (request, status, code) in requests() {
        let stream = TcpStream::connect(product.http).await.unwrap();
        let host = ServerName::try_from("localhost").unwrap();
        let connector = TlsConnector::from(certificate.client_config("http/1.1"));
        let stream = with_timeout("a handshake", connector.connect(host, stream)).await.unwrap();
        check(&answer_to(stream, &request).await, status, code);
    }
}
