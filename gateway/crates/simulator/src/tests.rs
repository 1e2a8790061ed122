//! Tests of the simulator through an HTTP client on an in-memory connection.

use std::time::Duration;

use http::StatusCode;
use hyper::client::conn::http1::{SendRequest, handshake};

use super::*;

type Client = SendRequest<Full<Bytes>>;

struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
    /// Whether the body is complete.
    is_complete: bool,
}

fn simulator() -> Simulator {
    Simulator::new(Settings { seed: 1, truth: TruthLog::memory() })
}

/// Connects `client` and runs until both sides are done.
async fn connected<T>(simulator: &Simulator, client: impl AsyncFnOnce(Client) -> T) -> T {
    let (near, far) = tokio::io::duplex(256);
    let (sender, connection) = handshake(TokioIo::new(near)).await.expect("a connection");
    tokio::join!(simulator.serve(far), connection, client(sender)).2
}

fn chat(change: Value) -> Request<Full<Bytes>> {
    let mut body = json!({
        "model": "sim-chat", "messages": [{ "role": "user", "content": "What is up?" }],
    });
    let Value::Object(change) = change else { panic!("{change} is no object") };
    body.as_object_mut().expect("an object").extend(change);
    request("POST", "/v1/chat/completions", body.to_string())
}

fn request(method: &str, path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let request = Request::builder().method(method).uri(path).header("x-request-id", "request 1");
    request.body(Full::new(body.into())).expect("a request")
}

async fn fetch(client: &mut Client, request: Request<Full<Bytes>>) -> Reply {
    let (head, mut body) = client.send_request(request).await.expect("a head").into_parts();
    let mut bytes = Vec::new();
    let is_complete = loop {
        match body.frame().await {
            Some(Ok(frame)) => bytes.extend_from_slice(frame.data_ref().expect("no trailers")),
            Some(Err(_)) => break false,
            None => break true,
        }
    };
    let text = String::from_utf8(bytes).expect("text");
    Reply { status: head.status, headers: head.headers, text, is_complete }
}

/// Sends one request on a new connection.
async fn ask(simulator: &Simulator, request: Request<Full<Bytes>>) -> Reply {
    connected(simulator, async |mut client| fetch(&mut client, request).await).await
}

async fn ask_stream(simulator: &Simulator, model: &str) -> Reply {
    let usage = json!({ "include_usage": true });
    ask(simulator, chat(json!({ "model": model, "stream": true, "stream_options": usage }))).await
}

fn last(simulator: &Simulator) -> TruthEntry {
    simulator.truth().entries().pop().expect("an entry")
}

#[test]
fn a_connection_can_be_served_by_any_thread() {
    fn check(_: impl Send) {}
    let (_, far) = tokio::io::duplex(1);
    check(simulator().serve(far));
}

#[tokio::test(start_paused = true)]
async fn a_plain_answer_is_complete_and_logged() {
    let simulator = simulator();
    let got = ask(&simulator, chat(json!({}))).await;
    let body: Value = serde_json::from_str(&got.text).expect("JSON");
    assert_eq!((got.status, got.is_complete), (StatusCode::OK, true));
    let content = body["choices"][0]["message"]["content"].as_str().expect("text");
    assert!(content.starts_with("Simulated answer to \"What is up?\":"), "{content}");
    assert_eq!(body["usage"]["prompt_tokens"], 3);

    let tokens = content.split_whitespace().count() as u64;
    let expected = TruthEntry {
        seq: 1,
        id: Some("request 1".to_owned()),
        model: "sim-chat".to_owned(),
        stream: false,
        end: Some(RequestEnd::Answered),
        prompt_tokens: 3,
        completion_tokens: tokens,
        completion_tokens_whole: tokens,
        usage_sent: true,
    };
    assert_eq!(last(&simulator), expected);
}

#[tokio::test(start_paused = true)]
async fn streams_end_with_usage_and_done() {
    let simulator = simulator();
    let got = ask_stream(&simulator, "sim-chat?say='a b'&pace_ms=60000&latency_ms=3600000").await;
    assert_eq!(got.headers[header::CONTENT_TYPE], "text/event-stream");
    let events: Vec<&str> = got.text.split_terminator("\n\n").collect();
    assert_eq!((events.len(), got.is_complete), (6, true));
    assert!(events[0].contains("\"role\":\"assistant\""));
    assert!(events[1].contains("\"content\":\"a\""));
    assert!(events[2].contains("\"content\":\" b\""));
    assert!(events[3].contains("\"finish_reason\":\"stop\""));
    assert!(events[4].contains("\"completion_tokens\":2"));
    assert_eq!(events[5], "data: [DONE]");
    let entry = last(&simulator);
    assert_eq!((entry.end, entry.completion_tokens), (Some(RequestEnd::Answered), 2));
    assert!(entry.usage_sent);
}

#[tokio::test(start_paused = true)]
async fn answers_are_deterministic() {
    let of = async |seed, change| {
        let simulator = Simulator::new(Settings { seed, truth: TruthLog::memory() });
        ask(&simulator, chat(change)).await.text
    };
    assert_eq!(of(1, json!({})).await, of(1, json!({})).await);
    assert_ne!(of(1, json!({})).await, of(2, json!({})).await);
    assert_ne!(of(1, json!({})).await, of(1, json!({ "top_p": 1 })).await);
}

