//! Promise 5: the end of a stream. Whatever an upstream sends, a client sees a complete answer only
//! if the upstream marked it as complete.

use proto::v1::{RequestRecord, RequestStatus};
use serde_json::{Value, json};
use tests::http::{Answer, text_of};
use tests::{Product, RawUpstream, Session, chunk, json_answer, question, raw_answer, stream_head};

const TEXT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"}}]}\n\n";
const FINISH: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";
const ENDPOINTS: [&str; 2] = ["/v1/chat/completions", "/v1/responses"];

struct TestContext {
    product: Product,
    upstream: RawUpstream,
    alice: Session,
    key: String,
}

async fn context() -> TestContext {
    let (product, upstream) = (Product::start().await, RawUpstream::start().await);
    product.operator().await.add_model_on("asked", &[&upstream.url]).await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    TestContext { product, upstream, alice, key }
}

fn body(endpoint: &str, stream: bool) -> Value {
    let mut body = if endpoint == ENDPOINTS[0] {
        question("asked", "hi")
    } else {
        json!({ "model": "asked", "input": "hi" })
    };
    body["stream"] = stream.into();
    body
}

impl TestContext {
    /// Sends a request that the upstream answers with these bytes.
    async fn answer(&self, endpoint: &str, stream: bool, sent: impl AsRef<[u8]>) -> Answer {
        let request = self.product.post(endpoint).bearer(&self.key).json(&body(endpoint, stream));
        let (answer, _) = tokio::join!(request.answer(), self.upstream.answer(sent));
        answer
    }

    /// Sends a request to both endpoints, each answered with the stream `events`. Returns the
    /// responses and their records.
    async fn streams(&self, events: &str) -> Vec<(Answer, RequestRecord)> {
        let before = self.alice.records(0).await.len();
        let mut answers = Vec::new();
        for endpoint in ENDPOINTS {
            let sent = format!("{}{}{}", stream_head(), chunk(events), chunk(""));
            answers.push(self.answer(endpoint, true, sent).await);
        }
        let records = self.alice.records(before + 2).await.split_off(before);
        answers.into_iter().zip(records).collect()
    }
}

/// Expects that neither endpoint accepts `events` as a complete answer.
async fn check_failed(context: &TestContext, events: &str, expected: &str) {
    for (answer, record) in context.streams(events).await {
        let text = answer.text();
        assert_eq!(record.status(), RequestStatus::Failed, "{events:?}: {record:?}");
        assert!(!text.contains("response.completed"), "{events:?}: {text}");
        assert!(text.contains(expected), "{events:?}: {text}");
        if answer.status != 200 {
            assert_eq!(answer.status, 502, "{events:?}: {answer:?}");
            continue;
        }
        if text.contains("event: response.created") {
            assert!(text.contains("event: response.failed"), "{events:?}: {text}");
        } else {
            assert!(!text.contains("[DONE]"), "{events:?}: {text}");
            let last = answer.events().pop().unwrap();
            let error: Value = serde_json::from_str(last.trim_start_matches("data: ")).unwrap();
            assert!(error["error"]["message"].is_string(), "{events:?}: {text}");
        }
    }
}

