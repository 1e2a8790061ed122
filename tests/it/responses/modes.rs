//! Promise 3: streaming and non-streaming give the same answer, the same items, the same usage.

use proto::v1::{RequestStatus, UsageBasis};
use serde_json::{Value, json};

use super::{asked, events, post, streamed, terminal, with_simulator};

/// Removes the fields that vary between responses: ids, times and `store`.
fn comparable(mut response: Value) -> Value {
    for name in ["id", "created_at", "completed_at"] {
        response[name] = Value::Null;
    }
    for item in response["output"].as_array_mut().unwrap() {
        item["id"] = Value::Null;
        if item.get("call_id").is_some() {
            item["call_id"] = Value::Null;
        }
    }
    response
}

#[tokio::test]
async fn identical_requests_give_identical_items_and_usage_in_both_modes() {
    let (product, alice, key) = with_simulator().await;
    let tools = json!([
        { "type": "function", "name": "weather", "parameters": { "type": "object", "properties": { "city": { "type": "string" } } } },
        { "type": "custom", "name": "patch" },
    ]);
    let requests = [
        asked("sim-chat", "hello"),
        asked("sim-reasoner", "think about it"),
        asked("sim-chat", "[sim say=\"caf\u{e9} \u{1f600} \\\\ end\" chunk=1]"),
        asked("sim-chat", "[sim words=40 finish=length]"),
        asked("sim-chat", "[sim finish=content_filter]"),
        asked("sim-chat", "[sim say=\"\"]"),
        asked("sim-chat", "[sim usage=off] count me"),
        json!({ "model": "sim-chat", "input": "[sim tool=weather tool=weather]", "tools": tools }),
        json!({ "model": "sim-chat", "input": "[sim say=\"I look\" tool=patch args='{\"input\":\"a\\nb\"}']", "tools": tools }),
        json!({ "model": "sim-chat", "input": "give me json", "text": { "format": { "type": "json_schema", "name": "n",
            "schema": { "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"] } } } }),
    ];
    for request in &requests {
        let plain = post(&product, &key, request).answer().await;
        assert_eq!(plain.status, 200, "{request}: {plain:?}");
        let mut body = request.clone();
        body["stream"] = json!(true);
        let stream = post(&product, &key, &body).answer().await;
        let plain = plain.json();
        let kind = if plain["status"] == json!("incomplete") {
            "response.incomplete"
        } else {
            "response.completed"
        };
        let last = terminal(&events(&stream), kind);
        assert_eq!(comparable(plain), comparable(last), "{request}");
    }
    let records = alice.records(2 * requests.len()).await;
    for pair in records.chunks(2) {
        assert_eq!(pair[0].tokens, pair[1].tokens, "{pair:#?}");
        assert_eq!(pair[0].cost_usd, pair[1].cost_usd, "{pair:#?}");
        assert_eq!(pair[0].status(), pair[1].status());
    }
}

#[tokio::test]
async fn folding_the_events_gives_the_object_in_the_terminal_event() {
    let (product, _alice, key) = with_simulator().await;
    let answer = post(&product, &key, &streamed("sim-reasoner", "fold me")).answer().await;
    let events = events(&answer);
    let response = terminal(&events, "response.completed");
    let of_kind =
        |kind: &'static str| events.iter().filter(move |event| event["type"] == json!(kind));
    let done: Vec<_> =
        of_kind("response.output_item.done").map(|event| event["item"].clone()).collect();
    assert_eq!(response["output"], json!(done));
    let text: String = of_kind("response.output_text.delta")
        .map(|event| event["delta"].as_str().unwrap())
        .collect();
    assert_eq!(text, super::text_of(&response));
    assert!(of_kind("response.reasoning_summary_text.delta").count() > 0);
}

#[tokio::test]
async fn unreported_usage_is_counted_alike_for_client_and_record() {
    let (product, alice, key) = with_simulator().await;
    let request = asked("sim-chat", "[sim usage=off] count me");
    let usage = post(&product, &key, &request).answer().await.json()["usage"].clone();
    let record = alice.record().await;
    assert_eq!(record.usage_basis(), UsageBasis::Counted);
    assert_eq!(record.status(), RequestStatus::Completed);
    let tokens = record.tokens.unwrap();
    assert_eq!(usage["input_tokens"], json!(tokens.input), "{usage}");
    assert_eq!(usage["output_tokens"], json!(tokens.output), "{usage}");
    assert!(tokens.output > Some(0));
}

#[tokio::test]
async fn a_truncated_answer_costs_the_same_in_both_modes() {
    let (product, upstream, alice, key) = super::with_upstream().await;
    let usage = json!({ "prompt_tokens": 1_000, "completion_tokens": 7 });
    let whole = json!({ "usage": usage, "choices": [
        { "message": { "role": "assistant", "content": "half a" }, "finish_reason": "error" }] });
    let chunk = json!({ "usage": usage, "choices": [
        { "index": 0, "delta": { "content": "half a" }, "finish_reason": "error" }] });
    let stream = format!("data: {chunk}\n\ndata: [DONE]\n\n");
    let stream = format!("{}{}{}", tests::stream_head(), tests::chunk(&stream), tests::chunk(""));
    for (streaming, bytes) in [(false, tests::json_answer(200, &whole.to_string())), (true, stream)]
    {
        let mut body = asked("asked", "hi");
        body["stream"] = json!(streaming);
        let (answer, _) =
            tokio::join!(post(&product, &key, &body).answer(), upstream.answer(bytes));
        assert!(!answer.text().contains("response.completed"), "{answer:?}");
    }
    let records = alice.records(2).await;
    for record in &records {
        assert_eq!(record.status(), RequestStatus::Failed);
        assert_eq!(record.tokens, records[0].tokens);
        assert_ne!(record.cost_usd.as_deref(), Some("0"), "{record:?}");
    }
}
