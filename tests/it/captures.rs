//! Captures of requests for debugging: who may make them, what they contain, and what they never do.

use proto::v1::{self, WireMessageKind as Kind};
use tests::{ManualClock, Product, RawUpstream, Session, chunk, json_answer, question};
use tonic::Code;

const ANSWER: &str = r#"{"choices":[{"message":{"content":"use sk-proj-0123456789abcdef"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;

async fn capture(session: &Session, key: &str) -> Result<v1::CaptureRequestsResponse, Code> {
    let request = v1::CaptureRequestsRequest { key: key.to_owned(), seconds: 600 };
    let answer = session.usage().capture_requests(request).await;
    answer.map(tonic::Response::into_inner).map_err(|refused| refused.code())
}

async fn wire(session: &Session, id: &str) -> Result<Vec<v1::WireMessage>, Code> {
    let request = v1::GetRequestWireRequest { id: id.to_owned() };
    let answer = session.usage().get_request_wire(request).await;
    answer.map(|answer| answer.into_inner().messages).map_err(|refused| refused.code())
}

/// Adds the model `m` on an upstream that gets `credential`.
async fn add_model(operator: &Session, upstream: &RawUpstream, credential: &str) {
    let secret = v1::credential::Source::Secret(credential.to_owned());
    operator
        .add_upstream(v1::Upstream {
            name: "up".to_owned(),
            url: upstream.url.clone(),
            credential: Some(v1::Credential { source: Some(secret) }),
            ..Default::default()
        })
        .await;
    operator.add_model(tests::priced_model("m", &[("up", "real-m")])).await;
}

fn kinds(messages: &[v1::WireMessage]) -> Vec<Kind> {
    messages.iter().map(v1::WireMessage::kind).collect()
}

