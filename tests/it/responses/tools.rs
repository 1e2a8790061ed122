//! Promise 4: nothing is silently degraded. Tools of all kinds, and the notes about losses.

use proto::v1::Translation;
use serde_json::{Value, json};
use tests::{json_answer, stream_head};

use super::{asked, events, post, terminal, with_simulator, with_upstream};

fn chat_answer(message: &Value) -> String {
    let choices = json!([{ "index": 0, "message": message, "finish_reason": "stop" }]);
    let usage = json!({ "prompt_tokens": 1, "completion_tokens": 1 });
    json_answer(200, &json!({ "choices": choices, "usage": usage }).to_string())
}

fn call(name: &str, arguments: &str) -> Value {
    json!({ "id": format!("call_{name}"), "type": "function", "function": { "name": name, "arguments": arguments } })
}

#[tokio::test]
async fn namespaced_and_custom_tools_are_flattened_and_restored() {
    let (product, upstream, alice, key) = with_upstream().await;
    let mut body = asked("asked", "work");
    body["tools"] = json!([
        { "type": "namespace", "name": "mcp__files", "description": "files", "tools": [
            { "type": "function", "name": "read", "parameters": { "type": "object", "properties": {} } } ] },
        { "type": "custom", "name": "apply_patch", "format": { "type": "grammar", "syntax": "lark", "definition": "start: \"x\"" } },
    ]);
    let message = json!({ "role": "assistant", "content": null, "tool_calls": [
        call("mcp__files__read", "{\"path\":\"a\"}"), call("apply_patch", "{\"input\":\"*** Begin\\n\"}") ] });
    let (answer, sent) =
        tokio::join!(post(&product, &key, &body).answer(), upstream.answer(chat_answer(&message)));
    let names: Vec<_> = sent.json()["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["mcp__files__read", "apply_patch"]);
    let output = answer.json()["output"].clone();
    assert_eq!(output[0]["type"], json!("function_call"));
    assert_eq!(
        (&output[0]["namespace"], &output[0]["name"]),
        (&json!("mcp__files"), &json!("read"))
    );
    assert_eq!(output[1]["type"], json!("custom_tool_call"));
    assert_eq!(output[1]["input"], json!("*** Begin\n"));
    assert_eq!(answer.header("x-tollgate-translation"), "grammar_not_enforced=apply_patch");
    assert_eq!(alice.record().await.notes, ["grammar_not_enforced=apply_patch"]);
}

#[tokio::test]
async fn every_tool_that_cannot_be_converted_is_named_before_the_upstream_is_called() {
    let (product, _upstream, alice, key) = with_upstream().await;
    let lite = json!([
        { "type": "additional_tools", "role": "developer", "tools": [
            { "type": "namespace", "name": "n", "tools": [{ "type": "mcp", "server_label": "s" }] } ] },
        { "role": "user", "content": "hi" },
    ]);
    for (body, param, named) in [
        (
            json!({ "input": "hi", "tools": [{ "type": "function", "name": "f" }, { "type": "web_search" }] }),
            "tools[1]",
            "web_search",
        ),
        (
            json!({ "input": "hi", "tools": [{ "type": "code_interpreter" }], "tool_choice": "none" }),
            "tools[0]",
            "code_interpreter",
        ),
        (
            json!({ "input": "hi", "additional_tools": [{ "type": "shell" }] }),
            "additional_tools[0]",
            "shell",
        ),
        (json!({ "input": lite }), "input[0].tools[0].tools[0]", "mcp"),
        (
            json!({ "input": "hi", "tools": [{ "type": "invented_tomorrow" }, { "name": "typeless" }] }),
            "tools[0]",
            "invented_tomorrow",
        ),
    ] {
        for stream in [false, true] {
            let mut body = body.clone();
            body["model"] = json!("asked");
            body["stream"] = json!(stream);
            let answer = post(&product, &key, &body).answer().await;
            assert_eq!(answer.status, 400, "{body}: {answer:?}");
            let error = answer.error();
            assert_eq!(
                (&error["code"], &error["param"]),
                (&json!("unsupported_tools"), &json!(param))
            );
            assert!(error["message"].as_str().unwrap().contains(named), "{error}");
        }
    }
    for record in alice.records(10).await {
        assert_eq!(record.error_code.as_deref(), Some("unsupported_tools"));
        assert_eq!(record.deployment, None, "{record:?}");
    }
}

#[tokio::test]
async fn the_agents_setting_that_removes_a_tool_is_named() {
    let (product, _alice, key) = with_simulator().await;
    let mut body = asked("sim-chat", "hi");
    body["tools"] = json!([{ "type": "web_search", "external_web_access": false }]);
    let answer = post(&product, &key, &body).answer().await;
    let message = answer.error()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("web_search = \"disabled\""), "{message}");
}

