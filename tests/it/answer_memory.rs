//! The memory of long answers and of copies of long requests.

use serde_json::{Value, json};
use tests::http::Answer;
use tests::{Product, RawUpstream, Session, chunk, json_answer, question, stream_head};

/// The memory budget, which one account may use up.
const MEMORY: usize = 1024 * 1024;
const FINISH: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";

/// A gateway with little memory for long answers, and an upstream that sends them.
struct TestContext {
    product: Product,
    alice: Session,
    key: String,
    upstream: RawUpstream,
}

impl TestContext {
    async fn start() -> Self {
        Self::with_memory(MEMORY).await
    }

    async fn with_memory(bytes: usize) -> Self {
        let product = Product::with(|setup| {
            (setup.config.max_body_bytes, setup.config.body_memory_bytes) = (bytes, bytes);
        })
        .await;
        let upstream = RawUpstream::start().await;
        product.operator().await.add_model_on("asked", &[&upstream.url]).await;
        let alice = product.member("alice").await;
        let key = alice.key().await.secret;
        Self { product, alice, key, upstream }
    }

    /// Sends a request with `body`, which the upstream answers with `answer`.
    async fn answer(&self, path: &str, body: &Value, answer: String) -> Answer {
        let request = self.product.post(path).bearer(&self.key).json(body).answer();
        let send = async {
            let mut call = self.upstream.call().await;
            // The gateway closes the connection early if there is no memory.
            _ = call.try_send(answer).await;
            call
        };
        tokio::join!(request, send).0
    }

    /// Sends a chat request, which the upstream answers with a text of `bytes`.
    async fn plain(&self, bytes: usize) -> Answer {
        let message = json!({ "content": "-".repeat(bytes) });
        let usage = json!({ "prompt_tokens": 1, "completion_tokens": 1 });
        let answer = json!({ "choices": [{ "message": message }], "usage": usage }).to_string();
        let body = question("asked", "hi");
        self.answer("/v1/chat/completions", &body, json_answer(200, &answer)).await
    }

    /// Sends a streamed request, which the upstream answers with `events`.
    async fn stream(&self, path: &str, events: &[String]) -> Answer {
        let body = if path == "/v1/responses" {
            json!({ "model": "asked", "input": "hi", "stream": true })
        } else {
            json!({ "stream": true, "model": "asked", "messages": question("asked", "hi")["messages"] })
        };
        let events: String = events.iter().map(|event| chunk(event)).collect();
        self.answer(path, &body, format!("{}{events}{}", stream_head(), chunk(""))).await
    }

    /// Expects that the latest of `count` records names the missing memory.
    async fn is_recorded_as_overloaded(&self, count: usize, http_status: u32) {
        let records = self.alice.records(count).await;
        let error = "server_overloaded";
        let is_overloaded = |record: &&proto::v1::RequestRecord| {
            record.http_status == Some(http_status) && record.error_code.as_deref() == Some(error)
        };
        let found = records.iter().filter(is_overloaded).count();
        assert_eq!((records.len(), found), (count, 1), "{records:#?}");
    }
}

/// Returns an event with a text of `bytes`.
fn event(bytes: usize) -> String {
    let text = "-".repeat(bytes);
    let piece = json!({ "choices": [{ "index": 0, "delta": { "content": text } }] });
    format!("data: {piece}\n\n")
}

/// Regression test: plain answers were limited one by one, at 64 MiB each, so that an upstream could use up the memory.
#[tokio::test]
async fn long_plain_answers_share_a_memory_budget() {
    let context = TestContext::start().await;
    let too_long = context.plain(2 * MEMORY).await;
    assert_eq!(too_long.status, 503, "{too_long:?}");
    assert_eq!(too_long.json()["error"]["code"], "server_overloaded");
    context.is_recorded_as_overloaded(1, 503).await;
    let long = context.plain(MEMORY / 2).await;
    assert_eq!((long.status, long.body.len() > MEMORY / 2), (200, true));
    // The memory is free again.
    assert_eq!(context.plain(MEMORY / 2).await.status, 200);
}

