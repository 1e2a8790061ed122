//! Tests of forwarded bodies and refusals.

use bytes::{Buf, Bytes};

use super::super::splice::splice;
use super::*;

fn sent_upstream(body: &'static str) -> String {
    let bytes = Bytes::from_static(body.as_bytes());
    let edits = ChatRequest::peek(&bytes).unwrap().edits("up/stream", None, &["max_tokens"]);
    let mut payload = splice(&bytes, &edits);
    String::from_utf8(payload.copy_to_bytes(payload.remaining()).to_vec()).unwrap()
}

#[test]
fn changes_only_model_and_stream_options() {
    for (sent, forwarded) in [
        (
            r#"{ "x":[1, 2],"model" : "m","messages":[{}] }"#,
            r#"{ "x":[1, 2],"model" : "up/stream","messages":[{}] }"#,
        ),
        (r#"{"messages":[{}],"model":"up/stream"}"#, r#"{"messages":[{}],"model":"up/stream"}"#),
        (
            r#"{"model":"m","messages":[{}],"stream":true}"#,
            r#"{"model":"up/stream","stream_options":{"include_usage":true},"messages":[{}],"stream":true}"#,
        ),
        (
            r#"{"stream_options":{"x":1},"model":"m","messages":[{}],"stream":true}"#,
            r#"{"stream_options":{"include_usage":true,"x":1},"model":"up/stream","messages":[{}],"stream":true}"#,
        ),
        (
            r#"{"model":"up/stream","messages":[{}],"stream":true,"stream_options":null}"#,
            r#"{"model":"up/stream","messages":[{}],"stream":true,"stream_options":{"include_usage":true}}"#,
        ),
        (
            r#"{"model":"up/stream","messages":[{}],"stream":true,"stream_options":{"include_usage":false}}"#,
            r#"{"model":"up/stream","messages":[{}],"stream":true,"stream_options":{"include_usage":true}}"#,
        ),
        (
            r#"{"model":"up/stream","messages":[{}],"stream":true,"stream_options":{"include_usage":true}}"#,
            r#"{"model":"up/stream","messages":[{}],"stream":true,"stream_options":{"include_usage":true}}"#,
        ),
    ] {
        assert_eq!(sent_upstream(sent), forwarded);
    }
}

#[test]
fn caps_are_lowered_or_added_but_never_raised() {
    for (sent, forwarded) in [
        (
            r#"{"model":"m","max_tokens":900,"messages":[{}]}"#,
            r#"{"model":"up","max_tokens":50,"messages":[{}]}"#,
        ),
        (
            r#"{"max_completion_tokens":900,"max_tokens":40,"model":"up","messages":[{}]}"#,
            r#"{"max_tokens":50,"model":"up","messages":[{}]}"#,
        ),
        (
            r#"{"model":"m","max_tokens":null,"messages":[{}],"stream":true}"#,
            r#"{"model":"up","stream_options":{"include_usage":true},"max_tokens":50,"messages":[{}],"stream":true}"#,
        ),
        (r#"{"model":"m","messages":[{}]}"#, r#"{"model":"up","max_tokens":50,"messages":[{}]}"#),
    ] {
        let bytes = Bytes::from_static(sent.as_bytes());
        let edits = ChatRequest::peek(&bytes).unwrap().edits("up", Some(50), &["max_tokens"]);
        let mut payload = splice(&bytes, &edits);
        let text = payload.copy_to_bytes(payload.remaining());
        assert_eq!(text, forwarded);
    }
    let body = br#"{"model":"m","messages":[{}],"n":3,"max_tokens":7}"#;
    let request = ChatRequest::peek(body).unwrap();
    assert_eq!((request.choices, request.max_output), (3, Some(7)));
}

#[track_caller]
fn check_removal(sent: &'static str, forwarded: &str) {
    assert_eq!(sent_upstream(sent), forwarded);
    serde_json::from_str::<serde_json::Value>(forwarded).unwrap();
}

#[test]
fn removed_fields_leave_valid_json() {
    const UP: &str = r#"{"model":"up/stream","messages":[{}]}"#;
    check_removal(r#"{"n_predict":1,"model":"up/stream","messages":[{}]}"#, UP);
    check_removal(r#"{"n_predict":1,"max_length":2,"model":"up/stream","messages":[{}]}"#, UP);
    check_removal(r#"{"model":"up/stream","n_predict":1,"messages":[{}]}"#, UP);
    check_removal(r#"{"model":"up/stream","messages":[{}],"n_predict":1}"#, UP);
    check_removal(r#"{"model":"up/stream","messages":[{}],"n_predict":1,"n_predict":[2]}"#, UP);
    check_removal(
        r#"{ "model":"m" , "n\u005fpredict" : 1 , "messages":[{}] , "num_predict" :"}" }"#,
        r#"{ "model":"up/stream" ,  "messages":[{}]  }"#,
    );
    check_removal(
        r#"{"max_new_tokens":1,"model":"up/stream","a\"b":0,"maxNewTokens":2,"messages":[{}],"x":[1,2],"n_predict":3}"#,
        r#"{"model":"up/stream","a\"b":0,"messages":[{}],"x":[1,2]}"#,
    );
    check_removal(
        r#"{"model":"up/stream","messages":[{}],"options":{"num_predict":1,"a":{"num_predict":2},"max_tokens":3},"parameters":{"max_new_tokens":1}}"#,
        r#"{"model":"up/stream","messages":[{}],"options":{"a":{"num_predict":2}},"parameters":{}}"#,
    );
    check_removal(
        r#"{"model":"up/stream","messages":[{}],"n_predict":1,"options":{"num_predict":1,"n_predict":2},"max_length":2}"#,
        r#"{"model":"up/stream","messages":[{}],"options":{}}"#,
    );
}

#[test]
fn other_stream_options_are_preserved() {
    for (options, expected) in [
        ("{ }", r#"{"include_usage":true }"#),
        (r#"{"x":1e999}"#, r#"{"include_usage":true,"x":1e999}"#),
        (
            r#"{"x":{"include_usage":7}, "include_usage" : null }"#,
            r#"{"x":{"include_usage":7}, "include_usage" : true }"#,
        ),
    ] {
        let body = |options: &str| {
            format!(
                r#"{{"model":"up","messages":[{{}}],"stream":true,"stream_options":{options}}}"#
            )
        };
        let sent = body(options);
        let edits = ChatRequest::peek(sent.as_bytes()).unwrap().edits("up", None, &["max_tokens"]);
        let mut payload = splice(&Bytes::from(sent.clone()), &edits);
        assert_eq!(payload.copy_to_bytes(payload.remaining()), body(expected));
    }
}

#[test]
fn too_many_or_too_deep_removed_fields_are_refused() {
    let many = r#","n_predict":1"#.repeat(33);
    let body = format!(r#"{{"model":"m","messages":[{{}}]{many}}}"#);
    assert!(ChatRequest::peek(body.as_bytes()).is_err());
    let deep = r#"{"options":"#.repeat(1_000);
    let body =
        format!(r#"{{"model":"m","messages":[{{}}],"options":{deep}1{}}}"#, "}".repeat(1_000));
    match ChatRequest::peek(body.as_bytes()) {
        Err(Refusal::InvalidRequest { param, .. }) => {
            assert_eq!(param.as_deref(), Some("options.options.options.options"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn refusals_name_the_field() {
    use RequestFault::{InvalidJson, InvalidType, InvalidValue, MissingRequiredParameter};
    let deep = format!(r#"{{"model":"m","messages":[{}]}}"#, "[".repeat(100_000));
    for (body, expected_code, expected_param) in [
        ("", InvalidJson, None),
        ("[]", InvalidJson, None),
        ("{\"model\":", InvalidJson, None),
        (r#"{"model":"a","model":"b","messages":[{}]}"#, InvalidJson, None),
        (deep.as_str(), InvalidJson, None),
        ("{}", MissingRequiredParameter, Some("model")),
        (r#"{"model":null}"#, MissingRequiredParameter, Some("model")),
        (r#"{"model":7}"#, InvalidType, Some("model")),
        (r#"{"model":""}"#, MissingRequiredParameter, Some("model")),
        (r#"{"model":"m"}"#, MissingRequiredParameter, Some("messages")),
        (r#"{"model":"m","messages":"hi"}"#, InvalidType, Some("messages")),
        (r#"{"model":"m","messages":[ ]}"#, InvalidValue, Some("messages")),
        (r#"{"model":"m","messages":[{}],"stream":"yes"}"#, InvalidType, Some("stream")),
        (r#"{"model":"m","messages":[{}],"max_tokens":-1}"#, InvalidValue, Some("max_tokens")),
        (r#"{"model":"m","messages":[{}],"max_tokens":1e99}"#, InvalidValue, Some("max_tokens")),
        (
            r#"{"model":"m","messages":[{}],"max_completion_tokens":"9"}"#,
            InvalidType,
            Some("max_completion_tokens"),
        ),
        (
            r#"{"model":"m","messages":[{}],"stream_options":[]}"#,
            InvalidType,
            Some("stream_options"),
        ),
        (
            r#"{"model":"m","messages":[{}],"stream_options":{"include_usage":1}}"#,
            InvalidType,
            Some("stream_options.include_usage"),
        ),
    ] {
        let shown: String = body.chars().take(80).collect();
        match ChatRequest::peek(body.as_bytes()) {
            Err(Refusal::InvalidRequest { code, param, .. }) => {
                assert_eq!((code, param.as_deref()), (expected_code, expected_param), "{shown}");
            }
            other => panic!("{shown}: {other:?}"),
        }
    }
    assert!(ChatRequest::peek(b"{\"model\":\"\xff\"}").is_err());
}