#[tokio::test]
async fn a_strict_key_refuses_losses_and_an_omitting_key_reports_them() {
    let (product, alice, _key) = with_simulator().await;
    let strict = alice.key_with(|key| key.translation = Translation::Strict.into()).await.secret;
    let omitting =
        alice.key_with(|key| key.translation = Translation::OmitHostedTools.into()).await.secret;

    let mut grammar = asked("sim-chat", "hi");
    grammar["tools"] = json!([{ "type": "custom", "name": "c", "format": { "type": "grammar", "syntax": "regex", "definition": "a+" } }]);
    let refused = post(&product, &strict, &grammar).answer().await;
    assert_eq!(
        (refused.status, refused.error()["param"].as_str()),
        (400, Some("tools[0].format")),
        "{refused:?}"
    );

    let mut hosted = asked("sim-chat", "hi");
    hosted["tools"] = json!([{ "type": "web_search" }]);
    assert_eq!(
        post(&product, &strict, &hosted).answer().await.error()["code"],
        json!("unsupported_tools")
    );
    let answer = post(&product, &omitting, &hosted).answer().await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("x-tollgate-translation"), "hosted_tool_omitted=web_search");
}

#[tokio::test]
async fn a_call_that_tool_choice_forbids_fails_the_response() {
    let (product, upstream, _alice, key) = with_upstream().await;
    let mut body = asked("asked", "hi");
    body["tools"] =
        json!([{ "type": "function", "name": "a" }, { "type": "function", "name": "b" }]);
    body["tool_choice"] = json!({ "type": "allowed_tools", "mode": "auto", "tools": [{ "type": "function", "name": "a" }] });
    let message = json!({ "role": "assistant", "tool_calls": [call("b", "{}")] });
    let (answer, _) =
        tokio::join!(post(&product, &key, &body).answer(), upstream.answer(chat_answer(&message)));
    assert_eq!(answer.status, 502);
    assert!(answer.error()["message"].as_str().unwrap().contains("not allowed"), "{answer:?}");

    body["stream"] = json!(true);
    let delta = json!({ "choices": [{ "index": 0, "delta": { "tool_calls": [
        { "index": 0, "id": "x", "function": { "name": "b", "arguments": "{}" } }] },
        "finish_reason": "tool_calls" }] });
    let head = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"well\"}}]}\n\n";
    let stream = format!("{head}data: {delta}\n\ndata: [DONE]\n\n");
    let stream = format!("{}{}{}", stream_head(), tests::chunk(&stream), tests::chunk(""));
    let (answer, _) = tokio::join!(post(&product, &key, &body).answer(), upstream.answer(stream));
    let response = terminal(&events(&answer), "response.failed");
    assert!(response["error"]["message"].as_str().unwrap().contains("not allowed"), "{response}");
}

#[tokio::test]
async fn a_tool_loop_works_with_reasoning_kept_by_the_client() {
    let (product, _alice, key) = with_simulator().await;
    let tools = json!([{ "type": "function", "name": "weather", "parameters": { "type": "object", "properties": {} } }]);
    let mut input =
        vec![json!({ "role": "user", "content": "[sim reasoning=\"look it up\" tool=weather]" })];
    let include = json!(["reasoning.encrypted_content"]);
    let mut body = json!({ "model": "sim-reasoner", "input": input, "tools": tools, "include": include, "store": false });
    let first = post(&product, &key, &body).answer().await.json();
    let sealed =
        first["output"][0]["encrypted_content"].as_str().unwrap_or_else(|| panic!("{first}"));
    assert!(sealed.starts_with("tgr1_") && !sealed.contains("look"), "{sealed}");
    input.extend(first["output"].as_array().unwrap().clone());
    let call_id = first["output"].as_array().unwrap().last().unwrap()["call_id"].clone();
    input.push(json!({ "type": "function_call_output", "call_id": call_id, "output": "sunny" }));
    body["input"] = json!(input);
    let second = post(&product, &key, &body).answer().await;
    assert_eq!(second.status, 200, "{second:?}");
    assert!(!super::text_of(&second.json()).is_empty());
    assert_eq!(second.header("x-tollgate-translation"), "");
}

#[tokio::test]
async fn an_unsuitable_deployment_does_not_hide_the_error_of_another() {
    let (product, upstream, alice, key) = with_upstream().await;
    let operator = product.operator().await;
    let mut other = proto::v1::Upstream {
        name: "other".into(),
        url: upstream.url.clone(),
        ..Default::default()
    };
    other.set_profile(proto::v1::Profile::Ollama);
    operator.add_upstream(other).await;
    let deployment = |name: &str, priority| proto::v1::Deployment {
        upstream: name.to_owned(),
        upstream_model: "m".to_owned(),
        weight: 1,
        priority,
    };
    let deployments = vec![deployment("up-asked-0", 0), deployment("other", 1)];
    let request = proto::v1::UpdateModelRequest {
        id: "asked".to_owned(),
        deployments: Some(proto::v1::DeploymentList { deployments }),
        ..Default::default()
    };
    operator.models().update_model(request).await.unwrap();
    let mut body = asked("asked", "hi");
    body["tools"] = json!([{ "type": "function", "name": "f" }]);
    body["tool_choice"] = json!("required");
    let (answer, _) =
        tokio::join!(post(&product, &key, &body).answer(), upstream.answer(json_answer(503, "{}")));
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(alice.record().await.http_status, Some(503));
}