/// Regression test: incomplete events had a bound for each stream, but none for all together.
#[tokio::test]
async fn incomplete_events_of_streams_share_a_memory_budget() {
    let context = TestContext::start().await;
    let stream = async |events: &[String]| context.stream("/v1/chat/completions", events).await;
    let broken = stream(&[event(MEMORY)]).await;
    assert_eq!((broken.status, &broken.error()["code"]), (503, &json!("server_overloaded")));
    context.is_recorded_as_overloaded(1, 503).await;
    let broken = stream(&[event(1), event(MEMORY)]).await;
    assert_eq!(broken.status, 200);
    let text = broken.text();
    let last = text.trim_end().rsplit("data: ").next().unwrap();
    let last: Value = serde_json::from_str(last).unwrap();
    assert_eq!(last["error"]["code"], "server_overloaded");
    context.is_recorded_as_overloaded(2, 200).await;
    // The memory is free again.
    for _ in 0..2 {
        let whole = stream(&[event(MEMORY / 4), FINISH.to_owned()]).await;
        assert!(whole.body.len() > MEMORY / 4 && whole.text().ends_with("data: [DONE]\n\n"));
    }
}

/// Regression test: the text of a streamed response was kept in nine copies, without a bound for all streams together.
#[tokio::test]
async fn texts_of_streamed_responses_share_a_memory_budget() {
    let context = TestContext::start().await;
    let stream = async |bytes: usize| {
        let mut events = vec![event(bytes / 16); 16];
        events.push(FINISH.to_owned());
        context.stream("/v1/responses", &events).await.text().to_owned()
    };
    let broken = stream(MEMORY / 2).await;
    assert!(broken.contains("event: response.failed"), "{} bytes", broken.len());
    assert!(broken.contains(r#""code":"server_is_overloaded""#), "{} bytes", broken.len());
    context.is_recorded_as_overloaded(1, 200).await;
    // The memory is free again.
    for _ in 0..2 {
        let whole = stream(MEMORY / 16).await;
        assert!(whole.contains("event: response.completed"), "{} bytes", whole.len());
    }
}

/// Regression test: a long Responses request took several times its length, and only its body was counted.
#[tokio::test]
async fn copies_of_long_responses_requests_share_a_memory_budget() {
    let context = TestContext::with_memory(2 * MEMORY).await;
    let body = json!({ "model": "asked", "input": "a ".repeat(135 * 1024), "store": true });
    let request =
        |key: &str| context.product.post("/v1/responses").bearer(key).json(&body).answer();
    let bob = context.product.member("bob").await.key().await.secret;
    let usage = json!({ "prompt_tokens": 1, "completion_tokens": 1 });
    let answer = json!({ "choices": [{ "message": { "content": "hi" } }], "usage": usage });
    let answer = json_answer(200, &answer.to_string());

    let first = request(&context.key);
    let meanwhile = async {
        let mut call = context.upstream.call().await;
        // The copies of the first request leave no memory for those of another account's.
        let refused = request(&bob).await;
        assert_eq!(
            (refused.status, refused.error()["code"].as_str()),
            (503, Some("server_overloaded"))
        );
        call.send(&answer).await;
    };
    let (first, ()) = tokio::join!(first, meanwhile);
    assert_eq!(first.status, 200, "{first:?}");

    // The memory is free again.
    let second = request(&bob);
    let serve = async { context.upstream.call().await.send(&answer).await };
    assert_eq!(tokio::join!(second, serve).0.status, 200);

    // What a request continues is copied, too.
    let id = first.json()["id"].as_str().unwrap().to_owned();
    let body = json!({ "model": "asked", "input": "hi", "previous_response_id": id });
    let next = || context.product.post("/v1/responses").bearer(&context.key).json(&body).answer();
    let meanwhile = async {
        let mut call = context.upstream.call().await;
        assert_eq!(request(&bob).await.status, 503);
        call.send(&answer).await;
    };
    assert_eq!(tokio::join!(next(), meanwhile).0.status, 200);
}
