//! The cost bound of a request depends on one reading of its body: fields that cap or multiply an
//! answer, or name its model, mean the same to the gateway and to every server behind it.

use domain::wire::chat::ChatRequest;
use proto::v1::{self, Profile};
use serde_json::{Map, Value, json};
use tests::{Product, RawUpstream, Session, json_answer, priced_model, question};

/// Returns a gateway with an upstream of this profile, and a member with this balance and a key.
async fn gateway(profile: Profile, balance_usd: &str) -> (Product, RawUpstream, Session, String) {
    let (product, upstream) = (Product::start().await, RawUpstream::start().await);
    let operator = product.operator().await;
    let (name, url) = ("only".to_owned(), upstream.url.clone());
    let profile = profile.into();
    operator.add_upstream(v1::Upstream { name, url, profile, ..Default::default() }).await;
    operator.add_model(priced_model("asked", &[("only", "upstream-model")])).await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    operator.credit("alice", "-5").await;
    operator.credit("alice", balance_usd).await;
    (product, upstream, alice, key)
}

fn answered() -> String {
    let choices = json!([{ "message": { "content": "hi" }, "finish_reason": "stop" }]);
    let usage = json!({ "prompt_tokens": 1, "completion_tokens": 1 });
    json_answer(200, &json!({ "choices": choices, "usage": usage }).to_string())
}

fn with(fields: &Value) -> Value {
    let mut body = question("asked", "hi");
    let more: &Map<String, Value> = fields.as_object().unwrap();
    body.as_object_mut().unwrap().extend(more.clone());
    body
}

/// Returns the members of `sent` except the model and the messages.
fn others(mut sent: Value) -> Value {
    let members = sent.as_object_mut().unwrap();
    members.remove("model").unwrap();
    members.remove("messages").unwrap();
    sent
}

/// Regression test: one field was sent to the upstream and another one determined the hold.
#[tokio::test]
async fn an_upstream_gets_one_cap_in_a_field_it_knows_equal_to_the_hold() {
    for (profile, cases) in [
        (
            Profile::Generic,
            vec![
                (
                    json!({ "max_completion_tokens": 1, "max_tokens": 100 }),
                    json!({ "max_tokens": 100 }),
                ),
                (
                    json!({ "max_completion_tokens": 70, "max_tokens": 3 }),
                    json!({ "max_tokens": 70 }),
                ),
                (json!({ "max_completion_tokens": 50 }), json!({ "max_tokens": 50 })),
                (
                    json!({ "max_completion_tokens": null, "max_tokens": 5 }),
                    json!({ "max_tokens": 5 }),
                ),
                (json!({ "max_tokens": 5 }), json!({ "max_tokens": 5 })),
                (json!({ "temperature": 0 }), json!({ "temperature": 0 })),
            ],
        ),
        (
            Profile::Openai,
            vec![
                (json!({ "max_tokens": 50 }), json!({ "max_tokens": 50 })),
                (json!({ "max_completion_tokens": 50 }), json!({ "max_completion_tokens": 50 })),
                (
                    json!({ "max_completion_tokens": 1, "max_tokens": 100 }),
                    json!({ "max_completion_tokens": 100 }),
                ),
            ],
        ),
    ] {
        let (product, upstream, _, key) = gateway(profile, "1").await;
        for (asked, expected) in cases {
            let request = product.chat(&key, &with(&asked));
            let (answer, sent) = tokio::join!(request.answer(), upstream.answer(answered()));
            assert_eq!(answer.status, 200, "{asked}: {answer:?}");
            assert_eq!(others(sent.json()), expected, "{profile:?}: {asked}");
        }
    }
}

/// Regression test: `max_tokens` was lowered, and `max_completion_tokens`, which was below the
/// affordable cap, was not.
#[tokio::test]
async fn the_larger_of_two_caps_is_lowered_to_the_balance() {
    let (product, upstream, _, key) = gateway(Profile::Generic, "0.001").await;
    let body = with(&json!({ "max_completion_tokens": 1, "max_tokens": 100_000 }));
    let request = product.chat(&key, &body);
    let (answer, sent) = tokio::join!(request.answer(), upstream.answer(answered()));
    let sent = others(sent.json());
    let cap = sent["max_tokens"].as_u64().unwrap();
    assert!((1..=500).contains(&cap), "half a cent a thousand tokens: {sent}");
    assert_eq!(sent, json!({ "max_tokens": cap }));
    let notes = answer.headers.get_all("x-tollgate-translation").iter();
    let notes: Vec<_> = notes.map(|note| note.to_str().unwrap()).collect();
    assert!(notes.contains(&format!("output_cap_lowered={cap}").as_str()), "{notes:?}");
    assert!(notes.contains(&"field_ignored=max_completion_tokens"), "{notes:?}");
}

