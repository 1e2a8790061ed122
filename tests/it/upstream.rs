//! Upstream errors: the response to the client, and failover.

use std::num::NonZeroUsize;

use proto::v1;
use serde_json::json;
use tests::http::Answer;
use tests::{
    Product, RawUpstream, chunk, closed_port, json_answer, priced_model, question, raw_answer,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Has an upstream send `sent`, and returns the client's response.
async fn response_to(sent: &str) -> Answer {
    let (product, upstream) = (Product::start().await, RawUpstream::start().await);
    product.operator().await.add_model_on("asked", &[&upstream.url]).await;
    let key = product.member("alice").await.key().await.secret;
    let request = product.chat(&key, &question("asked", "hi"));
    let (answer, _) = tokio::join!(request.answer(), upstream.answer(sent));
    answer
}

/// Expects this status and code, and `text` in the message.
async fn check(sent: &str, status: u16, code: &str, text: &str) -> Answer {
    let answer = response_to(sent).await;
    let error = answer.error();
    assert_eq!((answer.status, error["code"].as_str()), (status, Some(code)), "{sent}: {answer:?}");
    assert!(error["message"].as_str().unwrap().contains(text), "{error}");
    answer
}

fn error_body(message: &str) -> String {
    json!({ "error": { "message": message, "type": "t", "param": "messages", "code": "its_code" } })
        .to_string()
}

#[tokio::test]
async fn an_error_about_the_request_is_relayed() {
    let body = error_body("context is 4096 tokens");
    for status in [400, 404, 422] {
        let answer = check(&json_answer(status, &body), status, "its_code", "4096 tokens").await;
        assert_eq!(answer.error()["param"], "messages");
        assert_eq!(answer.error()["type"], "invalid_request_error");
    }
}

#[tokio::test]
async fn an_error_about_the_gateways_credential_is_not_relayed() {
    let body = error_body("incorrect API key provided: sk-up…9f");
    for status in [401, 403] {
        let answer = check(&json_answer(status, &body), 502, "upstream_error", "operator").await;
        assert_eq!(answer.header("x-should-retry"), "false");
        assert!(!answer.text().contains("sk-up"), "{}", answer.text());
    }
}

/// An upstream that repeats its credential in an error about the request, at once or in the middle of a stream.
#[tokio::test]
async fn the_credential_of_an_upstream_is_removed_from_its_errors() {
    const SECRET: &str = "correct.horse.battery";
    let (product, upstream) = (Product::start().await, RawUpstream::start().await);
    let operator = product.operator().await;
    operator.add_model_on("asked", &[&upstream.url]).await;
    let source = v1::credential::Source::Secret(SECRET.to_owned());
    let request = v1::UpdateUpstreamRequest {
        name: "up-asked-0".to_owned(),
        credential: Some(v1::Credential { source: Some(source) }),
        ..Default::default()
    };
    operator.upstreams().update_upstream(request).await.unwrap();
    let key = product.member("alice").await.key().await.secret;

    let said = error_body(&format!("`{SECRET}` or sk-proj-0123456789 may not do this"));
    let request = product.chat(&key, &question("asked", "hi"));
    let (answer, call) = tokio::join!(request.answer(), upstream.answer(json_answer(400, &said)));
    assert!(call.head.contains(&format!("authorization: Bearer {SECRET}")), "{}", call.head);
    let message = answer.error()["message"].as_str().unwrap().to_owned();
    assert_eq!(message, "`[redacted]` or [redacted] may not do this");

    let mut body = question("asked", "hi");
    body["stream"] = json!(true);
    for path in ["/v1/chat/completions", "/v1/responses"] {
        let body = match path {
            "/v1/responses" => json!({ "model": "asked", "input": "hi", "stream": true }),
            _ => body.clone(),
        };
        let breaking = async {
            let mut call = upstream.begin_stream().await;
            call.send(chunk(&format!("data: {said}\n\n"))).await;
            call.finish().await;
        };
        let (answer, ()) =
            tokio::join!(product.post(path).bearer(&key).json(&body).answer(), breaking);
        let text = answer.text();
        assert!(text.contains("[redacted]") && !text.contains(SECRET), "{text}");
    }
}

#[tokio::test]
async fn a_demand_for_payment_is_not_relayed() {
    let body = error_body("account org-123 has no credit");
    let answer = check(&json_answer(402, &body), 502, "upstream_error", "operator").await;
    assert!(!answer.text().contains("org-123"), "{}", answer.text());
}

#[tokio::test]
async fn an_implausible_retry_after_is_not_relayed() {
    for value in ["-5", "99999999999", "86401", "soon"] {
        let headers = format!("content-type: application/json\r\nretry-after: {value}\r\n");
        let sent = raw_answer(429, &headers, &error_body("busy"));
        let refused = check(&sent, 429, "rate_limit_exceeded", "busy").await;
        assert_eq!(refused.headers.get("retry-after"), None, "{value}");
    }
}

#[tokio::test]
async fn a_busy_upstreams_retry_after_is_relayed() {
    let headers = "content-type: application/json\r\nretry-after: 7\r\n";
    let answer = |status| raw_answer(status, headers, &error_body("busy"));
    let refused = check(&answer(429), 429, "rate_limit_exceeded", "busy").await;
    assert_eq!(refused.header("retry-after"), "7");
    let refused = check(&answer(503), 503, "server_overloaded", "busy").await;
    assert_eq!(refused.header("retry-after"), "7");
    let headers = "content-type: application/json\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
        retry-after: Sun, 06 Nov 1994 08:49:46 GMT\r\n";
    let sent = raw_answer(429, headers, &error_body("busy"));
    let refused = check(&sent, 429, "rate_limit_exceeded", "busy").await;
    assert_eq!(refused.header("retry-after"), "9");
}

/// Regression test: hyper read an endless row of interim answers in one poll, and the worker served nothing else
/// meanwhile.
#[tokio::test]
async fn endless_interim_answers_end_the_request() {
    let (product, upstream) = (Product::start().await, RawUpstream::start().await);
    product.operator().await.add_model_on("asked", &[&upstream.url]).await;
    let key = product.member("alice").await.key().await.secret;
    let request = product.chat(&key, &question("asked", "hi"));
    let flood = async {
        let mut call = upstream.call().await;
        let hints = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".repeat(1_000);
        while call.try_send(&hints).await {}
    };
    let (answer, ()) = tokio::join!(request.answer(), flood);
    let error = answer.error();
    assert_eq!(
        (answer.status, error["code"].as_str()),
        (502, Some("upstream_unreachable")),
        "{error}"
    );
}

#[tokio::test]
async fn a_failing_upstream_is_a_bad_gateway() {
    check(&json_answer(500, &error_body("out of memory")), 502, "upstream_error", "out of memory")
        .await;
    check(
        &json_answer(500, "{\"detail\":\"out of memory\"}"),
        502,
        "upstream_error",
        "out of memory",
    )
    .await;
    check(&json_answer(500, ""), 502, "upstream_error", "HTTP 500").await;
    check(&json_answer(504, ""), 504, "upstream_timeout", "504").await;
}

#[tokio::test]
async fn an_invalid_chat_answer_is_not_relayed() {
    let html = "content-type: text/html\r\n";
    let page = "<html><body>private page</body></html>";
    let invalid = "upstream_invalid_response";
    for sent in [
        raw_answer(200, html, page),
        json_answer(200, page),
        json_answer(200, "{\"choices\":[]}"),
        json_answer(200, "[]"),
        json_answer(200, "{\"choices\":[{\"message\":{\"content\":\"h"),
    ] {
        let answer = check(&sent, 502, invalid, "").await;
        assert!(!answer.text().contains("private page"), "{}", answer.text());
    }
    check(&raw_answer(500, html, page), 502, "upstream_error", "").await;
}

/// Regression test: any status from 200 to 299 was a success.
#[tokio::test]
async fn a_status_other_than_200_is_no_success() {
    let body = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;
    for status in [201, 202, 203, 206, 226] {
        check(&json_answer(status, body), 502, "upstream_invalid_response", "").await;
    }
    for status in [204, 205] {
        check(&json_answer(status, ""), 502, "upstream_invalid_response", "").await;
    }
}

/// A plain answer whose server does not say that the model was done. Regression test: it was `completed`.
#[tokio::test]
async fn a_plain_answer_without_a_finish_reason_is_not_completed() {
    let (product, upstream) = (Product::start().await, RawUpstream::start().await);
    product.operator().await.add_model_on("asked", &[&upstream.url]).await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    let chat = question("asked", "hi");
    let response = json!({ "model": "asked", "input": "hi" });
    let stopped = r#"{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}"#;
    let open = r#"{"index":0,"message":{"content":"hi"}}"#;
    let open_too = r#"{"index":1,"message":{"content":"hi"},"finish_reason":null}"#;
    let mut requests = 0;
    for (choices, status, recorded) in [
        (stopped.to_owned(), 200, "completed"),
        (stopped.replace("stop", ""), 200, "completed"),
        (open.to_owned(), 200, "incomplete"),
        (format!("{stopped},{open_too}"), 200, "incomplete"),
        (r#"{"index":0}"#.to_owned(), 200, "incomplete"),
        (open.replace("hi", ""), 200, "incomplete"),
        (String::new(), 502, "failed"),
    ] {
        for (path, body) in [("/v1/chat/completions", &chat), ("/v1/responses", &response)] {
            let request = product.post(path).bearer(&key).json(body);
            let sent = json_answer(200, &format!(r#"{{"choices":[{choices}]}}"#));
            let (answer, _) = tokio::join!(request.answer(), upstream.answer(sent));
            assert_eq!(answer.status, status, "{path}, {choices}: {}", answer.text());
            requests += 1;
            let record = alice.records(requests).await.pop().unwrap();
            let is_other_choice = path == "/v1/responses" && choices.contains("\"index\":1");
            if is_other_choice {
                // A response has the first choice only.
                continue;
            }
            let name = record.status().as_str_name().to_ascii_lowercase();
            assert!(name.ends_with(recorded), "{path}, {choices}: {name}");
            if path == "/v1/responses" && status == 200 {
                assert_eq!(answer.json()["status"], recorded, "{choices}");
            }
        }
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = RawUpstream::start().await;
    let location = format!("location: {}/chat/completions\r\n", elsewhere.url);
    for status in [301, 302, 307, 308] {
        let redirect = raw_answer(status, &location, "");
        let answer = check(&redirect, 502, "upstream_unreachable", "misconfigured").await;
        assert_eq!(answer.header("x-should-retry"), "false");
        assert!(!answer.text().contains(&elsewhere.url), "{}", answer.text());
    }
}

#[tokio::test]
async fn a_redirect_fails_over_and_the_operator_sees_where_to() {
    for (location, shown) in [
        (
            "location: https://user:secret@b.example:444/secret?key=secret\r\n",
            "https://b.example:444",
        ),
        ("location: /v1/secret\r\n", "HTTP 308, a redirect;"),
        ("", "HTTP 308, a redirect;"),
    ] {
        let product = Product::start().await;
        let (first, second) = (RawUpstream::start().await, RawUpstream::start().await);
        let operator = product.operator().await;
        operator.add_model_on("asked", &[&first.url, &second.url]).await;
        let key = product.member("alice").await.key().await.secret;
        let (answer, ..) = tokio::join!(
            product.chat(&key, &question("asked", "hi")).answer(),
            first.answer(raw_answer(308, location, "")),
            second.answer(good_answer()),
        );
        assert_eq!(answer.status, 200, "{answer:?}");
        let request = v1::ListUpstreamHealthRequest {};
        let health = operator.traffic().list_upstream_health(request).await.unwrap().into_inner();
        let health = health.upstreams.iter().find(|it| it.name == "up-asked-0").unwrap();
        assert!(health.last_error.contains(shown), "{health:?}");
        assert!(!health.last_error.contains("secret"), "{health:?}");
    }
}

#[tokio::test]
async fn an_unreachable_upstream_is_a_bad_gateway() {
    let product = Product::start().await;
    product.operator().await.add_model_on("asked", &[&closed_port().await]).await;
    let key = product.member("alice").await.key().await.secret;
    let answer = product.chat(&key, &question("asked", "hi")).answer().await;
    assert_eq!((answer.status, &answer.error()["code"]), (502, &json!("upstream_unreachable")));
}

#[tokio::test]
async fn the_next_deployment_is_tried_when_one_fails_before_it_answers() {
    let product = Product::start().await;
    let (first, second) = (RawUpstream::start().await, RawUpstream::start().await);
    let urls = [&*closed_port().await, &first.url, &second.url];
    product.operator().await.add_model_on("asked", &urls).await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    let (answer, refused, served) = tokio::join!(
        product.chat(&key, &question("asked", "hi")).answer(),
        first.answer(json_answer(500, "")),
        second.answer(good_answer()),
    );
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.text().contains("from the last"));
    assert_eq!(refused.body, served.body);
    let record = alice.record().await;
    assert_eq!(record.deployment.as_deref(), Some("up-asked-2/upstream-model"));
}

/// A plain answer that says "from the last".
fn good_answer() -> String {
    json_answer(
        200,
        r#"{"choices":[{"message":{"content":"from the last"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#,
    )
}

#[tokio::test]
async fn the_next_deployment_is_tried_when_one_demands_payment_or_lacks_the_model() {
    let product = Product::start().await;
    let (first, second) = (RawUpstream::start().await, RawUpstream::start().await);
    product.operator().await.add_model_on("asked", &[&first.url, &second.url]).await;
    let key = product.member("alice").await.key().await.secret;
    for status in [402, 404] {
        let (answer, _, _) = tokio::join!(
            product.chat(&key, &question("asked", "hi")).answer(),
            first.answer(json_answer(status, &error_body("its own text"))),
            second.answer(good_answer()),
        );
        assert_eq!(answer.status, 200, "{status}: {answer:?}");
    }
}

/// Regression test: a server that accepted connections but did not greet cost the deadline for the first byte, and
/// the request failed.
#[tokio::test]
async fn the_next_deployment_is_tried_when_one_is_silent() {
    let product = Product::start().await;
    let operator = product.operator().await;
    let (silent, good) = (RawUpstream::start().await, RawUpstream::start().await);
    let deaf = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let deaf_url = format!("https://{}/v1", deaf.local_addr().unwrap());
    let urls = [&*deaf_url, &silent.url, &good.url];
    operator.add_model_on("asked", &urls).await;
    for (name, deadlines) in [
        ("up-asked-0", v1::Deadlines { connect_ms: Some(50), ..Default::default() }),
        ("up-asked-1", v1::Deadlines { first_byte_ms: Some(50), ..Default::default() }),
    ] {
        let request = v1::UpdateUpstreamRequest {
            name: name.to_owned(),
            deadlines: Some(deadlines),
            ..Default::default()
        };
        operator.upstreams().update_upstream(request).await.unwrap();
    }
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    let request = product.chat(&key, &question("asked", "hi"));
    let (answer, _) = tokio::join!(request.answer(), good.answer(good_answer()));
    assert_eq!(answer.status, 200, "{answer:?}");
    let record = alice.record().await;
    assert_eq!(record.deployment.as_deref(), Some("up-asked-2/upstream-model"));
    // Each attempt that failed is on the record, with its error and its time.
    let attempts: Vec<_> = record.notes.iter().map(|note| note.rsplit_once(':').unwrap()).collect();
    let failed: Vec<_> = attempts.iter().map(|(attempt, _)| *attempt).collect();
    assert_eq!(
        failed,
        [
            "failed_attempt=up-asked-0/upstream-model:connect_timeout",
            "failed_attempt=up-asked-1/upstream-model:first_byte_timeout"
        ]
    );
    for (_, took) in attempts {
        let millis: u64 = took.strip_suffix("ms").unwrap().parse().unwrap();
        assert!(millis >= 50, "{took}");
    }
}

/// Regression test: a request between two steps of a change sent the new credential to the old address, and a
/// rotated credential file was read without its users.
#[tokio::test]
async fn a_credential_is_sent_to_its_own_address_only_and_a_rotated_one_is_used() {
    let product = Product::start().await;
    let operator = product.operator().await;
    let (old, new) = (RawUpstream::start().await, RawUpstream::start().await);
    let file = product.home.scratch().join("credential");
    std::fs::write(&file, "sk-one").unwrap();
    operator.add_model_on("asked", &[&old.url]).await;
    let update = async |url: &str| {
        let source = v1::credential::Source::File(file.display().to_string());
        let request = v1::UpdateUpstreamRequest {
            name: "up-asked-0".to_owned(),
            url: Some(url.to_owned()),
            credential: Some(v1::Credential { source: Some(source) }),
            ..Default::default()
        };
        operator.upstreams().update_upstream(request).await.unwrap();
    };
    let key = product.member("alice").await.key().await.secret;
    let sent_to = async |upstream: &RawUpstream| {
        let request = product.chat(&key, &question("asked", "hi"));
        let (answer, call) = tokio::join!(request.answer(), upstream.answer(good_answer()));
        assert_eq!(answer.status, 200, "{answer:?}");
        let head = call.head.to_ascii_lowercase();
        let line = head.lines().find(|line| line.starts_with("authorization:"));
        line.unwrap().to_owned()
    };
    update(&old.url).await;
    assert_eq!(sent_to(&old).await, "authorization: bearer sk-one");
    std::fs::write(&file, "sk-two").unwrap();
    // Any change reads the files again.
    operator.add_model_on("other", &[&new.url]).await;
    assert_eq!(sent_to(&old).await, "authorization: bearer sk-two");
    update(&new.url).await;
    assert_eq!(sent_to(&new).await, "authorization: bearer sk-two");
}

#[tokio::test]
async fn an_error_about_the_request_causes_no_failover() {
    let product = Product::start().await;
    let (first, second) = (RawUpstream::start().await, RawUpstream::start().await);
    product.operator().await.add_model_on("asked", &[&first.url, &second.url]).await;
    let key = product.member("alice").await.key().await.secret;
    let request = product.chat(&key, &question("asked", "hi"));
    let (answer, _) =
        tokio::join!(request.answer(), first.answer(json_answer(400, &error_body("bad"))));
    assert_eq!(answer.status, 400);
}

/// Regression test: the error for the client said that the gateway is misconfigured.
#[tokio::test]
async fn a_removed_deployment_does_not_hide_the_error_of_one_that_was_tried() {
    let (product, upstream) = (Product::start().await, RawUpstream::start().await);
    let operator = product.operator().await;
    operator.add_model_on("asked", &[&upstream.url, &closed_port().await]).await;
    let key = product.member("alice").await.key().await.secret;
    let remove_second = async {
        let mut call = upstream.call().await;
        let model = priced_model("asked", &[("up-asked-0", "upstream-model")]);
        let request = v1::UpdateModelRequest {
            id: "asked".to_owned(),
            deployments: Some(v1::DeploymentList { deployments: model.deployments }),
            ..Default::default()
        };
        operator.models().update_model(request).await.unwrap();
        let request = v1::RemoveUpstreamRequest { name: "up-asked-1".to_owned() };
        operator.upstreams().remove_upstream(request).await.unwrap();
        call.send(json_answer(500, &error_body("out of memory"))).await;
    };
    let request = product.chat(&key, &question("asked", "hi"));
    let (answer, ()) = tokio::join!(request.answer(), remove_second);
    let error = answer.error();
    assert_eq!((answer.status, &error["code"]), (502, &json!("upstream_error")), "{answer:?}");
}

#[tokio::test]
async fn a_missing_credential_is_reported_to_the_operator_only() {
    let product = Product::start().await;
    let operator = product.operator().await;
    operator.add_model_on("asked", &[&closed_port().await]).await;
    let source = v1::credential::Source::Env("TOLLGATE_TEST_NO_SUCH".to_owned());
    let request = v1::UpdateUpstreamRequest {
        name: "up-asked-0".to_owned(),
        credential: Some(v1::Credential { source: Some(source) }),
        ..Default::default()
    };
    let changed = operator.upstreams().update_upstream(request).await.unwrap().into_inner();
    assert!(changed.upstream.unwrap().problem.contains("`TOLLGATE_TEST_NO_SUCH` is not set"));
    let key = product.member("alice").await.key().await.secret;
    let answer = product.chat(&key, &question("asked", "hi")).answer().await;
    assert_eq!((answer.status, answer.header("x-should-retry")), (502, "false"));
    assert!(!answer.text().contains("NO_SUCH"), "{}", answer.text());
}

/// Reads a request from a connection that stays open.
async fn read_request(connection: &mut TcpStream) {
    let mut read = Vec::new();
    while !read.ends_with(b"}") {
        assert_ne!(connection.read_buf(&mut read).await.unwrap(), 0);
    }
}

/// Regression test: a request that was sent twice was recorded as one attempt, although the upstream may have received
/// the first one.
#[tokio::test]
async fn both_transmissions_of_a_request_are_recorded() {
    // The connections to an upstream belong to a worker.
    let product = Product::with(|setup| setup.config.workers = NonZeroUsize::MIN).await;
    let upstream = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", upstream.local_addr().unwrap());
    product.operator().await.add_model_on("asked", &[&url]).await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    let answer = good_answer().replace("connection: close\r\n", "");
    let first = product.chat(&key, &question("asked", "hi"));
    let serve = async {
        let (mut connection, _) = upstream.accept().await.unwrap();
        read_request(&mut connection).await;
        connection.write_all(answer.as_bytes()).await.unwrap();
        connection
    };
    let (answered, mut connection) = tokio::join!(first.answer(), serve);
    assert_eq!(answered.status, 200);
    assert!(alice.record().await.notes.is_empty());
    // The idle connection takes the next request and is lost.
    let second = product.chat(&key, &question("asked", "hi"));
    let lose = async {
        read_request(&mut connection).await;
        drop(connection);
        let (mut connection, _) = upstream.accept().await.unwrap();
        read_request(&mut connection).await;
        connection.write_all(answer.as_bytes()).await.unwrap();
        connection
    };
    let (answered, mut connection) = tokio::join!(second.answer(), lose);
    assert_eq!(answered.status, 200);
    let expected = "failed_attempt=up-asked-0/upstream-model:connection_lost:";
    let notes = alice.records(2).await.pop().unwrap().notes;
    assert!(matches!(&notes[..], [note] if note.starts_with(expected)), "{notes:?}");
    // So it is if the client disconnects before the second transmission is answered.
    let third = product.chat(&key, &question("asked", "hi")).send();
    let lose = async {
        read_request(&mut connection).await;
        drop(connection);
        let (mut connection, _) = upstream.accept().await.unwrap();
        read_request(&mut connection).await;
        connection
    };
    let mut connection = tokio::select! {
        _ = third => unreachable!("no answer was sent"),
        connection = lose => connection,
    };
    let mut rest = [0; 1];
    assert!(matches!(connection.read(&mut rest).await, Ok(0) | Err(_)), "the gateway disconnects");
    let notes = alice.records(3).await.pop().unwrap().notes;
    assert!(notes[0].starts_with(expected), "{notes:?}");
}
