//! Requests that are also sent to the next deployment, because the first is slow to answer.

use proto::v1;
use serde_json::json;
use tests::http::Answer;
use tests::{Call, Product, RawUpstream, Session, json_answer, priced_model, question};

/// Two upstreams of the model `asked`, and a member with a key.
struct Hedged {
    product: Product,
    first: RawUpstream,
    second: RawUpstream,
    alice: Session,
    key: String,
}

const FIRST: &str = "up-asked-0/upstream-model";
const SECOND: &str = "up-asked-1/upstream-model";

impl Hedged {
    /// Starts a gateway whose first upstream has 10 ms to begin its answer.
    async fn start() -> Self {
        let product = Product::start().await;
        let (first, second) = (RawUpstream::start().await, RawUpstream::start().await);
        let operator = product.operator().await;
        operator.add_model_on("asked", &[&first.url, &second.url]).await;
        hedge_after(&operator, 10).await.unwrap();
        let alice = product.member("alice").await;
        let key = alice.key().await.secret;
        Self { product, first, second, alice, key }
    }

    /// Sends a request, has `upstreams` serve it, and returns the client's answer.
    async fn ask<T>(&self, upstreams: impl Future<Output = T>) -> (Answer, T) {
        let request = self.product.chat(&self.key, &question("asked", "hi"));
        Box::pin(async { tokio::join!(request.answer(), upstreams) }).await
    }

    /// Returns the request at both upstreams; the second gets it only because the first is silent.
    async fn both(&self) -> (Call, Call) {
        let first = self.first.call().await;
        (first, self.second.call().await)
    }

    /// Returns the deployment on the only record, and its notes without times.
    async fn recorded(&self) -> (String, Vec<String>) {
        let record = self.alice.record().await;
        assert_eq!(record.notes[0], "hedged_after=10ms");
        let without_time = |note: &String| match note.rsplit_once(':') {
            Some((note, time)) if time.ends_with("ms") => note.to_owned(),
            _ => note.clone(),
        };
        (record.deployment.unwrap(), record.notes[1..].iter().map(without_time).collect())
    }
}

async fn hedge_after(operator: &Session, millis: u64) -> Result<(), tonic::Status> {
    let request = v1::UpdateModelRequest {
        id: "asked".to_owned(),
        hedge_after_ms: Some(millis),
        ..Default::default()
    };
    operator.models().update_model(request).await.map(|_| ())
}

/// An answer with 1,000 input and `output` output tokens.
fn answer(output: u64) -> String {
    let body = json!({
        "choices": [{
            "index": 0,
            "message": { "role": "assistant", "content": "hello" },
            "finish_reason": "stop",
        }],
        "usage": { "prompt_tokens": 2, "completion_tokens": output, "total_tokens": output + 2 },
    });
    json_answer(200, &body.to_string())
}

#[tokio::test]
async fn the_next_deployment_answers_for_a_slow_one_and_the_client_pays_once() {
    let hedged = Hedged::start().await;
    let serve = async {
        let (mut slow, mut fast) = hedged.both().await;
        fast.send(answer(3)).await;
        // The slow attempt is cancelled.
        slow.closed().await;
    };
    let (answered, ()) = hedged.ask(serve).await;
    assert_eq!(answered.status, 200, "{answered:?}");
    let cancelled = format!("failed_attempt={FIRST}:cancelled");
    assert_eq!(hedged.recorded().await, (SECOND.to_owned(), vec![cancelled]));
    let record = hedged.alice.record().await;
    assert_eq!(record.cost_usd.as_deref(), Some("0.000008"), "2 + 2 × 3 millionths of a dollar");
}

#[tokio::test]
async fn the_first_deployment_may_still_answer_first() {
    let hedged = Hedged::start().await;
    let serve = async {
        let (mut first, mut second) = hedged.both().await;
        first.send(answer(3)).await;
        second.closed().await;
    };
    let (answered, ()) = hedged.ask(serve).await;
    assert_eq!(answered.status, 200, "{answered:?}");
    let cancelled = format!("failed_attempt={SECOND}:cancelled");
    assert_eq!(hedged.recorded().await, (FIRST.to_owned(), vec![cancelled]));
}

#[tokio::test]
async fn an_attempt_that_fails_leaves_the_other_one_to_answer() {
    for first_fails in [true, false] {
        let hedged = Hedged::start().await;
        let serve = async {
            let (first, second) = hedged.both().await;
            let (mut failing, mut good) =
                if first_fails { (first, second) } else { (second, first) };
            failing.send(json_answer(500, "{}")).await;
            failing.closed().await;
            good.send(answer(3)).await;
        };
        let (answered, ()) = hedged.ask(serve).await;
        assert_eq!(answered.status, 200, "{answered:?}");
        let (failed, served) = if first_fails { (FIRST, SECOND) } else { (SECOND, FIRST) };
        let failed = format!("failed_attempt={failed}:http_500");
        assert_eq!(hedged.recorded().await, (served.to_owned(), vec![failed]));
    }
}

