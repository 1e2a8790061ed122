//! Several credentials of one upstream: used in turn, each with its own pause.

use std::sync::Arc;
use std::time::Duration;

use proto::v1::{self, BreakerState, credential::Source};
use tests::{ManualClock, Product, RawUpstream, Session, json_answer, question, raw_answer};

const ANSWER: &str = r#"{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;

/// A gateway on a stopped clock with the model `asked`, whose first upstream has several credentials.
struct TestContext {
    product: Product,
    clock: ManualClock,
    operator: Session,
    alice: Session,
    key: String,
    upstream: RawUpstream,
    spare: RawUpstream,
}

impl TestContext {
    async fn start(secrets: &[&str]) -> Self {
        let clock = ManualClock::at("2026-11-20T10:00:00Z");
        let ours = clock.clone();
        let product = Product::with(|setup| setup.clock = Arc::new(ours)).await;
        let (upstream, spare) = (RawUpstream::start().await, RawUpstream::start().await);
        let operator = product.operator().await;
        operator.add_model_on("asked", &[&upstream.url, &spare.url]).await;
        let alice = product.member("alice").await;
        let key = alice.key().await.secret;
        let context = Self { product, clock, operator, alice, key, upstream, spare };
        context.set(secrets.iter().map(|it| Source::Secret((*it).to_owned()))).await;
        context
    }

    async fn set(&self, sources: impl Iterator<Item = Source>) -> v1::Upstream {
        let credentials = sources.map(|source| v1::Credential { source: Some(source) }).collect();
        let request = v1::UpdateUpstreamRequest {
            name: "up-asked-0".to_owned(),
            credentials: Some(v1::CredentialList { credentials }),
            ..Default::default()
        };
        let answer = self.operator.upstreams().update_upstream(request).await.unwrap();
        answer.into_inner().upstream.unwrap()
    }

    /// Sends a request to which the first upstream gives `answers` one after another. Returns the status and the
    /// credentials that it got.
    async fn request(&self, answers: &[String]) -> (u16, Vec<String>) {
        let request = self.product.chat(&self.key, &question("asked", "hi"));
        let answering = async {
            let mut credentials = Vec::new();
            for answer in answers {
                let call = self.upstream.answer(answer).await;
                let credential = call.header("authorization").unwrap();
                credentials.push(credential.strip_prefix("Bearer ").unwrap().to_owned());
            }
            credentials
        };
        let (answer, credentials) = tokio::join!(request.answer(), answering);
        (answer.status, credentials)
    }

    async fn health(&self) -> v1::UpstreamHealth {
        let request = v1::ListUpstreamHealthRequest {};
        let all = self.operator.traffic().list_upstream_health(request).await.unwrap();
        all.into_inner().upstreams.into_iter().find(|it| it.name == "up-asked-0").unwrap()
    }
}

fn good() -> String {
    json_answer(200, ANSWER)
}

fn busy(retry_after: u32) -> String {
    raw_answer(429, &format!("retry-after: {retry_after}\r\n"), "{}")
}

#[tokio::test]
async fn requests_use_the_credentials_in_turn_and_records_name_them() {
    let context = TestContext::start(&["sk-a", "sk-b", "sk-c"]).await;
    let mut used = Vec::new();
    for _ in 0..6 {
        let (status, credentials) = context.request(&[good()]).await;
        assert_eq!(status, 200);
        used.extend(credentials);
    }
    assert_eq!(used, ["sk-a", "sk-b", "sk-c", "sk-a", "sk-b", "sk-c"]);
    let notes: Vec<_> =
        context.alice.records(6).await.into_iter().flat_map(|record| record.notes).collect();
    assert_eq!(notes, [1, 2, 3, 1, 2, 3].map(|number| format!("credential={number}")));
    let health = context.health().await;
    let counts: Vec<_> = health.credentials.iter().map(|it| (it.number, it.requests)).collect();
    assert_eq!(counts, [(1, 2), (2, 2), (3, 2)]);
}

