//! Stored responses: continuation, retrieval, listing, deletion, and isolation between accounts.

use hyper::Method;
use serde_json::{Value, json};
use tests::http::Answer;
use tests::{Product, json_answer};

use super::{asked, events, post, streamed, terminal, with_simulator, with_upstream};

async fn get(product: &Product, key: &str, path: &str) -> Answer {
    product.get(&format!("/v1/responses/{path}")).bearer(key).answer().await
}

async fn delete(product: &Product, key: &str, id: &str) -> Answer {
    let path = format!("/v1/responses/{id}");
    product.request(Method::DELETE, &path).bearer(key).answer().await
}

fn id_of(response: &Value) -> String {
    response["id"].as_str().unwrap().to_owned()
}

fn continued(id: &str, text: &str) -> Value {
    let mut body = asked("asked", text);
    body["previous_response_id"] = json!(id);
    body
}

fn text_answer(text: &str) -> String {
    let choices =
        json!([{ "message": { "role": "assistant", "content": text }, "finish_reason": "stop" }]);
    let usage = json!({ "prompt_tokens": 1, "completion_tokens": 1 });
    json_answer(200, &json!({ "choices": choices, "usage": usage }).to_string())
}

/// Returns the messages of a chat request as `role: content`.
fn conversation(sent: &Value) -> Vec<String> {
    let line = |message: &Value| {
        format!("{}: {}", message["role"].as_str().unwrap(), message["content"].as_str().unwrap())
    };
    sent["messages"].as_array().unwrap().iter().map(line).collect()
}

#[tokio::test]
async fn a_chain_carries_the_whole_conversation_and_survives_a_restart() {
    let (product, upstream, _alice, key) = with_upstream().await;
    let mut first = asked("asked", "one");
    first["instructions"] = json!("be brief");
    let (answer, _) =
        tokio::join!(post(&product, &key, &first).answer(), upstream.answer(text_answer("1")));
    let first = id_of(&answer.json());
    // immediately: the first response may not be in the store yet
    let second = continued(&first, "two");
    let (answer, sent) =
        tokio::join!(post(&product, &key, &second).answer(), upstream.answer(text_answer("2")));
    assert_eq!(conversation(&sent.json()), ["user: one", "assistant: 1", "user: two"]);
    assert_eq!(answer.json()["previous_response_id"], json!(first));
    let second = id_of(&answer.json());

    let product = product.stop().await.start().await;
    let third = continued(&second, "three");
    let (answer, sent) =
        tokio::join!(post(&product, &key, &third).answer(), upstream.answer(text_answer("3")));
    assert_eq!(answer.status, 200, "{answer:?}");
    let expected = ["user: one", "assistant: 1", "user: two", "assistant: 2", "user: three"];
    assert_eq!(conversation(&sent.json()), expected);
}

#[tokio::test]
async fn a_stored_response_is_returned_unchanged() {
    let (product, _alice, key) = with_simulator().await;
    let answer = post(&product, &key, &streamed("sim-chat", "keep me")).answer().await;
    let response = terminal(&events(&answer), "response.completed");
    let id = id_of(&response);
    let again = get(&product, &key, &id).await;
    assert_eq!((again.status, again.json()), (200, response));

    let items = get(&product, &key, &format!("{id}/input_items")).await.json();
    assert_eq!((&items["object"], &items["has_more"]), (&json!("list"), &json!(false)));
    let item = &items["data"][0];
    assert_eq!((&item["type"], &item["role"]), (&json!("message"), &json!("user")));
    assert_eq!(item["content"][0], json!({ "type": "input_text", "text": "keep me" }));
    assert_eq!(items["first_id"], item["id"]);

    let deleted = delete(&product, &key, &id).await.json();
    assert_eq!(deleted, json!({ "id": id, "object": "response", "deleted": true }));
    for answer in [get(&product, &key, &id).await, delete(&product, &key, &id).await] {
        assert_eq!((answer.status, &answer.error()["code"]), (404, &json!("response_not_found")));
    }
}

