//! Request bodies: their memory use, the number of concurrent bodies of a key, and what large ones leave to others.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::num::NonZeroUsize;

use proto::v1;
use serde_json::json;
use tests::process::Gateway;
use tests::{Product, Session, question, with_timeout};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Returns a connection that has sent the head of a chat request with a chunked body.
async fn begin_chunked(to: SocketAddr, key: &str) -> TcpStream {
    begin(to, key, "transfer-encoding: chunked").await
}

/// Returns a connection that has sent the head of a chat request whose body is framed as `framing` says.
async fn begin(to: SocketAddr, key: &str, framing: &str) -> TcpStream {
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\n{framing}\r\n\r\n"
    );
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// Encodes a part of a body in chunks of `size` bytes.
fn chunked(text: &str, size: usize) -> Vec<u8> {
    let mut chunks = String::new();
    for piece in text.as_bytes().chunks(size) {
        _ = write!(chunks, "{:x}\r\n{}\r\n", piece.len(), std::str::from_utf8(piece).unwrap());
    }
    chunks.into_bytes()
}

/// Returns the status of the next response on a connection.
async fn status(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let reading = async {
        while !answer.ends_with(b"\n") {
            answer.push(stream.read_u8().await.unwrap());
        }
    };
    with_timeout("an answer", reading).await;
    String::from_utf8(answer).unwrap().split(' ').nth(1).unwrap().to_owned()
}

/// Waits until the body of another request is being read with a key whose concurrency limit is one: a second body is
/// refused then.
async fn until_body_is_read(to: SocketAddr, key: &str) {
    let body = question("sim-chat", "hi").to_string();
    let refused = async {
        loop {
            let mut second = begin_chunked(to, key).await;
            // in one write: a server that refuses early may close before all is sent
            let whole = [&chunked(&body, 5)[..], b"0\r\n\r\n"].concat();
            second.write_all(&whole).await.unwrap();
            if status(&mut second).await == "429" {
                break;
            }
        }
    };
    with_timeout("a refusal", refused).await;
}

