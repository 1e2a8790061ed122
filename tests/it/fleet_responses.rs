//! Stored responses with several gateways on one PostgreSQL database: a response is found by all of
//! them once it is answered. Without a server in `TOLLGATE_TEST_POSTGRES`, each test says that it is
//! skipped, and passes.

use hyper::Method;
use serde_json::{Value, json};
use tests::http::{Answer, Request};
use tests::process::Gateway;
use tests::{GatewayFleet, wait_for_model, with_timeout};

const PATIENCE_SECONDS: u64 = 60;

async fn post(gateway: &Gateway, key: &str, body: Value) -> Answer {
    Request::post(gateway.http, "/v1/responses").bearer(key).json(&body).answer().await
}

async fn send(gateway: &Gateway, key: &str, method: Method, id: &str) -> u16 {
    let request = Request::new(gateway.http, method, &format!("/v1/responses/{id}"));
    request.bearer(key).answer().await.status
}

/// Asks `answering` for a response while the database does not store it. The database stores it once
/// `other` has started.
async fn while_unwritten<T>(
    fleet: &GatewayFleet,
    answering: &Gateway,
    key: &str,
    other: impl AsyncFnOnce(Value) -> T,
) -> T {
    let client = &fleet.database.client;
    client.batch_execute("BEGIN; LOCK TABLE responses IN EXCLUSIVE MODE").await.unwrap();
    let answer = post(answering, key, json!({ "model": "sim-chat", "input": "hello" })).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let waiting = "SELECT count(*) FROM pg_stat_activity \
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let is_waiting = async { while fleet.database.number(waiting).await == 0 {} };
    with_timeout("the write of the response", is_waiting).await;
    let (other, ()) = tokio::join!(other(answer.json()), async {
        // The first lookup is on its way.
        tokio::task::yield_now().await;
        client.batch_execute("COMMIT").await.unwrap();
    });
    other
}

fn id_of(response: &Value) -> &str {
    response["id"].as_str().unwrap()
}

#[tokio::test]
async fn a_response_is_found_at_another_gateway_before_it_is_written() {
    let Some(fleet) = GatewayFleet::create("fleet_responses", PATIENCE_SECONDS).await else {
        return;
    };
    let (one, two) = (fleet.start("one").await, fleet.start("two").await);
    let key = fleet.operator("one", &one).await.key().await.secret;
    wait_for_model([&one, &two], &key, "sim-chat").await;

    let got = while_unwritten(&fleet, &one, &key, async |first| {
        send(&two, &key, Method::GET, id_of(&first)).await
    });
    assert_eq!(got.await, 200);
    let listed = while_unwritten(&fleet, &one, &key, async |first| {
        let path = format!("{}/input_items", id_of(&first));
        send(&two, &key, Method::GET, &path).await
    });
    assert_eq!(listed.await, 200);
    let continued = while_unwritten(&fleet, &one, &key, async |first| {
        let body = json!({
            "model": "sim-chat", "input": "more", "previous_response_id": id_of(&first),
        });
        post(&two, &key, body).await
    });
    assert_eq!(continued.await.status, 200);
    let referenced = while_unwritten(&fleet, &one, &key, async |first| {
        let reference = json!({ "type": "item_reference", "id": first["output"][0]["id"] });
        let question = json!({ "role": "user", "content": "more" });
        post(&two, &key, json!({ "model": "sim-chat", "input": [reference, question] })).await
    });
    let referenced = referenced.await;
    assert_eq!(referenced.status, 200, "{referenced:?}");
    let deleted = while_unwritten(&fleet, &one, &key, async |first| {
        (send(&two, &key, Method::DELETE, id_of(&first)).await, first)
    });
    let (deleted, first) = deleted.await;
    assert_eq!(deleted, 200);
    for gateway in [&one, &two] {
        assert_eq!(send(gateway, &key, Method::GET, id_of(&first)).await, 404);
    }
    for gateway in [one, two] {
        gateway.stop().await;
    }
    fleet.remove().await;
}
