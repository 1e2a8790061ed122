//! Upstream errors: the response to the client, and failover.

use proto::v1;
use serde_json::json;
use tests::http::Answer;
use tests::{Product, RawUpstream, closed_port, json_answer, priced_model, question, raw_answer};

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

#[tokio::test]
async fn a_busy_upstreams_retry_after_is_relayed() {
    let headers = "content-type: application/json\r\nretry-after: 7\r\n";
    let answer = |status| raw_answer(status, headers, &error_body("busy"));
    let refused = check(&answer(429), 429, "rate_limit_exceeded", "busy").await;
    assert_eq!(refused.header("retry-after"), "7");
    let refused = check(&answer(503), 503, "server_overloaded", "busy").await;
    assert_eq!(refused.header("retry-after"), "7");
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

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = RawUpstream::start().await;
    let location = format!("location: {}/chat/completions\r\n", elsewhere.url);
    for status in [301, 302, 307, 308] {
        let answer = check(&raw_answer(status, &location, ""), 502, "upstream_error", "").await;
        assert!(!answer.text().contains(&elsewhere.url), "{}", answer.text());
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
    let good = json_answer(
        200,
        r#"{"choices":[{"message":{"content":"from the last"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#,
    );
    let (answer, refused, served) = tokio::join!(
        product.chat(&key, &question("asked", "hi")).answer(),
        first.answer(json_answer(500, "")),
        second.answer(good),
    );
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.text().contains("from the last"));
    assert_eq!(refused.body, served.body);
    let record = alice.record().await;
    assert_eq!(record.deployment.as_deref(), Some("up-asked-2/upstream-model"));
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
