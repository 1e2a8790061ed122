//! Requests in flight are listed, and can be cancelled one by one.

use std::sync::Arc;
use std::time::Duration;

use proto::v1::{self, RequestStatus};
use serde_json::{Value, json};
use tests::http::Request;
use tests::{
    Call, ManualClock, NewKey, Product, RawUpstream, Session, chunk, question, stream_head,
};
use tonic::Code;

const PIECE: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n";

struct TestContext {
    product: Product,
    upstream: RawUpstream,
    operator: Session,
    alice: Session,
    key: NewKey,
}

impl TestContext {
    async fn start() -> Self {
        Self::on(Product::start().await).await
    }

    async fn on(product: Product) -> Self {
        let upstream = RawUpstream::start().await;
        let operator = product.operator().await;
        operator.add_model_on("asked", &[&upstream.url]).await;
        let alice = product.member("alice").await;
        let key = alice.key().await;
        Self { product, upstream, operator, alice, key }
    }

    fn request(&self, path: &str, stream: bool) -> Request {
        let mut body = match path {
            "/v1/responses" => json!({ "model": "asked", "input": "hi" }),
            _ => question("asked", "hi"),
        };
        body["stream"] = json!(stream);
        self.product.post(path).bearer(&self.key.secret).json(&body)
    }

    /// Returns the only request in flight that `session` sees.
    async fn in_flight(&self, session: &Session) -> v1::RequestInFlight {
        let mut listed = listed(session).await;
        assert_eq!(listed.len(), 1, "{listed:?}");
        listed.remove(0)
    }
}

async fn listed(session: &Session) -> Vec<v1::RequestInFlight> {
    let request = v1::ListRequestsInFlightRequest::default();
    session.usage().list_requests_in_flight(request).await.unwrap().into_inner().requests
}

async fn cancel(session: &Session, id: &str) -> Result<(), Code> {
    let request = v1::CancelRequestRequest { id: id.to_owned() };
    session.usage().cancel_request(request).await.map(|_| ()).map_err(|status| status.code())
}

#[tokio::test]
async fn a_request_in_flight_is_seen_and_cancelled_by_its_account_and_by_staff_only() {
    let context = TestContext::start().await;
    let bob = context.product.member("bob").await;
    // A person of the account, who has not created the key.
    let admin_plane = &context.product.admin;
    let person = context.alice.person(admin_plane, "dave", v1::PersonRole::Member).await;
    for (session, actor) in [(&context.alice, "alice"), (&context.operator, "operator")] {
        let cancelling = async {
            let call = context.upstream.call().await;
            let seen = context.in_flight(session).await;
            assert_eq!(
                (seen.account.as_str(), seen.model.as_str(), seen.endpoint.as_str()),
                ("alice", "asked", "chat.completions")
            );
            assert_eq!(seen.deployment, "up-asked-0/upstream-model");
            assert!(seen.input_bytes > 0 && seen.output_bytes == 0, "{seen:?}");
            assert_eq!(listed(&bob).await, []);
            assert_eq!(cancel(&bob, &seen.id).await, Err(Code::NotFound));
            assert_eq!(cancel(&person, &seen.id).await, Err(Code::PermissionDenied));
            assert_eq!(cancel(session, &seen.id).await, Ok(()));
            assert_eq!(listed(session).await, [], "it has ended");
            closed(call).await;
            seen.id
        };
        let request = context.request("/v1/chat/completions", false);
        let (answer, id) = tokio::join!(request.answer(), cancelling);
        assert_eq!((answer.status, answer.header("x-should-retry")), (403, "false"));
        assert_eq!(answer.error()["code"], Value::from("request_cancelled"));
        assert_eq!(cancel(session, &id).await, Err(Code::NotFound), "it has ended");
        let record = v1::GetRequestRequest { id: id.clone() };
        let record = context.alice.usage().get_request(record).await.unwrap().into_inner();
        let record = record.request.unwrap();
        assert_eq!(
            (record.status(), record.http_status, record.error_code.as_deref()),
            (RequestStatus::Cancelled, Some(403), Some("request_cancelled"))
        );
        let audit = v1::ListAuditRequest::default();
        let audit = context.operator.audit().list_audit(audit).await.unwrap().into_inner();
        let entry = audit.entries.iter().find(|entry| entry.action == "request.cancel").unwrap();
        assert_eq!((entry.object.as_str(), entry.actor.as_str()), (id.as_str(), actor));
    }
}

/// Regression test: the request was recorded as if its client had disconnected.
#[tokio::test]
async fn a_cancelled_request_does_not_continue_without_its_client() {
    let context = TestContext::start().await;
    let key = context.alice.key_with(|key| {
        key.client_gone = v1::ClientGone::Drain.into();
        key.drain_seconds = 60;
    });
    let request = context.product.chat(&key.await.secret, &question("asked", "hi"));
    let cancelling = async {
        let call = context.upstream.call().await;
        let id = context.in_flight(&context.operator).await.id;
        assert_eq!(cancel(&context.operator, &id).await, Ok(()));
        closed(call).await;
    };
    let (answer, ()) = tokio::join!(request.answer(), cancelling);
    assert_eq!(answer.status, 403);
    let record = context.alice.record().await;
    assert_eq!(
        (record.status(), record.http_status, record.error_code.as_deref()),
        (RequestStatus::Cancelled, Some(403), Some("request_cancelled"))
    );
    assert_eq!(record.notes, [""; 0]);
}