/// Returns all text of the messages.
fn text(messages: &[v1::WireMessage]) -> String {
    let all = messages.iter().flat_map(|it| it.head.iter().chain([&it.body]));
    all.map(String::as_str).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_capture_has_all_four_sides_and_no_secret() {
    let upstream = RawUpstream::start().await;
    let product = Product::on_http1(|_| {}).await;
    let operator = product.operator().await;
    let credential = "upstream-password-without-a-prefix";
    add_model(&operator, &upstream, credential).await;
    let alice = product.member("alice").await;
    let key = alice.key().await;
    assert_eq!(wire(&operator, "019a9f0e-0000-7000-8000-00000000000a").await, Err(Code::NotFound));
    capture(&operator, &key.id).await.unwrap();

    let prompt = format!("marmalade, and my key is\n{}", key.secret);
    let body = question("m", &prompt);
    let answering = async { upstream.answer(json_answer(200, ANSWER)).await };
    let (answer, call) = tokio::join!(product.chat(&key.secret, &body).answer(), answering);
    assert_eq!(answer.status, 200);
    assert!(call.head.contains(credential));
    let id = answer.headers["x-request-id"].to_str().unwrap().to_owned();
    let messages = wire(&operator, &id).await.unwrap();
    assert_eq!(kinds(&messages), [Kind::Received, Kind::Sent, Kind::Answered, Kind::Returned]);
    let [received, sent, answered, returned] = &messages[..] else { panic!("four") };
    assert!(received.body.contains("marmalade") && received.body.contains("\"m\""), "{received:?}");
    assert!(sent.body.contains("real-m") && sent.upstream == "up", "{sent:?}");
    assert_eq!(answered.body_bytes, ANSWER.len() as u64);
    assert!(returned.body.contains("use [redacted]"), "{returned:?}");
    let all = text(&messages);
    for forbidden in [&*key.secret, credential, "sk-proj", "Bearer"] {
        assert!(!all.contains(forbidden), "{forbidden} is in {all}");
    }
    assert!(all.contains("authorization: [redacted]"), "{all}");

    // Both acts are in the audit log.
    let entries = operator.audit().list_audit(v1::ListAuditRequest::default()).await.unwrap();
    let actions: Vec<_> = entries.into_inner().entries.into_iter().map(|it| it.action).collect();
    for action in ["key.capture", "request.wire"] {
        assert!(actions.iter().any(|it| it == action), "{action} is not in {actions:?}");
    }
}

#[tokio::test]
async fn a_stream_is_captured_as_the_client_gets_it() {
    let product = Product::start().await;
    let operator = product.operator().await;
    let key = product.member("alice").await.key().await;
    capture(&operator, &key.id).await.unwrap();
    let mut body = question("sim-chat", "hi");
    body["stream"] = true.into();
    let answer = product.chat(&key.secret, &body).answer().await;
    let id = answer.headers["x-request-id"].to_str().unwrap().to_owned();
    let messages = wire(&operator, &id).await.unwrap();
    let returned = messages.last().unwrap();
    assert_eq!(returned.kind(), Kind::Returned);
    assert_eq!(returned.body.as_bytes(), &answer.body[..]);
    assert_eq!(returned.body_bytes, answer.body.len() as u64);
}

/// The upstream echoes its credential in an event, as a JSON string with an escape of the encoder's choice, and in two
/// events.
#[tokio::test]
async fn a_stream_is_captured_without_the_credential_of_its_upstream() {
    let upstream = RawUpstream::start().await;
    let product = Product::on_http1(|_| {}).await;
    let operator = product.operator().await;
    let credential = "upstream/password/without/a/prefix";
    add_model(&operator, &upstream, credential).await;
    let key = product.member("alice").await.key().await;
    capture(&operator, &key.id).await.unwrap();
    let mut body = question("m", "hi");
    body["stream"] = true.into();
    let echoing = async {
        let mut call = upstream.begin_stream().await;
        let (begun, rest) = credential.split_at(15);
        for shown in [
            format!("it is {credential}"),
            format!("it is {}", credential.replace('/', "\\/")),
            format!(", or it is {begun}"),
            format!("{rest}."),
        ] {
            let delta = format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{shown}"}}}}]}}"#);
            call.send(chunk(&format!("data: {delta}\n\n"))).await;
        }
        call.send(chunk("data: [DONE]\n\n") + &chunk("")).await;
        call.finish().await;
    };
    let (answer, ()) = tokio::join!(product.chat(&key.secret, &body).answer(), echoing);
    let id = answer.headers["x-request-id"].to_str().unwrap().to_owned();
    let messages = wire(&operator, &id).await.unwrap();
    let returned = messages.last().unwrap();
    assert_eq!(returned.kind(), Kind::Returned);
    assert_eq!(returned.body.matches("it is [redacted]").count(), 3, "{returned:?}");
    let all = text(&messages);
    assert!(!all.contains("pass") && !all.contains("prefix"), "{messages:?}");
}

#[tokio::test]
async fn captures_are_for_operators_and_end_and_are_forgotten() {
    let clock = ManualClock::at("2026-11-20T10:30:00Z");
    let setup_clock = clock.clone();
    let product = Product::with(|setup| setup.clock = std::sync::Arc::new(setup_clock)).await;
    let operator = product.operator().await;
    let alice = product.member("alice").await;
    let key = alice.key().await;
    assert_eq!(capture(&alice, &key.id).await.map(|_| ()), Err(Code::PermissionDenied));
    assert_eq!(capture(&operator, "unknown").await.map(|_| ()), Err(Code::NotFound));
    let day = v1::CaptureRequestsRequest { key: key.id.clone(), seconds: 86_400 };
    let refused = operator.usage().capture_requests(day).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);

    capture(&operator, &key.id).await.unwrap();
    let ask = async || {
        let answer = product.chat(&key.secret, &question("sim-chat", "hi")).answer().await;
        answer.headers["x-request-id"].to_str().unwrap().to_owned()
    };
    let captured = ask().await;
    assert_eq!(wire(&operator, &captured).await.unwrap().len(), 4);
    assert_eq!(wire(&alice, &captured).await, Err(Code::PermissionDenied));
    clock.advance(std::time::Duration::from_mins(10));
    let later = ask().await;
    assert_eq!(wire(&operator, &later).await, Err(Code::NotFound));
    assert_eq!(wire(&operator, &captured).await.unwrap().len(), 4);
    clock.advance(std::time::Duration::from_mins(50));
    assert_eq!(wire(&operator, &captured).await, Err(Code::NotFound));
}
