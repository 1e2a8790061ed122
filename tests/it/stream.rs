//! Promise 5: chat streams are relayed as they arrive and never end as complete when they are not.

use serde_json::{Value, json};
use tests::http::text_of;
use tests::{Product, RawUpstream, Session, chunk, question, stream_head};

const FINISH: &str = r#""finish_reason":"stop"}]}"#;
/// A recorded stream.
const RECORDED: &str = concat!(
    ": ready\n\n",
    "data: {\"id\":\"c\",\"model\":\"upstream-model\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"c\",\"model\":\"upstream-model\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"h\\u00e9 é\"}}]}\n\n",
    "data: {\"id\":\"c\",\"model\":\"upstream-model\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"id\":\"c\",\"model\":\"upstream-model\",\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5}}\n\n",
    "data: [DONE]\n\n",
);

fn streamed(model: &str, text: &str) -> Value {
    let mut body = question(model, text);
    body["stream"] = json!(true);
    body
}

async fn product() -> (Product, RawUpstream, String) {
    let (product, upstream) = (Product::start().await, RawUpstream::start().await);
    product.operator().await.add_model_on("asked", &[&upstream.url]).await;
    let key = product.member("alice").await.key().await.secret;
    (product, upstream, key)
}

#[tokio::test]
async fn events_are_relayed_as_they_arrive() {
    let (product, upstream, key) = product().await;
    let events: Vec<_> = RECORDED.split_inclusive("\n\n").collect();
    let (mut call, mut answer) = {
        let begin = async {
            let mut call = upstream.call().await;
            call.send(format!("{}{}", stream_head(), chunk(events[0]))).await;
            call
        };
        tokio::join!(begin, product.chat(&key, &streamed("asked", "hi")).send())
    };
    assert_eq!(answer.headers["content-type"], "text/event-stream; charset=utf-8");
    assert_eq!(answer.event().await.unwrap(), ": ready");
    for event in &events[1..4] {
        // the upstream sends no further byte before the client has this event
        call.send(chunk(event)).await;
        let expected = event.trim_end().replace("upstream-model", "asked");
        assert_eq!(answer.event().await.unwrap(), expected);
    }
    call.send(chunk(&events[4..].concat()) + &chunk("")).await;
    assert_eq!(answer.events().await, ["data: [DONE]"], "usage was not requested");
}

#[tokio::test]
async fn a_stream_in_one_read_is_relayed_and_recorded() {
    let (product, upstream, key) = product().await;
    let whole = format!("{}{}{}", stream_head(), chunk(RECORDED), chunk(""));
    let request = product.chat(&key, &streamed("asked", "hi"));
    let (answer, _) = tokio::join!(request.answer(), upstream.answer(whole));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.events().last(), Some(&"data: [DONE]"));
    let record = Session::sign_in(&product.admin, "alice").await.record().await;
    assert_eq!(record.status(), proto::v1::RequestStatus::Completed, "{record:?}");
    assert_eq!(record.http_status, Some(200));
    assert_eq!(record.tokens.unwrap().output, Some(2));
}