#[tokio::test]
async fn an_item_can_be_referenced_by_its_id() {
    let (product, upstream, _alice, key) = with_upstream().await;
    let (answer, _) = tokio::join!(
        post(&product, &key, &asked("asked", "one")).answer(),
        upstream.answer(text_answer("1"))
    );
    let item = answer.json()["output"][0]["id"].clone();
    let body = asked(
        "asked",
        json!([
            { "role": "user", "content": "one" },
            { "type": "item_reference", "id": item },
            { "role": "user", "content": "two" },
        ]),
    );
    let (answer, sent) =
        tokio::join!(post(&product, &key, &body).answer(), upstream.answer(text_answer("2")));
    assert_eq!(conversation(&sent.json()), ["user: one", "assistant: 1", "user: two"]);
    let items =
        get(&product, &key, &format!("{}/input_items?order=asc", id_of(&answer.json()))).await;
    let kinds: Vec<_> = items.json()["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds, ["message"; 3], "references are replaced by their items");

    let unknown = asked("asked", json!([{ "type": "item_reference", "id": "msg_nobody" }]));
    let answer = post(&product, &key, &unknown).answer().await;
    assert_eq!((answer.status, &answer.error()["param"]), (400, &json!("input[0].id")));
}

#[tokio::test]
async fn no_account_sees_the_responses_of_another() {
    let (product, _alice, key) = with_simulator().await;
    let response = post(&product, &key, &asked("sim-chat", "mine")).answer().await.json();
    let (id, item) = (id_of(&response), response["output"][0]["id"].clone());
    let bob = product.member("bob").await.key().await.secret;
    for answer in [
        get(&product, &bob, &id).await,
        get(&product, &bob, &format!("{id}/input_items")).await,
        delete(&product, &bob, &id).await,
    ] {
        assert_eq!(answer.status, 404, "{answer:?}");
    }
    let mut body = asked("sim-chat", "go on");
    body["previous_response_id"] = json!(id);
    let answer = post(&product, &bob, &body).answer().await;
    let error = answer.error();
    assert_eq!((answer.status, &error["code"]), (400, &json!("previous_response_not_found")));
    assert_eq!(error["param"], json!("previous_response_id"));
    let body = asked("sim-chat", json!([{ "type": "item_reference", "id": item }]));
    assert_eq!(post(&product, &bob, &body).answer().await.status, 400);
    assert_eq!(get(&product, &key, &id).await.status, 200);
}

#[tokio::test]
async fn a_response_with_store_false_is_not_stored() {
    let (product, _alice, key) = with_simulator().await;
    let mut body = asked("sim-chat", "forget me");
    body["store"] = json!(false);
    let response = post(&product, &key, &body).answer().await.json();
    assert_eq!(response["store"], json!(false));
    assert_eq!(get(&product, &key, &id_of(&response)).await.status, 404);
}

#[tokio::test]
async fn with_the_store_disabled_requests_that_need_it_are_refused() {
    let product = Product::with(|setup| setup.config.responses.retention = None).await;
    let key = product.member("alice").await.key().await.secret;
    let response = post(&product, &key, &asked("sim-chat", "hi")).answer().await.json();
    assert_eq!(response["store"], json!(false));
    let mut body = asked("sim-chat", "go on");
    body["previous_response_id"] = response["id"].clone();
    let error = post(&product, &key, &body).answer().await.error();
    assert_eq!(error["code"], json!("unsupported_parameter"), "{error}");
    let body = asked("sim-chat", json!([{ "type": "item_reference", "id": "msg_x" }]));
    let error = post(&product, &key, &body).answer().await.error();
    assert_eq!(error["code"], json!("unsupported_input_item"), "{error}");
}

#[tokio::test]
async fn the_oldest_responses_are_evicted_for_new_ones() {
    let product = Product::with(|setup| {
        setup.config.responses.retention.as_mut().unwrap().account_bytes = 6_000;
    })
    .await;
    let key = product.member("alice").await.key().await.secret;
    let mut ids = Vec::new();
    for _ in 0..8 {
        let response = post(&product, &key, &asked("sim-chat", "fill")).answer().await.json();
        ids.push(id_of(&response));
    }
    // a deletion waits for all earlier writes
    assert_eq!(delete(&product, &key, ids.last().unwrap()).await.status, 200);
    assert_eq!(get(&product, &key, &ids[0]).await.status, 404);
    assert_eq!(get(&product, &key, &ids[6]).await.status, 200);
}

#[tokio::test]
async fn expanded_references_count_towards_the_body_limit() {
    let product = Product::with(|setup| setup.config.max_body_bytes = 200_000).await;
    let key = product.member("alice").await.key().await.secret;
    let long = asked(
        "sim-chat",
        json!([{ "role": "user", "id": "msg_long", "content": "x".repeat(100_000) }]),
    );
    let stored = post(&product, &key, &long).answer().await;
    assert_eq!(stored.status, 200, "{stored:?}");
    let reference = json!({ "type": "item_reference", "id": "msg_long" });
    for (times, status) in [(1, 200), (3, 400)] {
        let mut input = vec![reference.clone(); times];
        input.push(json!({ "role": "user", "content": "hi" }));
        let answer = post(&product, &key, &asked("sim-chat", json!(input))).answer().await;
        assert_eq!(answer.status, status, "{answer:?}");
    }
}
