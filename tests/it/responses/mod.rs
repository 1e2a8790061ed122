//! `/v1/responses` over chat upstreams.

mod inputs;
mod modes;
mod refusals;
mod state;
mod streams;
mod tools;

use serde_json::{Value, json};
use tests::http::{Answer, Request};
use tests::{Product, RawUpstream, Session};

/// Returns a Responses request.
fn asked(model: &str, input: impl Into<Value>) -> Value {
    json!({ "model": model, "input": input.into() })
}

/// Returns a streamed Responses request.
fn streamed(model: &str, input: impl Into<Value>) -> Value {
    let mut body = asked(model, input);
    body["stream"] = json!(true);
    body
}

fn post(product: &Product, key: &str, body: &Value) -> Request {
    product.post("/v1/responses").bearer(key).json(body)
}

/// Returns a gateway with a model `asked` on the test's upstream, and a member's key.
async fn with_upstream() -> (Product, RawUpstream, Session, String) {
    let (product, upstream) = (Product::start().await, RawUpstream::start().await);
    product.operator().await.add_model_on("asked", &[&upstream.url]).await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    (product, upstream, alice, key)
}

/// Returns a gateway with the simulator, and a member's key.
async fn with_simulator() -> (Product, Session, String) {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    (product, alice, key)
}

/// Parses one event of a stream and checks that its `event` line agrees with its data.
#[track_caller]
fn parsed(event: &str) -> Value {
    let (name, data) = event.split_once("\ndata: ").unwrap_or_else(|| panic!("no event: {event}"));
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!(name.strip_prefix("event: "), data["type"].as_str(), "{event}");
    data
}

/// Parses the events of a whole stream, which must end in `[DONE]`.
#[track_caller]
fn events(answer: &Answer) -> Vec<Value> {
    let events = answer.events();
    let (last, events) = events.split_last().unwrap_or_else(|| panic!("no events: {answer:?}"));
    assert_eq!(*last, "data: [DONE]", "{answer:?}");
    let events: Vec<_> = events.iter().map(|event| parsed(event)).collect();
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], json!(number), "{event}");
    }
    events
}

/// Returns the object of the last event, which must have this type.
#[track_caller]
fn terminal(events: &[Value], kind: &str) -> Value {
    let last = events.last().unwrap();
    assert_eq!(last["type"], json!(kind), "{last}");
    let is_terminal = |event: &&Value| {
        ["response.completed", "response.incomplete", "response.failed"]
            .iter()
            .any(|kind| event["type"] == json!(kind))
    };
    assert_eq!(events.iter().filter(is_terminal).count(), 1, "one terminal event");
    last["response"].clone()
}

/// Returns the text of all messages of a response.
fn text_of(response: &Value) -> String {
    let items = response["output"].as_array().unwrap().iter();
    let parts = items.flat_map(|item| item["content"].as_array().cloned().unwrap_or_default());
    parts.filter_map(|part| part["text"].as_str().map(str::to_owned)).collect()
}