#[tokio::test(start_paused = true)]
async fn a_connection_serves_several_requests() {
    let simulator = simulator();
    connected(&simulator, async |mut client| {
        for _ in 0..2 {
            assert!(fetch(&mut client, chat(json!({ "stream": true }))).await.is_complete);
            client.ready().await.expect("still connected");
        }
        assert_eq!(fetch(&mut client, request("GET", "/models", "")).await.status, 200);
    })
    .await;
    assert_eq!(simulator.truth().entries().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_gets_an_error_and_is_logged() {
    let simulator = simulator();
    for (body, status, model) in [
        ("{", StatusCode::BAD_REQUEST, ""),
        (r#"{"model":"sim"}"#, StatusCode::BAD_REQUEST, "sim"),
        (r#"{"model":"x","messages":[{"role":"user"}]}"#, StatusCode::NOT_FOUND, "x"),
    ] {
        let got = ask(&simulator, request("POST", "/chat/completions", body)).await;
        let error: Value = serde_json::from_str(&got.text).expect("JSON");
        assert_eq!(
            (got.status, &error["error"]["type"]),
            (status, &json!("invalid_request_error"))
        );
        assert_eq!(last(&simulator).model, model);
        assert_eq!(last(&simulator).end, Some(RequestEnd::Error));
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_paths_and_methods_are_refused() {
    for (method, path, status) in [
        ("GET", "/v1/models", 200),
        ("GET", "/v1/chat/completions", 405),
        ("POST", "/v1/models", 405),
        ("GET", "/v1/embeddings", 404),
    ] {
        assert_eq!(ask(&simulator(), request(method, path, "")).await.status, status, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_scripted_status_has_its_retry_after_header() {
    let simulator = simulator();
    let got = ask(&simulator, chat(json!({ "model": "sim?status=429&retry_after=7" }))).await;
    assert_eq!(got.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(got.headers[header::RETRY_AFTER], "7");
    assert!(got.text.contains("rate_limit_exceeded"));
    assert_eq!(last(&simulator).end, Some(RequestEnd::Error));
}

#[tokio::test(start_paused = true)]
async fn a_cut_drops_the_connection_after_exactly_the_given_events() {
    for events in [0, 1, 30] {
        let simulator = simulator();
        let got = ask_stream(&simulator, &format!("sim-chat?words=100&cut={events}")).await;
        assert_eq!((got.text.matches("\n\n").count(), got.is_complete), (events, false));
        let entry = last(&simulator);
        assert_eq!(entry.end, Some(RequestEnd::Cut));
        assert_eq!(entry.completion_tokens, events.saturating_sub(1) as u64);
        assert_eq!((entry.completion_tokens_whole, entry.usage_sent), (100, false));
    }
}

#[tokio::test(start_paused = true)]
async fn a_plain_answer_is_cut_after_exactly_the_given_bytes() {
    for bytes in [0, 1, 400] {
        let simulator = simulator();
        let model = format!("sim-chat?words=100&cut={bytes}");
        let got = ask(&simulator, chat(json!({ "model": model }))).await;
        assert_eq!((got.text.len(), got.is_complete), (bytes, false));
        let entry = last(&simulator);
        assert_eq!((entry.end, entry.completion_tokens), (Some(RequestEnd::Cut), 0));
    }
}

#[tokio::test(start_paused = true)]
async fn errors_and_garbage_are_sent_within_the_stream() {
    let simulator = simulator();
    let got = ask_stream(&simulator, "sim-chat?say=a&garbage=1&error=2").await;
    let events: Vec<&str> = got.text.split_terminator("\n\n").collect();
    assert_eq!((events.len(), got.is_complete), (4, true));
    assert!(serde_json::from_str::<Value>(events[1].trim_start_matches("data: ")).is_err());
    assert!(events[3].starts_with("data: {\"error\":"));
    assert_eq!(last(&simulator).end, Some(RequestEnd::Error));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_disconnects_is_logged_as_gone() {
    for (model, tokens) in [("sim?stall=3", 2), ("sim?latency_ms=900000", 0)] {
        let simulator = simulator();
        connected(&simulator, async |mut client| {
            let request = chat(json!({ "model": model, "stream": true }));
            let read = async {
                let mut body = client.send_request(request).await.expect("a head").into_body();
                while body.frame().await.is_some() {}
            };
            let timeout = Duration::from_mins(1);
            tokio::time::timeout(timeout, read).await.expect_err("an end of the stream");
        })
        .await;
        let entry = last(&simulator);
        assert_eq!((entry.end, entry.completion_tokens), (Some(RequestEnd::Gone), tokens));
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_with_times_does_not_recur() {
    let simulator = simulator();
    let cut = || {
        let messages = json!([{ "role": "user", "content": "[sim say=\"a b c\" cut=2 times=1]" }]);
        chat(json!({ "messages": messages, "stream": true }))
    };
    assert!(!ask(&simulator, cut()).await.is_complete);
    let again = ask(&simulator, cut()).await;
    assert!(again.is_complete && again.text.ends_with("[DONE]\n\n"), "{}", again.text);
    let busy = ask(&simulator, chat(json!({ "model": "sim-chat?status=503&times=1" }))).await;
    assert_eq!(busy.status, StatusCode::SERVICE_UNAVAILABLE);
    let well = ask(&simulator, chat(json!({ "model": "sim-chat?status=503&times=1" }))).await;
    assert_eq!(well.status, StatusCode::OK);
}