#[tokio::test]
async fn a_cancelled_stream_ends_with_an_error_and_is_charged_for_what_was_received() {
    let context = TestContext::start().await;
    for (path, count) in [("/v1/chat/completions", 1), ("/v1/responses", 2)] {
        let begin = async {
            let mut call = context.upstream.call().await;
            call.send(format!("{}{}", stream_head(), chunk(PIECE))).await;
            call
        };
        let (mut answer, call) = tokio::join!(context.request(path, true).send(), begin);
        answer.event().await.unwrap();
        let id = context.in_flight(&context.operator).await.id;
        assert_eq!(cancel(&context.operator, &id).await, Ok(()));
        let rest = answer.events().await;
        assert!(rest.iter().any(|event| event.contains("was cancelled by")), "{rest:?}");
        closed(call).await;
        let record = context.alice.records(count).await.pop().unwrap();
        assert_eq!(
            (record.id.as_str(), record.status(), record.error_code.as_deref()),
            (id.as_str(), RequestStatus::Cancelled, Some("request_cancelled"))
        );
        let tokens = record.tokens.unwrap();
        assert!(tokens.output.unwrap() > 0, "what was received is charged");
        if path == "/v1/responses" {
            let failed = rest.iter().find(|event| event.contains("response.failed")).unwrap();
            let data = failed.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
            let data: Value = serde_json::from_str(data).unwrap();
            let usage = &data["response"]["usage"];
            assert_eq!(
                (usage["input_tokens"].as_u64(), usage["output_tokens"].as_u64()),
                (tokens.input, tokens.output),
                "{data}"
            );
        }
    }
}

/// Regression test: the end had no usage, although the record has the input.
#[tokio::test]
async fn a_stream_that_is_cancelled_before_its_answer_reports_the_input() {
    let context = TestContext::start().await;
    let mut answer = context.request("/v1/responses", true).send().await;
    answer.event().await.unwrap();
    let call = context.upstream.call().await;
    let id = context.in_flight(&context.operator).await.id;
    assert_eq!(cancel(&context.operator, &id).await, Ok(()));
    let rest = answer.events().await;
    closed(call).await;
    let record = context.alice.record().await;
    assert_eq!(
        (record.status(), record.error_code.as_deref()),
        (RequestStatus::Cancelled, Some("request_cancelled"))
    );
    let tokens = record.tokens.unwrap();
    assert!(tokens.input.unwrap() > 0 && tokens.output == Some(0), "{tokens:?}");
    let failed = rest.iter().find(|event| event.contains("response.failed")).unwrap();
    let data = failed.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    let usage = &data["response"]["usage"];
    assert_eq!(
        (usage["input_tokens"].as_u64(), usage["output_tokens"].as_u64()),
        (tokens.input, tokens.output),
        "{data}"
    );
}

#[tokio::test]
async fn a_request_that_continues_without_its_client_is_cancelled() {
    let context = TestContext::start().await;
    let key = context.alice.key_with(|key| {
        key.client_gone = v1::ClientGone::Drain.into();
        key.drain_seconds = 60;
    });
    let key = key.await.secret;
    let mut body = question("asked", "hi");
    body["stream"] = json!(true);
    let request = context.product.post("/v1/chat/completions").bearer(&key).json(&body);
    let begin = async {
        let mut call = context.upstream.call().await;
        call.send(format!("{}{}", stream_head(), chunk(PIECE))).await;
        call
    };
    let (mut answer, call) = tokio::join!(request.send(), begin);
    answer.event().await.unwrap();
    drop(answer);
    let id = context.in_flight(&context.operator).await.id;
    assert_eq!(cancel(&context.operator, &id).await, Ok(()));
    closed(call).await;
    let record = context.alice.record().await;
    assert_eq!(
        (record.status(), record.error_code.as_deref()),
        (RequestStatus::Cancelled, Some("request_cancelled"))
    );
    assert_eq!(record.notes, ["client_gone:cancelled"]);
}

/// Waits until the gateway has ended its request to the upstream.
async fn closed(mut call: Call) {
    call.closed().await;
}

/// Regression test: a slow stream showed its first piece only, until it had 2 KiB of text.
#[tokio::test]
async fn the_output_of_a_slow_stream_is_seen_while_it_grows() {
    let clock = ManualClock::at("2026-11-20T12:00:00Z");
    let product = Product::with(|setup| setup.clock = Arc::new(clock.clone())).await;
    let context = TestContext::on(product).await;
    let begin = async {
        let mut call = context.upstream.call().await;
        call.send(format!("{}{}", stream_head(), chunk(PIECE))).await;
        call
    };
    let (mut answer, mut call) =
        tokio::join!(context.request("/v1/chat/completions", true).send(), begin);
    answer.event().await.unwrap();
    for pieces in 2..5 {
        clock.advance(Duration::from_secs(2));
        call.send(chunk(PIECE)).await;
        answer.event().await.unwrap();
        assert_eq!(context.in_flight(&context.alice).await.output_bytes, 2 * pieces);
    }
}