/// Expects that both endpoints accept `events` as a complete answer with the text `hello`.
async fn check_completed(context: &TestContext, events: &str) {
    for (answer, record) in context.streams(events).await {
        assert_eq!(record.status(), RequestStatus::Completed, "{events:?}: {answer:?}");
        let text = answer.text().replace("\r\n", "\n").replace('\r', "\n");
        assert!(text.trim_end().ends_with("[DONE]"), "{events:?}: {answer:?}");
        if answer.text().contains("event: response.created") {
            assert!(answer.text().contains("response.completed"), "{events:?}: {answer:?}");
            assert!(answer.text().contains("\"text\":\"hello\""), "{events:?}: {answer:?}");
        } else {
            let events: Vec<_> = text.split_terminator("\n\n").collect();
            assert_eq!(text_of(&events), "hello", "{events:?}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn an_end_marker_without_a_finish_reason_is_not_the_end() {
    let context = context().await;
    check_failed(&context, DONE, "not a chat answer").await;
    check_failed(&context, &format!("{TEXT}{DONE}"), "not a chat answer").await;
    let usage =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n";
    check_failed(&context, &format!("{TEXT}{usage}{DONE}"), "not a chat answer").await;
    // an empty reason in an earlier chunk is none
    let unnamed = TEXT.replace("}}]}", "},\"finish_reason\":\"\"}]}");
    check_failed(&context, &format!("{unnamed}{TEXT}{DONE}"), "not a chat answer").await;
    check_failed(&context, &unnamed, "").await;
    check_completed(&context, &format!("{unnamed}{DONE}")).await;
}

/// Regression test: the last event was not checked if it lacked its blank line.
#[tokio::test]
async fn a_last_event_without_its_blank_line_is_checked_like_others() {
    let context = context().await;
    check_completed(&context, format!("{TEXT}{FINISH}").trim_end()).await;
    let stray = FINISH.replace("\"index\":0", "\"index\":200");
    for end in ["\n\n", ""] {
        let events = format!("{TEXT}{FINISH}{}{end}", stray.trim_end());
        check_failed(&context, &events, "not a chat answer").await;
    }
    check_failed(&context, &format!("{TEXT}{FINISH}{}", &TEXT[..30]), "closed its answer").await;
}

#[tokio::test]
async fn an_error_before_the_end_marker_is_an_error() {
    let context = context().await;
    for error in [
        "data: {\"object\":\"error\",\"message\":\"out of memory\",\"code\":400}\n\n",
        "data: {\"message\":\"out of memory\"}\n\n",
        "event: error\ndata: {\"message\":\"out of memory\"}\n\n",
        "event: error\ndata: out of memory\n\n",
        "data: {\"error\":{\"message\":\"out of memory\"}}\n\n",
    ] {
        check_failed(&context, &format!("{error}{DONE}"), "out of memory").await;
        check_failed(&context, &format!("{TEXT}{error}{DONE}"), "out of memory").await;
        check_failed(&context, &format!("{TEXT}{FINISH}{error}{DONE}"), "out of memory").await;
    }
    check_failed(&context, &format!("{TEXT}event: error\n\n{DONE}"), "").await;
    let broken = FINISH.replace("stop", "error");
    check_failed(&context, &format!("{TEXT}{broken}{DONE}"), "broke its answer off").await;
    check_failed(&context, &format!("{TEXT}{broken}"), "broke its answer off").await;
}

#[tokio::test]
async fn an_empty_or_failing_finish_reason_is_not_the_end() {
    let context = context().await;
    for reason in [r#""null""#, r#""none""#, "false", "0", "{}"] {
        let unfinished = FINISH.replace(r#""stop""#, reason);
        check_failed(&context, &format!("{TEXT}{unfinished}"), "").await;
        check_failed(&context, &format!("{TEXT}{unfinished}{DONE}"), "not a chat answer").await;
    }
    for reason in ["network_error", "TIMEOUT", "cancelled", "insufficient_system_resource"] {
        let broken = FINISH.replace("stop", reason);
        check_failed(&context, &format!("{TEXT}{broken}{DONE}"), "broke its answer off").await;
    }
    let failed = FINISH.replace(r#""delta""#, r#""error":{"message":"boom"},"delta""#);
    check_failed(&context, &format!("{TEXT}{failed}{DONE}"), "broke its answer off").await;
}

#[tokio::test]
async fn an_error_beside_the_choices_of_a_plain_answer_is_an_error() {
    let context = context().await;
    let choice = r#"{"index":0,"message":{"content":"hello"},"finish_reason":"stop"}"#;
    for (endpoint, body) in ENDPOINTS.into_iter().flat_map(|endpoint| {
        [
            format!(r#"{{"error":{{"message":"boom"}},"choices":[{choice}]}}"#),
            format!(r#"{{"object":"error","message":"boom","choices":[{choice}]}}"#),
            format!(r#"{{"choices":[{}]}}"#, choice.replace("stop", "error")),
            format!(r#"{{"choices":[{}]}}"#, choice.replacen('{', r#"{"error":{},"#, 1)),
        ]
        .map(|body| (endpoint, body))
    }) {
        let before = context.alice.records(0).await.len();
        let answer = context.answer(endpoint, false, json_answer(200, &body)).await;
        assert_eq!(answer.status, 502, "{body}: {answer:?}");
        let record = context.alice.records(before + 1).await.pop().unwrap();
        assert_eq!(record.status(), RequestStatus::Failed, "{body}: {record:?}");
    }
    let none = format!(r#"{{"error":null,"choices":[{choice}]}}"#);
    let answer = context.answer(ENDPOINTS[0], false, json_answer(200, &none)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[tokio::test]
async fn a_stream_that_ends_before_all_choices_finish_is_incomplete() {
    let context = context().await;
    let mut body = body(ENDPOINTS[0], true);
    body["n"] = 3.into();
    for (end, status) in [("", RequestStatus::Failed), (DONE, RequestStatus::Completed)] {
        let before = context.alice.records(0).await.len();
        let sent =
            format!("{}{}{}", stream_head(), chunk(&format!("{TEXT}{FINISH}{end}")), chunk(""));
        let request = context.product.chat(&context.key, &body);
        let (answer, _) = tokio::join!(request.answer(), context.upstream.answer(sent));
        let record = context.alice.records(before + 1).await.pop().unwrap();
        assert_eq!(record.status(), status, "{end:?}: {answer:?}");
        assert_eq!(answer.text().contains("[DONE]"), end == DONE, "{answer:?}");
    }
    body["n"] = 129.into();
    let refused = context.product.chat(&context.key, &body).answer().await;
    assert_eq!((refused.status, &refused.error()["param"]), (400, &json!("n")), "{refused:?}");
}

#[tokio::test]
async fn a_valid_stream_is_complete_in_every_notation() {
    let context = context().await;
    for end in ["data: [DONE] \n\n", "data: [DONE]\r\n\r\n", "data:[DONE]\n\n", "data: [DONE]"] {
        check_completed(&context, &format!("{TEXT}{FINISH}{end}")).await;
    }
    for idle in ["data:\n\n", "data: \n\n", "data\n\n", ": idle\n\n", "event: ping\ndata:\n\n"] {
        check_completed(&context, &format!("{idle}{TEXT}{idle}{FINISH}{idle}{DONE}")).await;
    }
    check_completed(&context, &format!("\u{feff}{TEXT}{FINISH}{DONE}")).await;
    check_completed(&context, &format!("{TEXT}{FINISH}{DONE}").replace('\n', "\r\n")).await;
    check_completed(&context, &format!("{TEXT}{FINISH}{DONE}").replace('\n', "\r")).await;
    // the usage chunk of some servers contains a choice, without a reason
    let usage = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":null}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n";
    check_completed(&context, &format!("{TEXT}{FINISH}{usage}{DONE}")).await;
}

#[tokio::test]
async fn an_unrequested_content_encoding_is_an_invalid_answer() {
    let context = context().await;
    let gzip: &[u8] = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xab\xae\x05\x00";
    for endpoint in ENDPOINTS {
        for (stream, kind) in [(true, "text/event-stream"), (false, "application/json")] {
            for declared in ["content-encoding: gzip\r\n", "content-encoding: br\r\n", ""] {
                let head = format!(
                    "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: {kind}\r\n{declared}content-length: {}\r\n\r\n",
                    gzip.len()
                );
                let sent = [head.as_bytes(), gzip].concat();
                let answer = context.answer(endpoint, stream, sent).await;
                assert_eq!(answer.status, 502, "{endpoint} {stream} {declared}: {answer:?}");
                assert_eq!(answer.error()["code"], "upstream_invalid_response", "{answer:?}");
            }
        }
    }
    let plain = json!({ "choices": [{ "message": { "content": "hi" }, "finish_reason": "stop" }] });
    let extra = "content-type: application/json\r\ncontent-encoding: identity\r\n";
    let answer =
        context.answer(ENDPOINTS[0], false, raw_answer(200, extra, &plain.to_string())).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    // an encoded error body is not taken for text either
    let head = "HTTP/1.1 400 Bad\r\nconnection: close\r\ncontent-encoding: gzip\r\ncontent-length: 14\r\n\r\n";
    let answer = context.answer(ENDPOINTS[0], false, [head.as_bytes(), gzip].concat()).await;
    assert!(answer.status == 400 && !answer.text().contains('\u{fffd}'), "{answer:?}");
}

#[tokio::test]
async fn an_encoded_answer_causes_failover() {
    let product = Product::start().await;
    let (first, second) = (RawUpstream::start().await, RawUpstream::start().await);
    product.operator().await.add_model_on("asked", &[&first.url, &second.url]).await;
    let key = product.member("alice").await.key().await.secret;
    let extra = "content-type: application/json\r\ncontent-encoding: gzip\r\n";
    let plain = json!({ "choices": [{ "message": { "content": "hi" }, "finish_reason": "stop" }] });
    let (answer, call, _) = tokio::join!(
        product.chat(&key, &question("asked", "hi")).answer(),
        first.answer(raw_answer(200, extra, "x")),
        second.answer(json_answer(200, &plain.to_string())),
    );
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(call.header("accept-encoding"), Some("identity"));
}

#[tokio::test]
async fn an_invalid_plain_answer_is_a_bad_gateway() {
    let context = context().await;
    let broken =
        json!({ "choices": [{ "message": { "content": "hi" }, "finish_reason": "error" }] });
    for endpoint in ENDPOINTS {
        for (body, expected) in [
            (r#"{"object":"error","message":"out of memory","code":400}"#, "out of memory"),
            (r#"{"message":"out of memory"}"#, "out of memory"),
            (&broken.to_string(), "broke its answer off"),
        ] {
            let answer = context.answer(endpoint, false, json_answer(200, body)).await;
            assert_eq!(answer.status, 502, "{endpoint}: {answer:?}");
            assert!(answer.text().contains(expected), "{endpoint}: {answer:?}");
        }
        let marked =
            "\u{feff}{\"choices\":[{\"message\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}";
        let answer = context.answer(endpoint, false, json_answer(200, marked)).await;
        assert_eq!(answer.status, 200, "{endpoint}: {answer:?}");
    }
    let records = context.alice.records(8).await;
    let failed = records.iter().filter(|it| it.status() == RequestStatus::Failed).count();
    assert_eq!(failed, 6, "{records:#?}");
}
