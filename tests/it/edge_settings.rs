//! The settings of the table `[edge]` take effect on the wire.

use std::time::Duration;

use serde_json::json;
use tests::http::raw;
use tests::http2::{
    END_HEADERS, END_STREAM, GET_ROOT, GOAWAY, HEADERS, RST_STREAM, SETTINGS, frame, frames,
    opening,
};
use tests::{Product, question, with_timeout};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends `bytes` and returns everything until the gateway closes the connection.
async fn until_closed(product: &Product, bytes: &[u8]) -> Vec<u8> {
    let mut connection = TcpStream::connect(product.http).await.unwrap();
    connection.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    // The gateway may reset the connection because of bytes that it has not read.
    _ = with_timeout("the end of the connection", connection.read_to_end(&mut answer)).await;
    answer
}

#[tokio::test]
async fn a_head_beyond_the_limits_is_refused() {
    let product = Product::on_http1(|setup| {
        setup.config.edge.limits.max_head_bytes = 8 * 1024;
        setup.config.edge.limits.max_headers = 10;
    })
    .await;
    let request = |fields: &str| {
        format!("GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{fields}\r\n")
    };
    for (fields, status) in [
        ("x: y\r\n".repeat(8), "200"),
        ("x: y\r\n".repeat(9), "431"),
        (format!("x: {}\r\n", "y".repeat(7 * 1024)), "200"),
        (format!("x: {}\r\n", "y".repeat(9 * 1024)), "431"),
    ] {
        let answer = raw(product.http, request(&fields).as_bytes()).await;
        assert_eq!(answer.get(9..12), Some(status), "{answer}");
    }
}

#[tokio::test]
async fn the_deadlines_of_requests_end_connections() {
    let short = Duration::from_millis(20);
    let silent = Product::on_http1(|setup| setup.config.edge.timeouts.first = short).await;
    assert_eq!(until_closed(&silent, b"").await, b"");
    let product = Product::on_http1(|setup| {
        setup.config.edge.timeouts.next = short;
        setup.config.edge.timeouts.idle = short;
    })
    .await;
    let request = b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
    let answer = until_closed(&product, request).await;
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{answer:?}");
    let headers = frame(HEADERS, END_STREAM | END_HEADERS, 1, GET_ROOT);
    let mut connection = TcpStream::connect(product.http).await.unwrap();
    let begin = [opening(), headers].concat();
    connection.write_all(&begin).await.unwrap();
    let mut answer = Vec::new();
    while !frames(&answer).iter().any(|frame| frame.kind == GOAWAY) {
        let read = with_timeout("a GOAWAY frame", connection.read_buf(&mut answer)).await.unwrap();
        assert!(read > 0, "the connection ended without a GOAWAY frame");
    }
}

#[tokio::test]
async fn a_body_slower_than_its_deadline_is_refused() {
    let product = Product::on_http1(|setup| {
        setup.config.edge.body_pace.timeout = Duration::from_millis(20);
    })
    .await;
    let key = product.member("alice").await.key().await.secret;
    assert_eq!(product.chat(&key, &question("sim-chat", "hi")).answer().await.status, 200);
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: 100\r\n\r\n{{"
    );
    let answer = until_closed(&product, head.as_bytes()).await;
    assert!(answer.starts_with(b"HTTP/1.1 408"), "{answer:?}");
}

#[tokio::test]
async fn the_limits_of_streams_apply_to_each_connection() {
    let product = Product::on_http1(|setup| {
        setup.config.edge.timeouts.first = Duration::from_millis(50);
        setup.config.edge.limits.max_streams = 7;
        setup.config.edge.limits.max_resets = 3;
    })
    .await;
    let answer = frames(&until_closed(&product, &opening()).await);
    let settings = answer.iter().find(|frame| frame.kind == SETTINGS).unwrap();
    // SETTINGS_MAX_CONCURRENT_STREAMS
    let mut entries = settings.payload.chunks(6);
    assert!(entries.any(|setting| setting == [0, 3, 0, 0, 0, 7]), "{settings:?}");
    // Each stream is reset in the segment that opens it, before it is accepted.
    let resets = |count: u32| {
        let streams = (0..count).flat_map(|index| {
            let id = 2 * index + 1;
            let open = frame(HEADERS, END_STREAM | END_HEADERS, id, GET_ROOT);
            [open, frame(RST_STREAM, 0, id, &8_u32.to_be_bytes())].concat()
        });
        [opening(), streams.collect()].concat()
    };
    let answer = frames(&until_closed(&product, &resets(4)).await);
    let goaway = answer.iter().find(|frame| frame.kind == GOAWAY).expect("the flood ends");
    // ENHANCE_YOUR_CALM
    assert_eq!(goaway.error_code(), Some(11), "{goaway:?}");
}

#[tokio::test]
async fn a_body_nested_too_deeply_is_refused_and_not_sent_upstream() {
    let product = Product::with(|setup| setup.config.edge.max_json_depth = 50).await;
    let member = product.member("alice").await;
    let key = member.key().await.secret;
    // The request is the first level and `metadata` the second. Brackets in strings do not count.
    let send = |path, field: &str, depth: usize| {
        let (open, close) = ("[".repeat(depth - 2), "]".repeat(depth - 2));
        let text = "[".repeat(100);
        let body =
            format!(r#"{{"model":"sim-chat","metadata":{{"a":{open}{close}}},{field}:{text:?}}}"#);
        product.post(path).bearer(&key).body(body).answer()
    };
    let (chat, responses) = ("/v1/chat/completions", "/v1/responses");
    let messages = r#""messages":[{"role":"user","content":"hi"}],"user""#;
    assert_eq!(send(chat, messages, 50).await.status, 200);
    for (path, field) in [(chat, messages), (responses, r#""input""#)] {
        let refused = send(path, field, 51).await;
        assert_eq!((refused.status, &refused.error()["code"]), (400, &json!("invalid_json")));
        let reason = refused.error()["message"].to_string();
        assert!(reason.contains("nested deeper than 50 levels"), "{reason}");
    }
    let records = member.records(3).await;
    let forwarded = records.iter().filter(|record| record.deployment.is_some()).count();
    assert_eq!(forwarded, 1, "{records:?}");
}
