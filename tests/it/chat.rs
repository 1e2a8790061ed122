//! Chat passthrough: everything is forwarded unchanged except the model's name and
//! `stream_options.include_usage`.

use serde_json::{Value, json};
use tests::{Product, RawUpstream, chunk, json_answer, question, stream_head};

const ANSWER: &str = r#"{ "id":"c-1", "model":"upstream-model","vendor":{"b":1,"a":[1.50,null]},
 "choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop","stop_token":7}],
 "usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,"energy":0.10}}"#;

/// A stream of an answer without text.
const EMPTY: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// Returns a gateway whose model `asked` is `upstream-model` on the test's upstream.
async fn product() -> (Product, RawUpstream, String) {
    let (product, upstream) = (Product::start().await, RawUpstream::start().await);
    product.operator().await.add_model_on("asked", &[&upstream.url]).await;
    let key = product.member("alice").await.key().await.secret;
    (product, upstream, key)
}

/// Sends `body` and expects the upstream to receive `upstream_body`, byte for byte.
async fn check_body(body: &str, upstream_body: &str) {
    let (product, upstream, key) = product().await;
    let request = product.post("/v1/chat/completions").bearer(&key).body(body.to_owned());
    let answer = if upstream_body.contains(r#""stream":true"#) {
        format!("{}{}{}", stream_head(), chunk(EMPTY), chunk(""))
    } else {
        json_answer(200, ANSWER)
    };
    let (answer, call) = tokio::join!(request.answer(), upstream.answer(answer));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(call.body, upstream_body);
    assert!(call.head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{}", call.head);
}

#[tokio::test]
async fn only_the_model_name_changes_in_the_request() {
    check_body(
        "{ \"x\":{\"b\":1,\"a\":[1.50, 1e3]},\"model\" : \"asked\",\n\"messages\":[{\"role\":\"user\",\"content\":\"\\u00e9\"}], \"é\":null }",
        "{ \"x\":{\"b\":1,\"a\":[1.50, 1e3]},\"model\" : \"upstream-model\",\n\"messages\":[{\"role\":\"user\",\"content\":\"\\u00e9\"}], \"é\":null }",
    )
    .await;
}

#[tokio::test]
async fn include_usage_is_set_for_streams_that_do_not_set_it() {
    for (options, upstream_options) in [
        ("", r#","stream_options":{"include_usage":true}"#),
        (
            r#","stream_options":{"include_usage":true}"#,
            r#","stream_options":{"include_usage":true}"#,
        ),
    ] {
        let body = |model: &str, before: &str, after: &str| {
            format!(r#"{{"stream":true,"model":"{model}"{before},"messages":[{{}}]{after}}}"#)
        };
        if options.is_empty() {
            check_body(&body("asked", "", ""), &body("upstream-model", upstream_options, "")).await;
        } else {
            check_body(&body("asked", "", options), &body("upstream-model", "", upstream_options))
                .await;
        }
    }
}

#[tokio::test]
async fn stream_options_keep_their_other_fields() {
    let (product, upstream, key) = product().await;
    let mut body = question("asked", "hi");
    body["stream"] = json!(true);
    body["stream_options"] = json!({ "include_usage": false, "include_obfuscation": false });
    let stream = format!("{}{}{}", stream_head(), chunk(EMPTY), chunk(""));
    let (_, call) = tokio::join!(product.chat(&key, &body).answer(), upstream.answer(stream));
    body["model"] = json!("upstream-model");
    body["stream_options"]["include_usage"] = json!(true);
    assert_eq!(call.json(), body);
}

#[tokio::test]
async fn the_response_is_unchanged_except_for_the_models_name() {
    let (product, upstream, key) = product().await;
    let request = product.chat(&key, &question("asked", "hi"));
    let (answer, _) = tokio::join!(request.answer(), upstream.answer(json_answer(200, ANSWER)));
    assert_eq!(answer.text(), ANSWER.replace("upstream-model", "asked"));
    assert_eq!(answer.header("content-type"), "application/json");
}

#[tokio::test]
async fn a_response_to_an_alias_names_the_alias() {
    let product = Product::start().await;
    let operator = product.operator().await;
    let aliases = Some(proto::v1::AliasList { aliases: vec!["nick".to_owned()] });
    let id = "sim-chat".to_owned();
    let update = proto::v1::UpdateModelRequest { id, aliases, ..Default::default() };
    operator.models().update_model(update).await.unwrap();
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;

    let answer = product.chat(&key, &question("nick", "hi")).answer().await;
    assert_eq!(answer.json()["model"], "nick");
    let mut body = question("nick", "hi");
    body["stream"] = json!(true);
    let stream = product.chat(&key, &body).answer().await;
    for event in stream.events().iter().filter(|event| event.contains("choices")) {
        assert!(event.contains(r#""model":"nick""#), "{event}");
    }
    for record in alice.records(2).await {
        assert_eq!(record.model.as_deref(), Some("sim-chat"), "the catalogue's name is recorded");
    }
}

#[tokio::test]
async fn client_headers_are_not_forwarded_and_the_credential_reaches_only_the_upstream() {
    let (product, upstream, key) = product().await;
    let secret = "sk-upstream-0123456789abcdef";
    let source = proto::v1::credential::Source::Secret(secret.to_owned());
    let request = proto::v1::UpdateUpstreamRequest {
        name: "up-asked-0".to_owned(),
        credential: Some(proto::v1::Credential { source: Some(source) }),
        ..Default::default()
    };
    product.operator().await.upstreams().update_upstream(request).await.unwrap();
    let request = product
        .chat(&key, &question("asked", "hi"))
        .header("cookie", "session=cookie-secret")
        .header("openai-organization", "org-client")
        .header("openai-project", "proj-client")
        .header("x-stainless-lang", "python")
        .header("x-forwarded-for", "192.0.2.7")
        .header("te", "trailers")
        .header("x-request-id", "chosen-by-the-client");
    let leaky = tests::raw_answer(
        200,
        &format!(
            "content-type: application/json\r\nset-cookie: up=1\r\nserver: secret-server\r\nx-echo: {secret}\r\n"
        ),
        ANSWER,
    );
    let (answer, call) = tokio::join!(request.answer(), upstream.answer(leaky));

    assert_eq!(call.header("authorization"), Some(&*format!("Bearer {secret}")));
    assert_eq!(call.header("x-request-id"), Some(answer.header("x-request-id")));
    let head = call.head.to_lowercase();
    for hidden in [
        &key[..],
        "cookie",
        "openai-",
        "x-stainless",
        "x-forwarded",
        "trailers",
        "chosen-by-the-client",
    ] {
        assert!(!head.contains(hidden), "`{hidden}` reached the upstream: {head}");
    }
    let shown = format!("{answer:?}");
    for hidden in [secret, "set-cookie", "secret-server"] {
        assert!(!shown.contains(hidden), "`{hidden}` reached the client: {shown}");
    }
}

#[tokio::test]
async fn parallel_tool_calls_work_plain_and_streamed() {
    let product = Product::start().await;
    let key = product.member("alice").await.key().await.secret;
    let tool = |name: &str| {
        json!({ "type": "function", "function": { "name": name, "parameters": {
            "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] } } })
    };
    let mut body = question("sim-chat", "use get_weather and get_time");
    body["tools"] = json!([tool("get_weather"), tool("get_time")]);
    let plain = product.chat(&key, &body).answer().await.json();
    let choice = &plain["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    let calls = choice["message"]["tool_calls"].as_array().unwrap();
    let names: Vec<_> =
        calls.iter().map(|call| call["function"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["get_weather", "get_time"]);

    body["stream"] = json!(true);
    let stream = product.chat(&key, &body).answer().await;
    let mut arguments = [String::new(), String::new()];
    for event in stream.events() {
        let Ok(chunk) = serde_json::from_str::<Value>(event.trim_start_matches("data: ")) else {
            continue;
        };
        for call in chunk["choices"][0]["delta"]["tool_calls"].as_array().into_iter().flatten() {
            let index = usize::try_from(call["index"].as_u64().unwrap()).unwrap();
            arguments[index].push_str(call["function"]["arguments"].as_str().unwrap_or_default());
        }
    }
    for (call, streamed) in calls.iter().zip(&arguments) {
        assert_eq!(call["function"]["arguments"], **streamed);
    }
}

#[tokio::test]
async fn a_display_name_is_refused_with_the_right_id() {
    let product = Product::start().await;
    let key = product.member("alice").await.key().await.secret;
    let answer = product.chat(&key, &question("Simulated Chat", "hi")).answer().await;
    assert_eq!(answer.status, 404);
    let error = answer.error();
    assert_eq!((&error["code"], &error["param"]), (&json!("model_not_found"), &json!("model")));
    assert!(error["message"].as_str().unwrap().contains("`sim-chat`"), "{error}");
}

#[tokio::test]
async fn models_are_listed_and_described_in_openais_format() {
    let product = Product::start().await;
    let key = product.member("alice").await.key().await.secret;
    let list = product.get("/v1/models").bearer(&key).answer().await.json();
    assert_eq!(list["object"], "list");
    let ids: Vec<_> = list["data"].as_array().unwrap().iter().map(|it| &it["id"]).collect();
    assert_eq!(ids, ["sim-chat", "sim-reasoner"]);
    let one = product.get("/v1/models/sim-chat").bearer(&key).answer().await.json();
    assert_eq!(one, list["data"][0]);
    assert_eq!(one["object"], "model");
    assert!(one["created"].is_i64() && one["owned_by"].is_string(), "{one}");
}
