//! Requests whose end two servers could see in different places (request smuggling): each is refused, or read in the one
//! way of RFC 9112.

use serde_json::json;
use tests::http::raw;
use tests::{Product, question};

/// The statuses of the answers on a connection.
fn statuses(answers: &str) -> Vec<&str> {
    let status = |rest: &str| rest.split(' ').next().is_some_and(|it| it.parse::<u16>().is_ok());
    answers.split("HTTP/1.1 ").filter(|rest| status(rest)).map(|rest| &rest[..3]).collect()
}

#[tokio::test]
async fn a_part_of_a_body_is_never_taken_for_a_request() {
    let product = Product::on_http1(|_| {}).await;
    let key = product.member("alice").await.key().await.secret;
    let body = json!(question("sim-chat", "hi")).to_string();
    let (length, size) = (format!("content-length: {}", body.len()), format!("{:x}", body.len()));
    let chunked = format!("{size}\r\n{body}\r\n0\r\n\r\n");
    let te = "transfer-encoding: chunked";
    let refused: &[&str] = &["400"];
    let cases = [
        // The coding wins, and the connection is closed (6.3).
        (format!("{length}\r\n{te}"), chunked.clone(), &["200"][..]),
        (format!("{te}\r\ncontent-length: 4"), chunked.clone(), &["200"]),
        (format!("{length}\r\n{length}"), body.clone(), &["200", "200"]),
        (te.to_owned(), chunked.clone(), &["200", "200"]),
        (te.to_owned(), chunked.replacen("\r\n", ";a=b\r\n", 1), &["200", "200"]),
        (format!("{length}\r\ncontent-length: 5"), body.clone(), refused),
        (format!("content-length: {0}, {0}", body.len()), body.clone(), refused),
        (format!("content-length: +{}", body.len()), body.clone(), refused),
        ("content-length: -1".to_owned(), body.clone(), refused),
        ("content-length: 0x40".to_owned(), body.clone(), refused),
        ("content-length:".to_owned(), body.clone(), refused),
        ("content-length: 99999999999999999999999".to_owned(), body.clone(), refused),
        (format!("content-length : {}", body.len()), body.clone(), refused),
        (format!("x: 1\r\n {length}"), body.clone(), refused),
        (format!("x: 1\r{te}\r\n{length}"), body.clone(), refused),
        (format!("x: a\0b\r\n{length}"), body.clone(), refused),
        ("transfer-encoding:\r\n chunked".to_owned(), chunked.clone(), refused),
        ("transfer-encoding: \u{b}chunked".to_owned(), chunked.clone(), refused),
        ("transfer-encoding: chunked, identity".to_owned(), chunked.clone(), refused),
        ("transfer-encoding: identity".to_owned(), chunked.clone(), refused),
        ("transfer-encoding: xchunked".to_owned(), chunked.clone(), refused),
        ("transfer-encoding: gzip, chunked".to_owned(), chunked.clone(), refused),
        (format!("{te}\r\n{te}"), chunked.clone(), refused),
        (format!("{te}\r\ntransfer-encoding: cow"), chunked.clone(), refused),
        (te.to_owned(), format!("+{chunked}"), refused),
        (te.to_owned(), format!("0x{chunked}"), refused),
        (te.to_owned(), chunked.replacen("\r\n", "\n", 1), refused),
        (te.to_owned(), chunked.replacen("\r\n", ";a\nb\r\n", 1), refused),
        (te.to_owned(), format!("fffffffffffffffff\r\n{body}\r\n0\r\n\r\n"), refused),
        (te.to_owned(), format!("{size}\r\n{body}XX0\r\n\r\n"), refused),
    ];
    for (headers, body, expected) in cases {
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {key}\r\n\
             content-type: application/json\r\n{headers}\r\n\r\n{body}\
             GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
        );
        let answers = raw(product.http, request.as_bytes()).await;
        assert_eq!(statuses(&answers), expected, "{headers:?} {body:?}: {answers}");
    }
}
