//! Bad requests: the right status, four keys in the error, an `x-request-id` on every response.

use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use tests::http::{Answer, raw};
use tests::{ManualClock, Product, question};

/// Expects an error of this status, code and `param`. Returns the message.
#[track_caller]
fn check(answer: &Answer, status: u16, code: &str, param: impl Into<Value>) -> String {
    let error = answer.error();
    assert_eq!((answer.status, error["code"].as_str()), (status, Some(code)), "{answer:?}");
    assert_eq!(error["param"], param.into(), "{error}");
    assert_eq!(answer.header("content-type"), "application/json");
    check_id(answer);
    error["message"].as_str().unwrap().to_owned()
}

#[track_caller]
fn check_id(answer: &Answer) {
    let id: uuid::Uuid = answer.header("x-request-id").parse().unwrap();
    assert_eq!(id.get_version_num(), 7);
}

#[tokio::test]
async fn every_answer_has_a_request_id() {
    let product = Product::start().await;
    let key = product.member("alice").await.key().await.secret;
    for path in ["/healthz", "/readyz", "/v1/models", "/nowhere", "/v1/chat/completions"] {
        let answer = product.get(path).bearer(&key).answer().await;
        check_id(&answer);
        let again = product.get(path).bearer(&key).answer().await;
        assert_ne!(answer.header("x-request-id"), again.header("x-request-id"));
    }
    let answer = product.chat(&key, &question("sim-chat", "hi")).answer().await;
    assert_eq!(answer.status, 200);
    check_id(&answer);
}

#[tokio::test]
async fn an_invalid_key_is_refused() {
    let clock = ManualClock::at("2026-11-20T12:00:00Z");
    let ticking = clock.clone();
    let product = Product::with(move |setup| setup.clock = std::sync::Arc::new(ticking)).await;
    let alice = product.member("alice").await;
    let revoked = alice.key().await;
    let request = proto::v1::RevokeKeyRequest { id: revoked.id };
    alice.keys().revoke_key(request).await.unwrap();
    let expired =
        alice.key_with(|key| key.expires_at = Some("2026-11-20T12:00:01Z".parse().unwrap())).await;
    let good = alice.key().await.secret;
    clock.advance(Duration::from_secs(1));

    // one character of the secret is changed: the checksum fails, so it is not a key at all
    let typo = good.replace(&good[good.len() - 1..], "!");
    let session = alice.token.clone();
    for (key, says) in [
        ("", "no API key was given"),
        ("sk-proj-something-else", "not an API key of this gateway"),
        (&*typo, "not an API key of this gateway"),
        (&*session, "not an API key of this gateway"),
        (&*revoked.secret, "was revoked"),
        (&*expired.secret, "has expired"),
    ] {
        let answer = product.chat(key, &question("sim-chat", "hi")).answer().await;
        let message = check(&answer, 401, "invalid_api_key", Value::Null);
        assert!(message.contains(says), "{message}");
    }
    let other = Product::start().await;
    let foreign = other.member("bob").await.key().await.secret;
    let answer = product.chat(&foreign, &question("sim-chat", "hi")).answer().await;
    assert!(check(&answer, 401, "invalid_api_key", Value::Null).contains("unknown API key"));
    let basic = product.get("/v1/models").header("authorization", &format!("Basic {good}"));
    check(&basic.answer().await, 401, "invalid_api_key", Value::Null);
    let bare = product.get("/v1/models").answer().await;
    check(&bare, 401, "invalid_api_key", Value::Null);
    assert_eq!(product.get("/v1/models").bearer(&good).answer().await.status, 200);
}

