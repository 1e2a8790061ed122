//! Promise 8: bad input gets a clear error with its `param`, in bounded time, never a 5xx.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tests::Product;

use super::{asked, post, with_simulator};

#[tokio::test]
async fn every_bad_field_is_a_400_that_names_it() {
    let (product, _alice, key) = with_simulator().await;
    let with = |name: &str, value: Value| {
        let mut body = asked("sim-chat", "hi");
        body[name] = value;
        body
    };
    for (body, param) in [
        (json!({ "input": "hi" }), "model"),
        (json!({ "model": 7, "input": "hi" }), "model"),
        (json!({ "model": "sim-chat" }), "input"),
        (asked("sim-chat", ""), "input"),
        (asked("sim-chat", json!([])), "input"),
        (asked("sim-chat", json!(7)), "input"),
        (
            asked("sim-chat", json!([{ "type": "message", "role": "robot", "content": "x" }])),
            "input[0].role",
        ),
        (asked("sim-chat", json!([{ "type": "time_travel" }])), "input[0].type"),
        (
            asked("sim-chat", json!([{ "role": "user", "content": [{ "type": "smell" }] }])),
            "input[0].content[0].type",
        ),
        (
            asked(
                "sim-chat",
                json!([{ "type": "function_call_output", "call_id": "c", "output": "x" }]),
            ),
            "input[0].call_id",
        ),
        (with("stream", json!("yes")), "stream"),
        (with("max_output_tokens", json!(-1)), "max_output_tokens"),
        (with("max_output_tokens", json!(1e300)), "max_output_tokens"),
        (with("top_logprobs", json!(21)), "top_logprobs"),
        (with("include", json!(["everything"])), "include[0]"),
        (with("metadata", json!({ "k": 1 })), "metadata"),
        (with("conversation", json!("c")), "conversation"),
        (with("background", json!(true)), "background"),
        (with("prompt", json!({ "id": "p" })), "prompt"),
        (with("messages", json!([])), "messages"),
        (with("max_tokens", json!(9)), "max_tokens"),
        (with("tool_choice", json!({ "type": "function", "name": "nobody" })), "tool_choice"),
        (with("tools", json!([{ "type": "function", "name": "no spaces" }])), "tools[0].name"),
        (with("previous_response_id", json!("resp_nobody")), "previous_response_id"),
        (with("truncation", json!("sometimes")), "truncation"),
    ] {
        for stream in [false, true] {
            let mut body = body.clone();
            if body.get("stream").is_none() {
                body["stream"] = json!(stream);
            }
            let answer = post(&product, &key, &body).answer().await;
            assert_eq!(answer.status, 400, "{body}: {answer:?}");
            assert_eq!(answer.error()["param"], json!(param), "{body}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn extreme_bodies_are_refused_or_served_and_never_crash() {
    let (product, _alice, key) = with_simulator().await;
    let send =
        async |body: Vec<u8>| product.post("/v1/responses").bearer(&key).body(body).answer().await;
    let deep = |open: &str, close: &str| {
        format!(r#"{{"model":"sim-chat","input":{}{}}}"#, open.repeat(1_000), close.repeat(1_000))
    };
    let mut many = String::from(r#"{"model":"sim-chat","input":["#);
    for number in 0..100_000 {
        _ = write!(many, r#"{{"role":"user","content":"{number}"}},"#);
    }
    many.push_str(r#"{"role":"robot","content":""}]}"#);
    for (body, param) in [
        (b"{\"model\":\"sim-chat\",\"input\":\"\xff\"}".to_vec(), Value::Null),
        (b"[]".to_vec(), Value::Null),
        (b"{\"model\":".to_vec(), Value::Null),
        (many.into_bytes(), json!("input[100000].role")),
    ] {
        let answer = send(body).await;
        assert_eq!((answer.status, &answer.error()["param"]), (400, &param), "{answer:?}");
    }
    for body in [deep("[", "]"), deep(r#"[{"role":"user","content":"#, "}]")] {
        let answer = send(body.into_bytes()).await;
        assert_eq!(answer.status, 400, "{answer:?}");
    }
    // a nested schema is data for the model and is forwarded unchanged
    let schema = format!("{}{}{}", r#"{"a":"#.repeat(1_000), "1", "}".repeat(1_000));
    let tools = format!(r#"[{{"type":"function","name":"f","parameters":{schema}}}]"#);
    let body = format!(r#"{{"model":"sim-chat","input":"hi","tools":{tools}}}"#);
    assert_eq!(send(body.into_bytes()).await.status, 400);
}

#[tokio::test]
async fn a_websocket_upgrade_is_refused_with_426() {
    // HTTP/2 has no upgrades
    let product = Product::on_http1(|_| {}).await;
    let key = product.member("alice").await.key().await.secret;
    let request = product.get("/v1/responses").bearer(&key);
    let answer =
        request.header("connection", "Upgrade").header("upgrade", "websocket").answer().await;
    assert_eq!((answer.status, &answer.error()["code"]), (426, &json!("websocket_unsupported")));
    let plain = product.get("/v1/responses").bearer(&key).answer().await;
    assert_eq!(plain.status, 405);
    let unknown = product.get("/v1/responses/resp_1/cancel").bearer(&key).answer().await;
    assert_eq!(unknown.status, 404);
}
