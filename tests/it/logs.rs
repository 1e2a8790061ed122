//! The log of the real binary: its formats, the access log, and events for operators.

use proto::v1;
use serde_json::Value;
use tests::drill::rig;
use tests::http::Request;
use tests::process::Gateway;
use tests::{Session, question};

/// A name that would begin another line.
const FORGED: &str = "quince\n2026-01-01T00:00:00Z ERROR forged";
const PROMPT: &str = "marmalade";

/// Runs a gateway with an access log in `format`, sends a request and one with a forged name, and returns the log and
/// the record of the first one.
async fn log(format: &str) -> (String, v1::RequestRecord) {
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["--log-format", format, "--access-log", "on"];
    let gateway = Gateway::start(dir.path(), |command| {
        command.args(arguments);
    })
    .await;
    let operator = rig::operator(&gateway, dir.path()).await;
    let alice = Session::register(&gateway.admin, "alice", "correct horse battery alice").await;
    let key = alice.key().await;
    for (model, status) in [("sim-chat", 200), (FORGED, 404)] {
        let request = Request::post(gateway.http, "/v1/chat/completions").bearer(&key.secret);
        assert_eq!(request.json(&question(model, PROMPT)).answer().await.status, status);
    }
    let record = alice.records(2).await.swap_remove(0);
    let refused = v1::SignInRequest { name: "alice".to_owned(), password: "wrong".to_owned() };
    Session::anonymous(&gateway.admin).await.accounts().sign_in(refused).await.unwrap_err();
    let stranger = Session::with_token(&gateway.admin, "x", "tg-session-unknown").await;
    stranger.accounts().who_am_i(v1::WhoAmIRequest {}).await.unwrap_err();
    let token = operator.token.clone();
    drop((operator, alice, stranger));
    let log = gateway.stop().await;
    for secret in [&*key.secret, &token, PROMPT, "correct horse battery alice"] {
        assert!(!log.contains(secret), "{secret} is in {log}");
    }
    (log, record)
}

#[tokio::test]
async fn the_access_log_has_the_record_of_each_request() {
    let (log, record) = log("json").await;
    let lines: Vec<Value> =
        log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let of_event = |event: &str| -> Vec<&Value> {
        lines.iter().filter(|line| line["event"] == event).collect()
    };
    let [first, second] = of_event("request")[..] else { panic!("two requests: {log}") };
    let tokens = record.tokens.unwrap();
    for (field, expected) in [
        ("request_id", Value::from(record.id)),
        ("endpoint", record.endpoint.into()),
        ("model", "sim-chat".into()),
        ("upstream", "simulator".into()),
        ("status", "completed".into()),
        ("http_status", 200.into()),
        ("input_tokens", tokens.input.unwrap().into()),
        ("output_tokens", tokens.output.unwrap().into()),
        ("cost_usd", record.cost_usd.unwrap().into()),
        ("requests", 1.into()),
    ] {
        assert_eq!(first[field], expected, "{field} of {first}");
    }
    assert_eq!(
        (&second["model"], &second["error_code"]),
        (&FORGED.into(), &"model_not_found".into())
    );

    // The welcome at the first start is no part of the log.
    let rest = log.lines().skip_while(|line| !line.starts_with('{'));
    assert_eq!(rest.count(), lines.len(), "each line is an object: {log}");
    for event in ["serving", "session_opened", "sign_in_failed", "token_refused", "stopped"] {
        assert!(!of_event(event).is_empty(), "{event} is not in {log}");
    }
}

#[tokio::test]
async fn a_name_cannot_begin_a_line_of_the_human_format() {
    let (log, _) = log("human").await;
    let forged: Vec<_> = log.lines().filter(|line| line.contains("forged")).collect();
    let [line] = forged[..] else { panic!("one line: {forged:?}") };
    assert!(line.contains("event=\"request\"") && line.contains("quince\\n"), "{line}");
}

/// journald takes the level from the beginning of a line.
#[tokio::test]
async fn lines_for_journald_begin_with_their_levels() {
    let (log, _) = log("journald").await;
    let mut events = Vec::new();
    for line in log.lines().skip_while(|line| !line.starts_with('<')) {
        let (prefix, event) = line.split_at(3);
        let event: Value = serde_json::from_str(event).unwrap();
        let expected = match event["level"].as_str().unwrap() {
            "ERROR" => "<3>",
            "WARN" => "<4>",
            _ => "<6>",
        };
        assert_eq!(prefix, expected, "{line}");
        events.push(event["event"].clone());
    }
    for event in ["serving", "sign_in_failed", "stopped"] {
        assert!(events.contains(&event.into()), "{event} is not in {log}");
    }
}