#[tokio::test]
async fn errors_name_the_wrong_method_or_path() {
    let product = Product::start().await;
    let key = product.member("alice").await.key().await.secret;
    for (method, path, allow) in [
        (Method::GET, "/v1/chat/completions", "POST"),
        (Method::DELETE, "/v1/chat/completions", "POST"),
        (Method::POST, "/v1/models", "GET"),
        (Method::PUT, "/v1/models/sim-chat", "GET"),
    ] {
        let answer = product.request(method, path).bearer(&key).answer().await;
        check(&answer, 405, "method_not_allowed", Value::Null);
        assert_eq!(answer.header("allow"), allow);
    }
    for path in ["/", "/v1", "/v1/", "/v1/modelz", "/v2/chat/completions", "/v1/models/"] {
        let answer = product.get(path).bearer(&key).answer().await;
        let message = check(&answer, 404, "unknown_url", Value::Null);
        assert!(message.contains(&format!("`{path}`")), "{message}");
        check(&product.get(path).answer().await, 404, "unknown_url", Value::Null);
    }
    let answer = product.get("/v1/models/gpt-9").bearer(&key).answer().await;
    check(&answer, 404, "model_not_found", json!("model"));
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused() {
    let product = Product::with(|setup| setup.config.max_body_bytes = 1_000).await;
    let key = product.member("alice").await.key().await.secret;
    let fits = question("sim-chat", &"x".repeat(800));
    assert_eq!(product.chat(&key, &fits).answer().await.status, 200);
    let large = question("sim-chat", &"x".repeat(1_000));
    let message =
        check(&product.chat(&key, &large).answer().await, 413, "request_too_large", Value::Null);
    assert!(message.contains("1000 bytes"), "{message}");
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_before_it_has_arrived() {
    let product = Product::on_http1(|setup| setup.config.max_body_bytes = 1_000).await;
    let key = product.member("alice").await.key().await.secret;
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\nconnection: close\r\n"
    );
    // announced and never sent: the response must not wait for the body
    let announced = format!("{head}content-length: 99999999999\r\n\r\n");
    let answer = raw(product.http, announced.as_bytes()).await;
    assert!(answer.contains("request_too_large"), "{answer}");
    let piece = format!("100\r\n{}\r\n", "x".repeat(0x100)).repeat(5);
    let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n{piece}");
    let answer = raw(product.http, chunked.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains("request_too_large") && answer.contains("x-request-id: "), "{answer}");
}

#[tokio::test]
async fn a_body_of_another_content_type_is_refused() {
    let product = Product::start().await;
    let key = product.member("alice").await.key().await.secret;
    let body = question("sim-chat", "hi").to_string();
    for (name, value) in
        [("content-type", "multipart/form-data; boundary=x"), ("content-encoding", "gzip")]
    {
        let request = product.post("/v1/chat/completions").bearer(&key).header(name, value);
        let answer = request.body(body.clone()).answer().await;
        check(&answer, 415, "unsupported_media_type", Value::Null);
    }
    // common content types of careless clients; the form type is what `curl -d` sends
    let forms =
        ["text/plain", "application/json; charset=utf-8", "application/x-www-form-urlencoded"];
    for value in forms {
        let request =
            product.post("/v1/chat/completions").bearer(&key).header("content-type", value);
        assert_eq!(request.body(body.clone()).answer().await.status, 200);
    }
}

#[tokio::test]
async fn a_bad_body_is_refused_with_the_name_of_the_field() {
    let product = Product::start().await;
    let key = product.member("alice").await.key().await.secret;
    let deep = format!(r#"{{"model":"sim-chat","messages":{}"#, "[".repeat(100_000));
    let cases: Vec<(&[u8], &str, Value)> = vec![
        (b"", "invalid_json", Value::Null),
        (b"[]", "invalid_json", Value::Null),
        (b"null", "invalid_json", Value::Null),
        (b"{\"model\":", "invalid_json", Value::Null),
        (b"{\"model\":\"sim-chat\"} x", "invalid_json", Value::Null),
        (b"{\"model\":\"\xff\"}", "invalid_json", Value::Null),
        (deep.as_bytes(), "invalid_json", Value::Null),
        (b"{}", "missing_required_parameter", json!("model")),
        (b"{\"model\":\"\",\"messages\":[{}]}", "missing_required_parameter", json!("model")),
        (b"{\"model\":7,\"messages\":[{}]}", "invalid_type", json!("model")),
        (b"{\"model\":\"sim-chat\"}", "missing_required_parameter", json!("messages")),
        (b"{\"model\":\"sim-chat\",\"messages\":{}}", "invalid_type", json!("messages")),
        (b"{\"model\":\"sim-chat\",\"messages\":[ ]}", "invalid_value", json!("messages")),
        (
            b"{\"model\":\"sim-chat\",\"messages\":[{}],\"stream\":1}",
            "invalid_type",
            json!("stream"),
        ),
        (
            b"{\"model\":\"sim-chat\",\"messages\":[{}],\"max_tokens\":\"9\"}",
            "invalid_type",
            json!("max_tokens"),
        ),
        (
            b"{\"model\":\"sim-chat\",\"messages\":[{}],\"max_completion_tokens\":0}",
            "invalid_value",
            json!("max_completion_tokens"),
        ),
        (
            b"{\"model\":\"sim-chat\",\"messages\":[{}],\"stream\":true,\"stream_options\":7}",
            "invalid_type",
            json!("stream_options"),
        ),
    ];
    for (body, code, param) in cases {
        let request = product.post("/v1/chat/completions").bearer(&key).body(body.to_vec());
        check(&request.answer().await, 400, code, param);
    }
}

#[tokio::test]
async fn an_unread_field_may_be_nested_deeper_than_the_gateway_parses() {
    let product = Product::start().await;
    let key = product.member("alice").await.key().await.secret;
    let (open, close) = ("[".repeat(1_000), "]".repeat(1_000));
    let body = format!(r#"{{"model":"sim-chat","messages":[{{}}],"x":{open}{close}}}"#);
    let request = product.post("/v1/chat/completions").bearer(&key).body(body);
    let answer = request.answer().await;
    // the simulator refuses it
    assert_eq!((answer.status, &answer.error()["code"]), (400, &Value::Null));
    check_id(&answer);
}

#[tokio::test]
async fn a_model_outside_the_keys_list_is_forbidden() {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    let key = alice.key_with(|key| key.models = vec!["sim-chat".to_owned()]).await.secret;
    assert_eq!(product.chat(&key, &question("sim-chat", "hi")).answer().await.status, 200);
    let refused = product.chat(&key, &question("sim-reasoner", "hi")).answer().await;
    check(&refused, 403, "model_not_allowed", json!("model"));
    let list = product.get("/v1/models").bearer(&key).answer().await;
    assert!(!list.text().contains("sim-reasoner"), "{}", list.text());
    let shown = product.get("/v1/models/sim-reasoner").bearer(&key).answer().await;
    check(&shown, 403, "model_not_allowed", json!("model"));
}

#[tokio::test]
async fn malformed_http_is_answered_or_dropped_without_affecting_others() {
    let product = Product::on_http1(|_| {}).await;
    for bytes in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"POST / HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
    ] {
        raw(product.http, bytes).await;
    }
    assert_eq!(product.get("/healthz").answer().await.status, 200);
}
