//! Promises 5 and 7 for Responses streams: relayed as they arrive, never complete when truncated,
//! stopped on disconnect.

use proto::v1::{RequestStatus, UsageBasis};
use serde_json::{Value, json};
use tests::{Session, chunk, json_answer, raw_answer, stream_head};

use super::{events, parsed, post, streamed, terminal, with_simulator, with_upstream};

/// A recorded chat stream.
const RECORDED: &str = concat!(
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"}}]}\n\n",
    ": still here\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n",
    "data: [DONE]\n\n",
);

#[tokio::test]
async fn each_upstream_delta_is_relayed_at_once() {
    let (product, upstream, _alice, key) = with_upstream().await;
    let frames: Vec<_> = RECORDED.split_inclusive("\n\n").collect();
    let begin = async {
        let mut call = upstream.call().await;
        call.send(format!("{}{}", stream_head(), chunk(frames[0]))).await;
        call
    };
    let (mut call, mut answer) =
        tokio::join!(begin, post(&product, &key, &streamed("asked", "hi")).send());
    assert_eq!(answer.headers["content-type"], "text/event-stream; charset=utf-8");
    let mut kinds = async |count: usize| {
        let mut kinds = Vec::new();
        for _ in 0..count {
            kinds.push(parsed(&answer.event().await.unwrap())["type"].as_str().unwrap().to_owned());
        }
        kinds
    };
    assert_eq!(kinds(2).await, ["response.created", "response.in_progress"]);
    // the upstream sends no further byte before the client has these events
    call.send(chunk(frames[1])).await;
    let opened =
        ["response.output_item.added", "response.content_part.added", "response.output_text.delta"];
    assert_eq!(kinds(3).await, opened);
    call.send(chunk(&frames[2..4].concat())).await;
    assert_eq!(kinds(1).await, ["response.output_text.delta"]);
    call.send(chunk(&frames[4..].concat()) + &chunk("")).await;
    let closed = [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(kinds(4).await, closed);
    assert_eq!(answer.event().await.as_deref(), Some("data: [DONE]"));
    assert_eq!(answer.event().await, None, "the body ends");
}

#[tokio::test]
async fn an_upstream_that_dies_at_any_byte_never_ends_in_completed() {
    let (product, upstream, alice, key) = with_upstream().await;
    let finished = RECORDED.find("data: {\"choices\":[],").unwrap();
    let mut completed = 0;
    for at in 0..RECORDED.len() {
        let whole = format!("{}{}", stream_head(), chunk(&RECORDED[..at]));
        let request = post(&product, &key, &streamed("asked", "hi"));
        // the connection is closed in the middle of the transfer encoding
        let (answer, _) = tokio::join!(request.answer(), upstream.answer(whole));
        assert!(!answer.text().contains("response.completed"), "cut at {at}: {}", answer.text());
        if answer.status == 200 {
            terminal(&events(&answer), "response.failed");
        } else {
            assert_eq!(answer.status, 502, "cut at {at}: {answer:?}");
        }
        // the same bytes, but the transfer encoding ends regularly
        let whole = format!("{}{}{}", stream_head(), chunk(&RECORDED[..at]), chunk(""));
        let whole = if at == 0 { format!("{}{}", stream_head(), chunk("")) } else { whole };
        let request = post(&product, &key, &streamed("asked", "hi"));
        let (answer, _) = tokio::join!(request.answer(), upstream.answer(whole));
        if answer.text().contains("response.completed") {
            // a last event without its blank line counts
            assert!(at + 2 >= finished, "ended at {at}: {}", answer.text());
            completed += 1;
        }
    }
    assert!(completed > 0, "a stream with a finish reason is complete without `[DONE]`");
    let records = alice.records(2 * RECORDED.len()).await;
    let count = records.iter().filter(|it| it.status() == RequestStatus::Completed).count();
    assert_eq!((records.len(), count), (2 * RECORDED.len(), completed));
}

#[tokio::test]
async fn an_upstream_error_after_the_first_event_gives_an_error_event_and_response_failed() {
    let (product, alice, key) = with_simulator().await;
    let mut usages = Vec::new();
    // With pauses, the events before a cut have been sent, also where a cut discards what is buffered (HTTP/2).
    for fault in ["cut=3", "garbage=3", "error=3"] {
        let request = streamed("sim-chat", format!("[sim words=30 pace_ms=5 {fault}] go"));
        let answer = post(&product, &key, &request).answer().await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let events = events(&answer);
        let response = terminal(&events, "response.failed");
        let error = &events[events.len() - 2];
        assert_eq!(error["type"], json!("error"), "{fault}: {error}");
        assert_eq!(error["error"]["message"], error["message"]);
        assert_eq!(response["error"]["message"], error["message"]);
        assert_eq!(response["error"]["code"], json!("server_error"));
        let open = &response["output"][0];
        assert_eq!((&open["type"], &open["status"]), (&json!("message"), &json!("incomplete")));
        let usage = &response["usage"];
        usages.push(["input_tokens", "output_tokens"].map(|name| usage[name].as_u64()));
    }
    for record in alice.records(3).await {
        assert_eq!((record.status(), record.http_status), (RequestStatus::Failed, Some(200)));
        let tokens = record.tokens.unwrap();
        assert!(tokens.output > Some(0), "the streamed output is charged");
        let reported = usages.iter().position(|usage| *usage == [tokens.input, tokens.output]);
        usages.remove(reported.expect("the client learns what it is charged"));
    }
}

#[tokio::test]
async fn an_upstream_error_before_the_first_event_keeps_its_http_status() {
    let (product, _alice, key) = with_simulator().await;
    for (script, status, code) in [
        ("status=429 retry_after=7", 429, "rate_limit_exceeded"),
        ("status=400", 400, ""),
        ("status=503", 503, "server_overloaded"),
        ("error=0", 502, "upstream_error"),
        ("cut=0", 502, "upstream_invalid_response"),
    ] {
        let request = streamed("sim-chat", format!("[sim {script}]"));
        let answer = post(&product, &key, &request).answer().await;
        assert_eq!(answer.status, status, "{script}: {answer:?}");
        if !code.is_empty() {
            assert_eq!(answer.error()["code"], json!(code), "{script}");
        }
        if status == 429 {
            assert_eq!(answer.header("retry-after"), "7");
        }
    }
}

#[tokio::test]
async fn a_prompt_that_is_too_long_gives_context_length_exceeded() {
    let (product, upstream, _alice, key) = with_upstream().await;
    let error_body =
        r#"{"error":{"message":"This model's maximum context length is 8192 tokens","code":400}}"#;
    for stream in [false, true] {
        let mut body = super::asked("asked", "hi");
        body["stream"] = json!(stream);
        let (answer, _) = tokio::join!(
            post(&product, &key, &body).answer(),
            upstream.answer(json_answer(400, error_body))
        );
        assert_eq!(answer.status, 400);
        assert_eq!(answer.error()["code"], json!("context_length_exceeded"));
    }
}

#[tokio::test]
async fn a_stream_begins_before_a_slow_upstream_answers() {
    let (product, upstream, alice, key) = with_upstream().await;
    let refusing = async {
        let mut call = upstream.call().await;
        // the response head has been sent by now, so the stream reports the failure
        (call.json(), async move {
            let headers = "content-type: application/json\r\nretry-after: 7\r\n";
            call.send(raw_answer(503, headers, "{}")).await;
        })
    };
    let mut body = streamed("asked", "hi");
    body["surprise"] = json!(1);
    let (mut answer, (_, refuse)) = tokio::join!(post(&product, &key, &body).send(), refusing);
    assert_eq!(answer.status, 200);
    assert_eq!(answer.headers["x-tollgate-translation"], "field_ignored=surprise");
    assert_eq!(parsed(&answer.event().await.unwrap())["type"], json!("response.created"));
    refuse.await;
    let events: Vec<Value> = answer
        .events()
        .await
        .iter()
        .filter(|it| !it.contains("[DONE]"))
        .map(|it| parsed(it))
        .collect();
    let response = terminal(&events, "response.failed");
    assert_eq!(response["error"]["code"], json!("server_is_overloaded"));
    let message = response["error"]["message"].as_str().unwrap();
    assert!(message.ends_with("; try again in 7s"), "{message}");
    let record = alice.record().await;
    assert_eq!((record.status(), record.http_status), (RequestStatus::Failed, Some(200)));
}

#[tokio::test]
async fn a_client_disconnect_stops_the_upstream_and_charges_the_streamed_output() {
    let (product, upstream, alice, key) = with_upstream().await;
    let frames: Vec<_> = RECORDED.split_inclusive("\n\n").collect();
    let begin = async {
        let mut call = upstream.call().await;
        call.send(format!("{}{}", stream_head(), chunk(&frames[..2].concat()))).await;
        call
    };
    let (mut call, mut answer) =
        tokio::join!(begin, post(&product, &key, &streamed("asked", "hi")).send());
    while !answer.event().await.unwrap().contains("output_text.delta") {}
    drop(answer);
    call.closed().await;
    let record = alice.record().await;
    assert_eq!(
        (record.status(), record.usage_basis()),
        (RequestStatus::Cancelled, UsageBasis::Counted)
    );
    assert!(record.tokens.unwrap().output > Some(0), "{record:?}");
}

#[tokio::test]
async fn a_client_disconnect_before_the_upstream_answers_stops_it() {
    let (product, upstream, _alice, key) = with_upstream().await;
    let asking = post(&product, &key, &streamed("asked", "hi")).send();
    let mut call = tokio::select! {
        _ = asking => panic!("an answer without an upstream"),
        call = upstream.call() => call,
    };
    call.closed().await;
    let record = Session::sign_in(&product.admin, "alice").await.record().await;
    assert_eq!(record.status(), RequestStatus::Cancelled);
}

#[tokio::test]
async fn the_done_marker_can_be_disabled() {
    let product = tests::Product::with(|setup| {
        setup.config.responses.policy.done_marker = false;
    })
    .await;
    let key = product.member("alice").await.key().await.secret;
    let answer = post(&product, &key, &streamed("sim-chat", "hi")).answer().await;
    assert!(answer.events().last().unwrap().starts_with("event: response.completed"));
    assert!(!answer.text().contains("[DONE]"));
}

#[tokio::test]
async fn an_error_inside_a_stream_is_relayed_to_the_client() {
    let (product, upstream, _alice, key) = with_upstream().await;
    let begun = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
    for (error, status, code) in [
        (json!({ "message": "the context size is exceeded" }), 400, "context_length_exceeded"),
        (
            json!({ "message": "slow down", "code": "rate_limit_exceeded" }),
            429,
            "rate_limit_exceeded",
        ),
        (json!({ "message": "no more", "code": "insufficient_quota" }), 429, "insufficient_quota"),
        (json!({ "message": "out of memory" }), 502, "server_error"),
    ] {
        let event = format!("data: {}\n\n", json!({ "error": error }));
        for stream in [event.clone(), format!("{begun}{event}")] {
            let stream_text = format!("{}{}{}", stream_head(), chunk(&stream), chunk(""));
            let request = post(&product, &key, &streamed("asked", "hi"));
            let (answer, _) = tokio::join!(request.answer(), upstream.answer(stream_text));
            if stream.starts_with(begun) {
                let response = terminal(&events(&answer), "response.failed");
                assert_eq!(response["error"]["code"], json!(code));
            } else {
                assert_eq!(answer.status, status, "{answer:?}");
            }
        }
    }
}