#[tokio::test]
async fn a_request_that_one_credential_may_not_send_is_sent_with_the_next() {
    let context = TestContext::start(&["sk-a", "sk-b", "sk-c"]).await;
    let revoked = json_answer(401, r#"{"error":{"message":"sk-c is revoked"}}"#);
    let (status, used) = context.request(&[busy(20), revoked, good()]).await;
    assert_eq!((status, used), (200, ["sk-a", "sk-c", "sk-b"].map(str::to_owned).to_vec()));
    let record = context.alice.record().await;
    let begins: Vec<_> = record.notes.iter().map(|note| note.split("ms").next().unwrap()).collect();
    let ends: Vec<_> = record.notes.iter().map(|note| note.rsplit(':').next().unwrap()).collect();
    assert!(begins[0].starts_with("failed_attempt=up-asked-0/upstream-model:http_429:"));
    assert!(begins[1].starts_with("failed_attempt=up-asked-0/upstream-model:http_401:"));
    assert_eq!(ends, ["credential=1", "credential=3", "credential=2"]);
    assert!(!format!("{record:?}").contains("sk-"), "{record:?}");

    // The others are paused.
    for _ in 0..3 {
        assert_eq!(context.request(&[good()]).await, (200, vec!["sk-b".to_owned()]));
    }
    let health = context.health().await;
    assert_eq!((health.breaker(), health.failures), (BreakerState::Closed, 0));
    let refusals: Vec<_> = health
        .credentials
        .iter()
        .map(|it| (it.refusals, it.last_refusal, it.paused_until.is_some()))
        .collect();
    assert_eq!(refusals, [(1, 429, true), (0, 0, false), (1, 401, true)]);
    context.clock.advance(Duration::from_secs(20));
    let mut used = Vec::new();
    for _ in 0..4 {
        used.extend(context.request(&[good()]).await.1);
    }
    used.sort_unstable();
    assert_eq!(used, ["sk-a", "sk-a", "sk-b", "sk-b"], "the revoked one is paused for longer");
}

#[tokio::test]
async fn the_next_deployment_is_tried_once_no_credential_is_free() {
    let context = TestContext::start(&["sk-a", "sk-b"]).await;
    let answers = [busy(30), busy(10)];
    let refused = context.request(&answers);
    let ((status, used), _) = tokio::join!(refused, context.spare.answer(good()));
    assert_eq!((status, used.len()), (200, 2));
    // The whole upstream is paused until its first credential is free.
    let (answer, _) = tokio::join!(context.request(&[]), context.spare.answer(good()));
    assert_eq!(answer.0, 200);
    context.clock.advance(Duration::from_secs(10));
    assert_eq!(context.request(&[good()]).await, (200, vec!["sk-b".to_owned()]));
}

#[tokio::test]
async fn credentials_are_kept_by_number_and_change_with_their_address() {
    let context = TestContext::start(&["sk-a", "sk-b", "sk-c"]).await;
    let kept = [Source::Current(3), Source::Secret("sk-d".to_owned()), Source::Current(1)];
    let changed = context.set(kept.into_iter()).await;
    assert_eq!(changed.credentials.len(), 3);
    assert_eq!(changed.credential.as_ref(), changed.credentials.first());
    assert!(!format!("{changed:?}").contains("sk-"), "{changed:?}");
    let mut used = Vec::new();
    for _ in 0..3 {
        used.extend(context.request(&[good()]).await.1);
    }
    assert_eq!(used, ["sk-c", "sk-d", "sk-a"]);

    let other = RawUpstream::start().await;
    let source = Source::Secret("sk-e".to_owned());
    let request = v1::UpdateUpstreamRequest {
        name: "up-asked-0".to_owned(),
        url: Some(other.url.clone()),
        credential: Some(v1::Credential { source: Some(source) }),
        ..Default::default()
    };
    context.operator.upstreams().update_upstream(request).await.unwrap();
    let request = context.product.chat(&context.key, &question("asked", "hi"));
    let (answer, call) = tokio::join!(request.answer(), other.answer(good()));
    assert_eq!((answer.status, call.header("authorization")), (200, Some("Bearer sk-e")));
    let notes: Vec<_> = context.alice.records(4).await.pop().unwrap().notes;
    assert!(notes.is_empty(), "the only credential is not named: {notes:?}");
}

/// Regression test: the log and the health of an upstream repeated what was in the answer's head.
#[tokio::test]
async fn no_credential_in_the_head_of_an_answer_is_shown_to_operators() {
    let context = TestContext::start(&["sk-aaaa", "sk-bbbb"]).await;
    for (status, header) in [
        (200, "content-type: text/sk-bbbb\r\n"),
        (200, "content-type: application/json\r\ncontent-encoding: sk-aaaa\r\n"),
        (307, "location: http://sk-bbbb.example/\r\n"),
    ] {
        let request = context.product.chat(&context.key, &question("asked", "hi"));
        let bad = context.upstream.answer(raw_answer(status, header, "{}"));
        let (answer, ..) = tokio::join!(request.answer(), bad, context.spare.answer(good()));
        assert_eq!(answer.status, 200, "{header}");
        let error = context.health().await.last_error;
        assert!(!error.is_empty() && !error.contains("sk-"), "{header}: {error}");
    }
}

/// Regression test: the header was copied whatever it contained.
#[tokio::test]
async fn a_header_of_an_answer_is_passed_on_only_if_it_is_a_number() {
    let context = TestContext::start(&["sk-aaaa", "271828"]).await;
    for (value, expected) in [
        ("42", Some("42")),
        ("42.5", Some("42.5")),
        ("Bearer sk-aaaa", None),
        ("sk-aaaa", None),
        ("12718280", None),
        ("", None),
        (".", None),
        ("1e9", None),
        ("1234567890123456", None),
    ] {
        let headers =
            format!("content-type: application/json\r\nopenai-processing-ms: {value}\r\n");
        let request = context.product.chat(&context.key, &question("asked", "hi"));
        let answering = context.upstream.answer(raw_answer(200, &headers, ANSWER));
        let (answer, _) = tokio::join!(request.answer(), answering);
        assert_eq!(answer.status, 200, "{value}");
        let shown = answer.headers.get("openai-processing-ms").map(|it| it.to_str().unwrap());
        assert_eq!(shown, expected, "{value}");
    }
}

/// Regression test: an upstream that repeats its `authorization` header in its answer showed it to the client.
#[tokio::test]
async fn an_answer_with_the_credential_of_its_upstream_is_refused() {
    const SECRET: &str = "c2VjcmV0/dXBzdHJlYW0";
    let context = TestContext::start(&[SECRET, "sk-another-credential"]).await;
    let choice = r#"{"message":{"content":"hi"},"finish_reason":"stop"}"#;
    let chat = question("asked", "hi");
    let response = serde_json::json!({ "model": "asked", "input": "hi" });
    for (path, body) in [("/v1/chat/completions", &chat), ("/v1/responses", &response)] {
        for leak in
            [SECRET.to_owned(), SECRET.replace('/', "\\/"), "sk-another-credential".to_owned()]
        {
            for body_of_upstream in [
                format!(
                    r#"{{"choices":[{choice}],"headers":{{"authorization":"Bearer {leak}"}}}}"#
                ),
                format!(r#"{{"choices":[{}]}}"#, choice.replace("hi", &format!("it is {leak}!"))),
            ] {
                let request = context.product.post(path).bearer(&context.key).json(body);
                let answering = context.upstream.answer(json_answer(200, &body_of_upstream));
                let (answer, _) = tokio::join!(request.answer(), answering);
                assert_eq!(answer.status, 502, "{path}: {}", answer.text());
                let error = answer.error();
                assert_eq!(error["code"], "upstream_invalid_response");
                assert!(!answer.text().contains("dXBzdHJlYW0"), "{}", answer.text());
                assert!(!answer.text().contains("another"), "{}", answer.text());
            }
        }
        let request = context.product.post(path).bearer(&context.key).json(body);
        let good = format!(r#"{{"choices":[{choice}]}}"#);
        let (answer, _) =
            tokio::join!(request.answer(), context.upstream.answer(json_answer(200, &good)));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

/// A server that requires no credential is often given a word, which an answer may well contain.
#[tokio::test]
async fn an_answer_with_a_placeholder_credential_is_passed_on() {
    let context = TestContext::start(&["ollama"]).await;
    let answer = json_answer(200, &ANSWER.replace("hi", "run ollama"));
    assert_eq!(context.request(&[answer]).await.0, 200);
}