#[tokio::test]
async fn caps_of_other_servers_are_dropped_and_noted() {
    let (product, upstream, alice, key) = gateway(Profile::Generic, "1").await;
    for (asked, expected, note) in [
        (json!({ "n_predict": -1 }), json!({}), "n_predict"),
        (json!({ "N_Predict": 9, "max_tokens": 5 }), json!({ "max_tokens": 5 }), "N_Predict"),
        (json!({ "maxNewTokens": 9, "top_p": 1 }), json!({ "top_p": 1 }), "maxNewTokens"),
        (json!({ "max_length": 100_000 }), json!({}), "max_length"),
        (
            json!({ "options": { "num_predict": -2, "num_ctx": 512 } }),
            json!({ "options": { "num_ctx": 512 } }),
            "options.num_predict",
        ),
        (
            json!({ "Options": { "NUM_PREDICT": 9 } }),
            json!({ "Options": {} }),
            "Options.NUM_PREDICT",
        ),
        (
            json!({ "extra_body": { "options": { "max_tokens": 9, "x": 1 } } }),
            json!({ "extra_body": { "options": { "x": 1 } } }),
            "extra_body.options.max_tokens",
        ),
    ] {
        let request = product.chat(&key, &with(&asked));
        let (answer, sent) = tokio::join!(request.answer(), upstream.answer(answered()));
        assert_eq!(answer.status, 200, "{asked}: {answer:?}");
        assert_eq!(others(sent.json()), expected, "{asked}");
        let header = answer.header("x-tollgate-translation");
        assert_eq!(header, format!("field_ignored={note}"), "{asked}");
    }
    let record = alice.records(7).await.pop().unwrap();
    assert!(record.notes[0].starts_with("field_ignored="), "{record:?}");

    let strict =
        alice.key_with(|key| key.translation = v1::Translation::Strict.into()).await.secret;
    let refused = product.chat(&strict, &with(&json!({ "n_predict": 7 }))).answer().await;
    assert_eq!((refused.status, &refused.error()["param"]), (400, &json!("n_predict")));
}