#[tokio::test]
async fn the_usage_chunk_is_sent_only_if_requested() {
    let product = Product::start().await;
    let key = product.member("alice").await.key().await.secret;
    let mut body = streamed("sim-chat", "hi");
    let without = product.chat(&key, &body).answer().await;
    assert!(!without.text().contains("prompt_tokens"), "{}", without.text());
    body["stream_options"] = json!({ "include_usage": true });
    let with = product.chat(&key, &body).answer().await;
    let usage: Vec<_> =
        with.events().into_iter().filter(|it| it.contains("prompt_tokens")).collect();
    assert_eq!(usage.len(), 1, "{}", with.text());
    assert!(usage[0].contains(r#""choices":[]"#), "{}", usage[0]);
}

#[tokio::test]
async fn a_stream_has_the_same_text_as_a_plain_answer() {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    let models = ["sim-chat", "sim-reasoner"];
    for model in models {
        let plain = product.chat(&key, &question(model, "tell me")).answer().await.json();
        let stream = product.chat(&key, &streamed(model, "tell me")).answer().await;
        assert_eq!(plain["choices"][0]["message"]["content"], text_of(&stream.events()));
    }
    let records = alice.records(4).await;
    for pair in records.chunks(2) {
        assert_eq!((pair[0].stream, pair[1].stream), (false, true));
        assert_eq!(pair[0].tokens, pair[1].tokens);
        assert_eq!(pair[0].cost_usd, pair[1].cost_usd);
        assert!(pair[0].tokens.unwrap().output.unwrap() > 0);
    }
}

/// Cuts the recorded stream at every byte. Without `chunked`, HTTP does not show that the stream is
/// truncated.
async fn check_cuts(chunked: bool) {
    let (product, upstream, key) = product().await;
    let head = if chunked {
        stream_head()
    } else {
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n"
    };
    for at in 0..RECORDED.len() {
        let sent = &RECORDED.as_bytes()[..at];
        let mut bytes = head.as_bytes().to_vec();
        if chunked {
            bytes.extend(format!("{at:x}\r\n").into_bytes());
            bytes.extend(sent);
            bytes.extend(b"\r\n");
        } else {
            bytes.extend(sent);
        }
        let request = product.chat(&key, &streamed("asked", "hi"));
        let (answer, _) = tokio::join!(request.answer(), upstream.answer(bytes));
        let (text, finished) = (answer.text(), String::from_utf8_lossy(sent).contains(FINISH));
        if answer.status != 200 {
            assert!(!finished, "{at}: {answer:?}");
            assert_eq!(answer.status, 502, "{at}: {answer:?}");
            assert_eq!(answer.error()["code"], "upstream_invalid_response");
            continue;
        }
        // an additional blank line between events has no meaning
        let last = *answer.text().trim_end().split("\n\n").collect::<Vec<_>>().last().unwrap();
        let last = last.trim_start();
        if text.contains("[DONE]") {
            assert!(finished, "{at}: {text}");
            assert_eq!(last, "data: [DONE]", "{at}");
        } else {
            let error: Value = serde_json::from_str(last.trim_start_matches("data: ")).unwrap();
            assert_eq!(error["error"]["code"], "upstream_invalid_response", "{at}: {text}");
        }
    }
}

#[tokio::test]
async fn a_cut_connection_never_looks_like_a_complete_answer() {
    check_cuts(true).await;
}

#[tokio::test]
async fn an_early_end_never_looks_like_a_complete_answer() {
    check_cuts(false).await;
}

#[tokio::test]
async fn a_missing_done_marker_is_added() {
    let product = Product::start().await;
    let key = product.member("alice").await.key().await.secret;
    let stream = product.chat(&key, &streamed("sim-chat", "[sim done=off] hi")).answer().await;
    assert_eq!(stream.events().last(), Some(&"data: [DONE]"));
}

/// Has the simulator follow `script`, and expects an error with `code` as the stream's last event.
async fn check_broken(script: &str, code: &str) {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    let stream =
        product.chat(&key, &streamed("sim-chat", &format!("[sim {script}] hi"))).answer().await;
    assert_eq!(stream.status, 200);
    assert!(!stream.text().contains("[DONE]"), "{}", stream.text());
    assert!(stream.events().len() > 1, "earlier events are relayed: {}", stream.text());
    let last = stream.events().pop().unwrap();
    let error: Value = serde_json::from_str(last.trim_start_matches("data: ")).unwrap();
    assert_eq!(error["error"]["code"], code, "{script}: {error}");
    assert_eq!(error["error"].as_object().unwrap().len(), 4, "{error}");
    let record = alice.record().await;
    assert_eq!(record.status(), proto::v1::RequestStatus::Failed, "{record:?}");
    assert_eq!((record.http_status, record.error_code.as_deref()), (Some(200), Some(code)));
}

#[tokio::test]
async fn a_broken_stream_ends_in_an_error_event() {
    check_broken("cut=3", "upstream_invalid_response").await;
    check_broken("error=3", "upstream_error").await;
    check_broken("garbage=3", "upstream_invalid_response").await;
    check_broken("finish=none done=off", "upstream_invalid_response").await;
}

#[tokio::test]
async fn a_truncated_plain_answer_is_a_502() {
    let product = Product::start().await;
    let key = product.member("alice").await.key().await.secret;
    let answer = product.chat(&key, &question("sim-chat", "[sim cut=30] hi")).answer().await;
    assert_eq!(
        (answer.status, &answer.error()["code"]),
        (502, &json!("upstream_invalid_response"))
    );
}