/// Regression test: after both attempts had failed, the other credentials of their upstreams were not tried.
#[tokio::test]
async fn the_other_credentials_are_tried_after_both_attempts_have_failed() {
    for (refused, served) in [(0, FIRST), (1, SECOND)] {
        let hedged = Hedged::start().await;
        let operator = hedged.product.operator().await;
        let upstreams = [&hedged.first, &hedged.second];
        let secret = |secret: &str| v1::Credential {
            source: Some(v1::credential::Source::Secret(secret.to_owned())),
        };
        let credentials = vec![secret("one"), secret("two")];
        let update = v1::UpdateUpstreamRequest {
            name: format!("up-asked-{refused}"),
            credentials: Some(v1::CredentialList { credentials }),
            ..Default::default()
        };
        operator.upstreams().update_upstream(update).await.unwrap();
        let serve = async {
            let (first, second) = hedged.both().await;
            let mut calls = [first, second];
            calls[refused].send(json_answer(401, "{}")).await;
            calls[refused].closed().await;
            calls[1 - refused].send(json_answer(500, "{}")).await;
            upstreams[refused].call().await.send(answer(3)).await;
        };
        let (answered, ()) = hedged.ask(serve).await;
        assert_eq!(answered.status, 200, "{answered:?}");
        let (deployment, notes) = hedged.recorded().await;
        assert_eq!(deployment, served);
        let failed = notes.iter().filter(|note| note.starts_with("failed_attempt=")).count();
        assert_eq!(failed, 2, "{notes:?}");
    }
}

#[tokio::test]
async fn an_error_about_the_request_is_not_waited_out() {
    let hedged = Hedged::start().await;
    let serve = async {
        let (mut first, mut second) = hedged.both().await;
        second.send(json_answer(400, r#"{"error":{"message":"too long"}}"#)).await;
        first.closed().await;
    };
    let (answered, ()) = hedged.ask(serve).await;
    assert_eq!(answered.status, 400, "{answered:?}");
    let cancelled = format!("failed_attempt={FIRST}:cancelled");
    assert_eq!(hedged.recorded().await, (SECOND.to_owned(), vec![cancelled]));
}

#[tokio::test]
async fn both_attempts_are_cancelled_when_the_client_disconnects() {
    let hedged = Hedged::start().await;
    let request = hedged.product.chat(&hedged.key, &question("asked", "hi")).send();
    let (mut first, mut second) = tokio::select! {
        _ = request => unreachable!("no answer was sent"),
        both = hedged.both() => both,
    };
    first.closed().await;
    second.closed().await;
    let (deployment, notes) = hedged.recorded().await;
    assert_eq!((deployment.as_str(), &*notes), (SECOND, &["client_gone:cancelled".to_owned()][..]));
    // Both may have received the request, and one of them is charged.
    let cost_usd = hedged.alice.record().await.cost_usd.unwrap();
    assert!(cost_usd.starts_with("0.0000"), "{cost_usd}");
}

#[tokio::test]
async fn requests_are_sent_once_unless_the_model_says_otherwise() {
    let hedged = Hedged::start().await;
    let operator = hedged.product.operator().await;
    for (millis, is_valid) in [(9, false), (600_001, false), (600_000, true), (0, true)] {
        assert_eq!(hedge_after(&operator, millis).await.is_ok(), is_valid, "{millis}");
    }
    let (answered, _) = hedged.ask(hedged.first.answer(answer(3))).await;
    assert_eq!(answered.status, 200, "{answered:?}");
    assert_eq!(hedged.alice.record().await.notes, [""; 0]);
}

#[tokio::test]
async fn the_record_of_a_single_deployment_has_no_hedge() {
    let product = Product::start().await;
    let upstream = RawUpstream::start().await;
    let operator = product.operator().await;
    let (name, url) = ("up".to_owned(), upstream.url.clone());
    operator.add_upstream(v1::Upstream { name, url, ..Default::default() }).await;
    let model = priced_model("asked", &[("up", "upstream-model")]);
    operator.add_model(v1::Model { hedge_after_ms: Some(10), ..model }).await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    let request = product.chat(&key, &question("asked", "hi"));
    let (answered, _) = tokio::join!(request.answer(), upstream.answer(answer(3)));
    assert_eq!(answered.status, 200, "{answered:?}");
    assert_eq!(alice.record().await.notes, [""; 0]);
}