/// Returns the resident memory of a process, in KiB.
#[cfg(target_os = "linux")]
fn resident_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Regression test: each chunk was kept as a buffer with its own header, about 70 bytes for one
/// byte.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_body_in_one_byte_chunks_takes_little_more_memory_than_its_length() {
    const MIB: usize = 1024 * 1024;
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), |_| {}).await;
    let alice = Session::register(&gateway.admin, "alice", "correct horse battery alice").await;
    let key = alice.key().await.secret;
    let mut stream = begin_chunked(gateway.http, &key).await;
    // an unterminated string, which the parser cannot skip
    stream.write_all(&chunked(r#"{"model":"sim-chat","messages":[],"x":""#, 1)).await.unwrap();
    let before = resident_kib(gateway.id());
    stream.write_all(&chunked(&"a".repeat(MIB), 1)).await.unwrap();
    stream.write_all(&chunked("\"}", 1)).await.unwrap();
    stream.write_all(b"0\r\n\r\n").await.unwrap();
    assert_eq!(status(&mut stream).await, "400", "the body has no messages");
    let grown = resident_kib(gateway.id()).saturating_sub(before);
    assert!(grown < 24 * 1024, "a body of 1 MiB takes {grown} KiB");
}

/// Regression test: bodies were read before a concurrency slot was taken, so one key could send any
/// number of them.
#[tokio::test]
async fn a_key_sends_no_more_concurrent_bodies_than_its_concurrency_limit() {
    // one worker reads the first body before the second
    let product = Product::on_http1(|setup| setup.config.workers = NonZeroUsize::MIN).await;
    let alice = product.member("alice").await;
    let one = v1::Limits { concurrency: Some(1), ..Default::default() };
    let key = alice.key_with(|key| key.limits = Some(one)).await.secret;
    let body = question("sim-chat", "hi").to_string();
    let (first_half, second_half) = body.split_at(body.len() / 2);

    let mut first = begin_chunked(product.http, &key).await;
    first.write_all(&chunked(first_half, 5)).await.unwrap();
    until_body_is_read(product.http, &key).await;
    let refused = alice.records(1).await.into_iter().find(|it| it.http_status == Some(429));
    assert_eq!(refused.unwrap().error_code.as_deref(), Some("rate_limit_exceeded"));

    first.write_all(&chunked(second_half, 5)).await.unwrap();
    first.write_all(b"0\r\n\r\n").await.unwrap();
    assert_eq!(status(&mut first).await, "200");
    let answer = product.chat(&key, &question("sim-chat", "hi")).answer().await;
    assert_eq!(answer.status, 200, "the slot is free again");
}

/// Regression test: an account could hold a quarter of the memory for bodies, and took it for what a body announced.
#[tokio::test]
async fn slow_bodies_of_four_accounts_leave_memory_for_a_fifth() {
    const BODY: usize = 256 * 1024;
    let product = Product::on_http1(|setup| {
        (setup.config.max_body_bytes, setup.config.body_memory_bytes) = (BODY, 4 * BODY);
        // one worker reads the slow body before the one that waits for it
        setup.config.workers = NonZeroUsize::MIN;
    })
    .await;
    let mut slow = Vec::new();
    for name in ["alice", "bob", "carol", "dave"] {
        let one = v1::Limits { concurrency: Some(1), ..Default::default() };
        let member = product.member(name).await;
        let key = member.key_with(|key| key.limits = Some(one)).await.secret;
        let mut body = begin(product.http, &key, &format!("content-length: {BODY}")).await;
        body.write_all(&b"a".repeat(2 * BODY / 3)).await.unwrap();
        until_body_is_read(product.http, &key).await;
        slow.push(body);
    }
    let key = product.member("erin").await.key().await.secret;
    let long = question("sim-chat", &"word ".repeat(12 * 1024));
    let answer = product.chat(&key, &long).answer().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    drop(slow);
}

/// A body is the same in pieces and in one write.
#[tokio::test]
async fn a_body_is_read_alike_in_pieces_of_any_size() {
    let product = Product::on_http1(|_| {}).await;
    let key = product.member("alice").await.key().await.secret;
    let text = "word ".repeat(40_000);
    let body = json!({ "model": "sim-chat", "messages": [{ "role": "user", "content": text }] });
    let whole = product.chat(&key, &body).answer().await;
    assert_eq!(whole.status, 200, "{}", whole.text());
    for size in [7, 1_000, 100_000] {
        let mut stream = begin_chunked(product.http, &key).await;
        stream.write_all(&chunked(&body.to_string(), size)).await.unwrap();
        stream.write_all(b"0\r\n\r\n").await.unwrap();
        assert_eq!(status(&mut stream).await, "200", "in pieces of {size} bytes");
    }
}

/// Regression test: a body was parsed and translated on its worker, which served no other request meanwhile. Four of them
/// left time for a few requests between them.
#[tokio::test]
async fn others_are_served_while_large_bodies_are_translated() {
    const LARGE: usize = 4;
    const MIN_OTHERS: usize = 20;
    let product = Product::with(|setup| setup.config.workers = NonZeroUsize::MIN).await;
    let member = product.member("alice").await;
    product.operator().await.credit("alice", "1000").await;
    let key = member.key().await.secret;
    let items = vec![json!({ "role": "user", "content": "a" }); 50_000];
    let request = product.post("/v1/responses").bearer(&key);
    let request = request.json(&json!({ "model": "sim-chat", "input": items }));
    let mut large = JoinSet::new();
    for _ in 0..LARGE {
        large.spawn(request.clone().answer());
    }
    let mut next = async || {
        let answered = with_timeout("a large request", large.join_next()).await;
        answered.map(|answer| assert_eq!(answer.unwrap().status, 200))
    };
    // By now, all bodies have been received, or are about to be.
    next().await.unwrap();
    let mut others = 0;
    let other = async {
        loop {
            let answer = product.chat(&key, &question("sim-chat", "hi")).answer().await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            others += 1;
        }
    };
    tokio::select! {
        () = other => unreachable!("it does not end"),
        () = async { while next().await.is_some() {} } => {}
    }
    assert!(others >= MIN_OTHERS, "only {others} requests were served meanwhile");
}