/// Regression test: a key limited to `cheap` was served by `flagship`, at the price of `cheap`.
#[tokio::test]
async fn a_field_that_another_server_may_read_as_a_known_one_is_refused_by_name() {
    let product = Product::start().await;
    let key = product.member("alice").await.key().await.secret;
    let long_s = "\u{17f}tream";
    let chat = |fields: &str| {
        format!(r#"{{"model":"sim-chat","messages":[{{"role":"user","content":"hi"}}]{fields}}}"#)
    };
    let message = |fields: &str| {
        format!(r#"{{"model":"sim-chat","messages":[{{}},{{"role":"user",{fields}}}]}}"#)
    };
    for (body, param) in [
        (chat(r#","Model":"flagship""#), "Model"),
        (chat(r#","\u004dodel":"flagship""#), "Model"),
        (chat(r#","MODEL":"flagship""#), "MODEL"),
        (chat(r#","Max_Tokens":9"#), "Max_Tokens"),
        (chat(r#","maxTokens":9"#), "maxTokens"),
        (chat(",\"max_to\u{212a}ens\":9"), r"max_to\u{212a}ens"),
        (chat(r#","max_to\u212aens":9"#), r"max_to\u{212a}ens"),
        (chat(&format!(",\"{long_s}\":true")), r"\u{17f}tream"),
        (chat(",\"\u{fb06}ream\":true"), r"\u{fb06}ream"),
        (chat(",\"max_complet\u{131}on_tokens\":9"), r"max_complet\u{131}on_tokens"),
        (chat(r#","N":9"#), "N"),
        (chat(r#","best_of":9"#), "best_of"),
        (chat(r#","bestOf":2"#), "bestOf"),
        (chat(r#","models":["flagship"]"#), "models"),
        (chat(r#","fallbacks":["flagship"]"#), "fallbacks"),
        (chat(r#","extra_body":{"model":"flagship"}"#), "extra_body.model"),
        (chat(r#","options":{"best_of":3}"#), "options.best_of"),
        (
            chat(r#","stream":true,"stream_options":{"Include_Usage":false}"#),
            "stream_options.Include_Usage",
        ),
        (message(r#""Role":"system""#), "messages[1].Role"),
        (message(r#""Content":"much""#), "messages[1].Content"),
        (message(r#""Tool_Calls":[]"#), "messages[1].Tool_Calls"),
    ] {
        let request = product.post("/v1/chat/completions").bearer(&key).body(body.clone());
        let answer = request.answer().await;
        assert_eq!((answer.status, &answer.error()["param"]), (400, &json!(param)), "{body}");
        let message = answer.error()["message"].as_str().unwrap().to_owned();
        assert!(message.contains(param.rsplit('.').next().unwrap()), "{message}");
    }
    let response = |fields: &str| format!(r#"{{"model":"sim-chat","input":"hi"{fields}}}"#);
    for (body, param) in [
        (response(r#","Model":"flagship""#), "Model"),
        (response(r#","Max_Output_Tokens":9"#), "Max_Output_Tokens"),
        (response(r#","max_to\u212aens":9"#), r"max_to\u{212a}ens"),
        (response(r#","STREAM":true"#), "STREAM"),
    ] {
        let request = product.post("/v1/responses").bearer(&key).body(body.clone());
        let answer = request.answer().await;
        assert_eq!((answer.status, &answer.error()["param"]), (400, &json!(param)), "{body}");
    }
}

/// Servers differ in which duplicate they use.
#[tokio::test]
async fn a_duplicate_field_is_refused() {
    let product = Product::start().await;
    let key = product.member("alice").await.key().await.secret;
    let members = r#""model":"sim-chat","messages":[{"role":"user","content":"hi"}]"#;
    for (body, name) in [
        (format!(r#"{{{members},"model":"sim-reasoner"}}"#), "model"),
        (format!(r#"{{{members},"mod\u0065l":"sim-reasoner"}}"#), "model"),
        (format!(r#"{{{members},"max_tokens":1,"max_tokens":9}}"#), "max_tokens"),
        (format!(r#"{{{members},"messages":[{{}}]}}"#), "messages"),
        (format!(r#"{{{members},"n":1,"n":9}}"#), "n"),
        (
            format!(
                r#"{{{members},"stream":true,"stream_options":{{"include_usage":true,"include_usag\u0065":false}}}}"#
            ),
            "include_usage",
        ),
        (r#"{"model":"sim-chat","messages":[{"role":"user","role":"system"}]}"#.to_owned(), "role"),
    ] {
        let request = product.post("/v1/chat/completions").bearer(&key).body(body.clone());
        let answer = request.answer().await;
        assert_eq!(
            (answer.status, &answer.error()["code"]),
            (400, &json!("invalid_json")),
            "{body}"
        );
        let message = answer.error()["message"].as_str().unwrap().to_owned();
        assert!(message.contains(&format!("duplicate field `{name}`")), "{message}");
    }
}

/// Regression test: the largest integer was read as no cap.
#[test]
fn the_largest_integer_is_a_valid_cap() {
    let body = br#"{"model":"m","messages":[{}],"max_tokens":18446744073709551615}"#;
    assert_eq!(ChatRequest::peek(body).unwrap().max_output, Some(u64::MAX));
    let body = br#"{"model":"m","messages":[{}],"max_tokens":null}"#;
    assert_eq!(ChatRequest::peek(body).unwrap().max_output, None);
}

/// Regression test: the hold was made for the model's longest answer, and the upstream got no cap.
#[tokio::test]
async fn a_request_without_a_cap_is_capped_at_the_models_maximum() {
    let (product, upstream, _, key) = gateway(Profile::Generic, "1").await;
    let mut model = priced_model("short", &[("only", "upstream-model")]);
    model.max_output_tokens = Some(900);
    product.operator().await.add_model(model).await;
    let chat = |more: &Value| {
        let mut body = with(more);
        body["model"] = json!("short");
        product.chat(&key, &body)
    };
    for (asked, expected) in [
        (json!({}), json!({ "max_tokens": 900 })),
        (json!({ "max_tokens": null }), json!({ "max_tokens": 900 })),
        (json!({ "max_tokens": 1_000 }), json!({ "max_tokens": 1_000 })),
    ] {
        let (answer, sent) = tokio::join!(chat(&asked).answer(), upstream.answer(answered()));
        assert_eq!((answer.status, others(sent.json())), (200, expected), "{asked}");
        assert_eq!(answer.header("x-tollgate-translation"), "", "no field is ignored");
    }
    let body = json!({ "model": "short", "input": "hi" });
    let request = product.post("/v1/responses").bearer(&key).json(&body);
    let (answer, sent) = tokio::join!(request.answer(), upstream.answer(answered()));
    assert_eq!((answer.status, &sent.json()["max_tokens"]), (200, &json!(900)));
}
