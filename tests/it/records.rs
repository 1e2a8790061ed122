//! Promise 1: every request of a known key is recorded exactly once, however it ends.

use std::time::Duration;

use proto::v1::{self, RequestRecord, RequestStatus, UsageBasis};
use serde_json::json;
use tests::http::{Answer, PendingAnswer};
use tests::{Call, Product, RawUpstream, Session, chunk, json_answer, question, stream_head};

const PIECE: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello world\"}}]}\n\n";

async fn product() -> (Product, RawUpstream, Session, String) {
    let (product, upstream) = (Product::start().await, RawUpstream::start().await);
    product.operator().await.add_model_on("asked", &[&upstream.url]).await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    (product, upstream, alice, key)
}

#[track_caller]
fn check(
    record: &RequestRecord,
    status: RequestStatus,
    http_status: Option<u32>,
    code: Option<&str>,
) {
    let seen = (record.status(), record.http_status, record.error_code.as_deref());
    assert_eq!(seen, (status, http_status, code), "{record:#?}");
}

#[tokio::test]
async fn a_successful_request_is_recorded_with_exact_tokens_and_cost() {
    let (product, upstream, alice, key) = product().await;
    let usage = json!({ "prompt_tokens": 1000, "completion_tokens": 30, "total_tokens": 1030,
        "prompt_tokens_details": { "cached_tokens": 400 },
        "completion_tokens_details": { "reasoning_tokens": 10 } });
    let body = json!({ "choices": [{ "message": { "content": "hi" }, "finish_reason": "stop" }], "usage": usage });
    let (answer, _) = tokio::join!(
        product.chat(&key, &question("asked", "hi")).answer(),
        upstream.answer(json_answer(200, &body.to_string())),
    );
    let record = alice.record().await;
    check(&record, RequestStatus::Completed, Some(200), None);
    assert_eq!(record.id, answer.header("x-request-id"));
    assert_eq!((record.account.as_str(), record.endpoint.as_str()), ("alice", "chat.completions"));
    assert_eq!(record.model.as_deref(), Some("asked"));
    assert_eq!(record.deployment.as_deref(), Some("up-asked-0/upstream-model"));
    assert_eq!((record.stream, record.usage_basis()), (false, UsageBasis::Upstream));
    let tokens = v1::TokenCounts {
        input: Some(1000),
        cached: Some(400),
        output: Some(30),
        reasoning: Some(10),
    };
    assert_eq!(record.tokens, Some(tokens));
    // 600 at 1 dollar, 400 at 0.1, 30 at 2, per million
    assert_eq!((record.cost_usd.as_deref(), record.price_version), (Some("0.0007"), Some(1)));
    assert!(record.ttft_ms.is_some() && record.started_at.is_some(), "{record:?}");
}

#[tokio::test]
async fn unreported_usage_details_are_unknown_and_not_zero() {
    let (product, upstream, alice, key) = product().await;
    let body = r#"{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":7,"completion_tokens":3}}"#;
    let request = product.chat(&key, &question("asked", "hi")).answer();
    tokio::join!(request, upstream.answer(json_answer(200, body)));
    let tokens = v1::TokenCounts { input: Some(7), cached: None, output: Some(3), reasoning: None };
    assert_eq!(alice.record().await.tokens, Some(tokens));
}

#[tokio::test]
async fn an_answer_that_ends_at_its_length_limit_is_incomplete() {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    let mut body = question("sim-chat", "hi");
    body["max_tokens"] = json!(2);
    for stream in [false, true] {
        body["stream"] = json!(stream);
        assert_eq!(product.chat(&key, &body).answer().await.status, 200);
    }
    for record in alice.records(2).await {
        check(&record, RequestStatus::Incomplete, Some(200), None);
        assert_eq!(record.tokens.unwrap().output, Some(2));
    }
}

#[tokio::test]
async fn refused_requests_are_recorded_and_free() {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    let answers: Vec<Answer> = vec![
        product.chat(&key, &question("gpt-9", "hi")).answer().await,
        product.chat(&key, &json!({ "model": "sim-chat" })).answer().await,
        product.post("/v1/chat/completions").bearer(&key).body("{").answer().await,
        product.get("/v1/chat/completions").bearer(&key).answer().await,
        product.get("/v1/nowhere").bearer(&key).answer().await,
    ];
    let records = alice.records(answers.len()).await;
    assert_eq!(records.len(), answers.len());
    for answer in &answers {
        let id = answer.header("x-request-id");
        let record = records.iter().find(|record| record.id == id).unwrap();
        let (status, error) = (u32::from(answer.status), answer.error());
        check(record, RequestStatus::Rejected, Some(status), error["code"].as_str());
        assert_eq!(record.usage_basis(), UsageBasis::None);
        assert_eq!(record.cost_usd.as_deref(), Some("0"));
        assert_eq!(record.deployment, None);
    }
    assert_eq!(records[0].model.as_deref(), Some("gpt-9"));
    assert_eq!(alice.account().await.balance_usd, "5");
}

/// Sends `count` requests one after another over one connection, and returns the responses.
async fn send_pipelined(product: &Product, request: &str, count: usize) -> String {
    let mut bytes = request.repeat(count - 1);
    bytes.push_str(&request.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n"));
    tests::http::raw(product.http, bytes.as_bytes()).await
}

/// Regression check: each refused request had a record. Sends many requests that never reach the
/// upstream, and checks that few records are written and that the sums count all requests.
async fn check_merged_records(revoke: bool, status: RequestStatus, http_status: u32) {
    const SENT: usize = 1_000;
    let product = Product::on_http1(|_| {}).await;
    let alice = product.member("alice").await;
    let key = alice.key().await;
    if revoke {
        alice.keys().revoke_key(v1::RevokeKeyRequest { id: key.id.clone() }).await.unwrap();
    }
    let request = format!(
        "GET /v1/models HTTP/1.1\r\nhost: tollgate\r\nauthorization: Bearer {}\r\n\r\n",
        key.secret
    );
    let line = format!("HTTP/1.1 {http_status} ");
    for _ in 0..10 {
        let answers = send_pipelined(&product, &request, SENT / 10).await;
        assert_eq!(answers.matches(&line).count(), SENT / 10);
    }
    // a shutdown writes the merged records that are still pending
    let product = product.stop().await.start().await;
    let alice = Session::sign_in(&product.admin, "alice").await;
    let records = alice.records(1).await;
    assert!(records.len() < SENT / 2, "{} records of {SENT} requests", records.len());
    assert_eq!(records.iter().map(|record| record.count as usize).sum::<usize>(), SENT);
    assert!(records.iter().any(|record| record.count > 1));
    for record in &records {
        let seen = (record.status(), record.http_status, record.key.as_str());
        assert_eq!(seen, (status, Some(http_status), key.id.as_str()), "{record:#?}");
    }
    let asked = alice.usage().summarize_usage(v1::SummarizeUsageRequest::default()).await;
    let totals = asked.unwrap().into_inner().totals.unwrap();
    let errors = if revoke { SENT as u64 } else { 0 };
    assert_eq!((totals.requests, totals.errors), (SENT as u64, errors));
    let operator = product.operator().await;
    let proof = operator.ledger().verify_ledger(v1::VerifyLedgerRequest {}).await.unwrap();
    assert_eq!(proof.into_inner().differences, []);
}

#[tokio::test]
async fn frequent_refusals_of_a_key_are_merged_into_one_record() {
    Box::pin(check_merged_records(true, RequestStatus::Rejected, 401)).await;
}

#[tokio::test]
async fn frequent_free_answers_to_a_key_are_merged_into_one_record() {
    Box::pin(check_merged_records(false, RequestStatus::Completed, 200)).await;
}

#[tokio::test]
async fn an_upstream_failure_is_recorded() {
    let (product, upstream, alice, key) = product().await;
    let request = product.chat(&key, &question("asked", "hi")).answer();
    tokio::join!(request, upstream.answer(json_answer(500, "")));
    let record = alice.record().await;
    check(&record, RequestStatus::Failed, Some(502), Some("upstream_error"));
    assert_eq!(record.cost_usd.as_deref(), Some("0"));
}

#[tokio::test]
async fn a_timeout_is_recorded_and_cancels_the_upstream_request() {
    let (product, upstream, alice, key) = product().await;
    let deadlines = v1::Deadlines { first_byte_ms: Some(50), ..Default::default() };
    let request = v1::UpdateUpstreamRequest {
        name: "up-asked-0".to_owned(),
        deadlines: Some(deadlines),
        ..Default::default()
    };
    product.operator().await.upstreams().update_upstream(request).await.unwrap();
    let silent = async {
        let mut call = upstream.call().await;
        call.closed().await;
    };
    let (answer, ()) = tokio::join!(product.chat(&key, &question("asked", "hi")).answer(), silent);
    assert_eq!((answer.status, &answer.error()["code"]), (504, &json!("upstream_timeout")));
    check(&alice.record().await, RequestStatus::Failed, Some(504), Some("upstream_timeout"));
}

/// An upstream that goes on for longer than the whole answer may take.
#[tokio::test]
async fn an_answer_beyond_its_deadline_is_ended_and_recorded() {
    let total = Duration::from_secs(30);
    let (product, upstream) = (Product::on_test_clock().await, RawUpstream::start().await);
    let operator = product.operator().await;
    operator.add_model_on("asked", &[&upstream.url]).await;
    let deadlines = v1::Deadlines { total_ms: Some(30_000), ..Default::default() };
    let request = v1::UpdateUpstreamRequest {
        name: "up-asked-0".to_owned(),
        deadlines: Some(deadlines),
        ..Default::default()
    };
    operator.upstreams().update_upstream(request).await.unwrap();
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    let pass = async |call: &mut Call| {
        tokio::time::pause();
        // The clock advances only when the gateway has read what was sent.
        tokio::time::sleep(total).await;
        tokio::time::resume();
        call.closed().await;
    };

    let mut body = question("asked", "hi");
    let cut_off = async {
        let mut call = upstream.call().await;
        call.send(&json_answer(200, &" ".repeat(1_000))[..500]).await;
        pass(&mut call).await;
    };
    let (answer, ()) = tokio::join!(product.chat(&key, &body).answer(), cut_off);
    assert_eq!((answer.status, &answer.error()["code"]), (504, &json!("upstream_timeout")));
    check(&alice.record().await, RequestStatus::Failed, Some(504), Some("upstream_timeout"));

    body["stream"] = json!(true);
    let (mut answer, mut call) = {
        let begin = async {
            let mut call = upstream.call().await;
            call.send(format!("{}{}", stream_head(), chunk(PIECE))).await;
            call
        };
        tokio::join!(product.chat(&key, &body).send(), begin)
    };
    answer.event().await.unwrap();
    let (events, ()) = tokio::join!(answer.events(), pass(&mut call));
    assert!(events.last().unwrap().contains("upstream_timeout"), "{events:?}");
    let record = alice.records(2).await.pop().unwrap();
    check(&record, RequestStatus::Failed, Some(200), Some("upstream_timeout"));
    assert_eq!(
        (record.usage_basis(), record.tokens.unwrap().output),
        (UsageBasis::Counted, Some(2))
    );
    let request = v1::ListUpstreamHealthRequest {};
    let health = operator.traffic().list_upstream_health(request).await.unwrap().into_inner();
    let failures = health.upstreams.iter().map(|upstream| upstream.failures).sum::<u64>();
    assert_eq!(failures, 0, "the requests may have asked for long answers: {health:?}");
}

#[tokio::test]
async fn a_stalled_stream_is_ended_and_charged() {
    let (product, upstream, alice, key) = product().await;
    let deadlines = v1::Deadlines { idle_ms: Some(50), ..Default::default() };
    let request = v1::UpdateUpstreamRequest {
        name: "up-asked-0".to_owned(),
        deadlines: Some(deadlines),
        ..Default::default()
    };
    product.operator().await.upstreams().update_upstream(request).await.unwrap();
    let mut body = question("asked", "hi");
    body["stream"] = json!(true);
    let silent = async {
        let mut call = upstream.call().await;
        call.send(format!("{}{}", stream_head(), chunk(PIECE))).await;
        call.closed().await;
    };
    let (answer, ()) = tokio::join!(product.chat(&key, &body).answer(), silent);
    assert!(answer.events().last().unwrap().contains("upstream_timeout"), "{answer:?}");
    let record = alice.record().await;
    check(&record, RequestStatus::Failed, Some(200), Some("upstream_timeout"));
    assert_eq!(
        (record.usage_basis(), record.tokens.unwrap().output),
        (UsageBasis::Counted, Some(2))
    );
}

#[tokio::test]
async fn a_client_disconnect_stops_the_upstream_of_a_plain_request() {
    let (product, upstream, alice, key) = product().await;
    let asking = product.chat(&key, &question("asked", "hi")).send();
    let mut call = tokio::select! {
        _ = asking => panic!("an answer without an upstream"),
        call = upstream.call() => call,
    };
    // `select!` has dropped the request with its connection
    call.closed().await;
    let record = alice.record().await;
    check(&record, RequestStatus::Cancelled, None, None);
    assert!(record.tokens.is_some(), "the upstream had started: {record:?}");
}

async fn begin_stream(
    product: &Product,
    upstream: &RawUpstream,
    key: &str,
) -> (PendingAnswer, tests::Call) {
    let mut body = question("asked", "hi");
    body["stream"] = json!(true);
    let begin = async {
        let mut call = upstream.call().await;
        call.send(format!("{}{}", stream_head(), chunk(PIECE))).await;
        call
    };
    let (mut answer, call) = tokio::join!(product.chat(key, &body).send(), begin);
    assert!(answer.event().await.unwrap().contains("hello world"));
    (answer, call)
}

#[tokio::test]
async fn a_client_disconnect_stops_the_upstream_of_a_stream() {
    let (product, upstream, alice, key) = product().await;
    let (answer, mut call) = begin_stream(&product, &upstream, &key).await;
    drop(answer);
    call.closed().await;
    let record = alice.record().await;
    check(&record, RequestStatus::Cancelled, Some(200), None);
    assert_eq!(
        (record.usage_basis(), record.tokens.unwrap().output),
        (UsageBasis::Counted, Some(2))
    );
    assert_ne!(record.cost_usd.as_deref(), Some("0"), "the streamed output is charged");
}

#[tokio::test]
async fn a_shutdown_drains_streams_and_records_them() {
    let (product, upstream, _alice, key) = product().await;
    let (answer, mut call) = begin_stream(&product, &upstream, &key).await;
    product.shutdown.cancel();
    let rest = async {
        let finish = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
        call.send(chunk(finish) + &chunk("")).await;
    };
    let (events, ()) = tokio::join!(answer.events(), rest);
    assert_eq!(events.last().map(String::as_str), Some("data: [DONE]"));
    let product = product.stop().await.start().await;
    let record = Session::sign_in(&product.admin, "alice").await.record().await;
    check(&record, RequestStatus::Completed, Some(200), None);
}

#[tokio::test]
async fn a_stream_beyond_the_drain_timeout_is_cut_off_and_recorded() {
    let product = Product::with(|setup| setup.config.drain = Duration::ZERO).await;
    let upstream = RawUpstream::start().await;
    product.operator().await.add_model_on("asked", &[&upstream.url]).await;
    let key = product.member("alice").await.key().await.secret;
    let (_answer, mut call) = begin_stream(&product, &upstream, &key).await;
    let home = product.stop().await;
    call.closed().await;
    let product = home.start().await;
    let record = Session::sign_in(&product.admin, "alice").await.record().await;
    check(&record, RequestStatus::Interrupted, Some(200), Some("server_shutting_down"));
    assert_eq!(
        (record.usage_basis(), record.tokens.unwrap().output),
        (UsageBasis::Counted, Some(2))
    );
}

#[tokio::test]
async fn unreported_tokens_are_counted_alike_plain_and_streamed() {
    let product = Product::start().await;
    product.serve_model("mute", product.simulator_url(), "sim-reasoner?usage=off").await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    let mut body = question("mute", "tell me about counting");
    for stream in [false, true] {
        body["stream"] = json!(stream);
        assert_eq!(product.chat(&key, &body).answer().await.status, 200);
    }
    let records = alice.records(2).await;
    assert_eq!(records[0].tokens, records[1].tokens);
    for record in records {
        assert_eq!(record.usage_basis(), UsageBasis::Counted, "{record:?}");
        let tokens = record.tokens.unwrap();
        assert!(tokens.input > Some(0) && tokens.output > tokens.reasoning, "{tokens:?}");
        assert_eq!(tokens.cached, None, "the cached part is unknown");
    }
}

/// Returns one record.
async fn show(caller: &Session, id: &str) -> Result<RequestRecord, tonic::Status> {
    let request = v1::GetRequestRequest { id: id.to_owned() };
    let answer = caller.usage().get_request(request).await?;
    Ok(answer.into_inner().request.unwrap())
}

#[tokio::test]
async fn a_record_is_visible_everywhere_as_soon_as_the_answer_ends() {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    for count in 1..=12_usize {
        let mut body = question(if count % 3 == 0 { "no-such-model" } else { "sim-chat" }, "hi");
        body["stream"] = json!(count % 2 == 0);
        let answer = product.chat(&key, &body).answer().await;
        let id = answer.header("x-request-id");
        let shown = show(&alice, id).await.expect("the record is readable");
        let listed = alice.usage().list_requests(v1::ListRequestsRequest::default()).await;
        let listed = listed.unwrap().into_inner().requests;
        assert_eq!((listed.len(), &listed[0]), (count, &shown), "the record is listed");
        assert_eq!(show(&alice, id).await.unwrap(), shown, "the record does not change");
    }
    product.chat(&key, &question("sim-chat", "hi")).answer().await;
    let summary = alice.usage().summarize_usage(v1::SummarizeUsageRequest::default()).await;
    assert_eq!(summary.unwrap().into_inner().totals.unwrap().requests, 13, "the usage includes it");
    let answer = product.chat(&key, &question("sim-chat", "hi")).answer().await;
    let keys = alice.keys().list_keys(v1::ListKeysRequest::default()).await;
    let used = keys.unwrap().into_inner().keys.remove(0).last_used_at;
    let shown = show(&alice, answer.header("x-request-id")).await.unwrap();
    assert_eq!(used, shown.started_at, "last_used_at of the key");
    product.chat(&key, &question("sim-chat", "hi")).answer().await;
    let entries = alice.ledger().list_entries(v1::ListEntriesRequest::default()).await;
    let entries = entries.unwrap().into_inner().entries.len();
    assert_eq!(entries, 8 + 3 + 1, "one charge for each served request, and the trial credit");
}

/// While the database is locked, no record can be written to it.
#[tokio::test]
async fn an_unwritten_record_is_visible_to_its_own_account_only() {
    let product = Product::start().await;
    let (alice, bob) = (product.member("alice").await, product.member("bob").await);
    let key = alice.key().await.secret;
    let file = product.home.data_dir().join("tollgate.db");
    let database = rusqlite::Connection::open(file).unwrap();
    database.execute_batch("BEGIN IMMEDIATE").unwrap();
    let answer = product.chat(&key, &question("sim-chat", "hi")).answer().await;
    let id = answer.header("x-request-id");
    let record = show(&alice, id).await.unwrap();
    check(&record, RequestStatus::Completed, Some(200), None);
    assert_eq!(show(&bob, id).await.unwrap_err().code(), tonic::Code::NotFound);
    database.execute_batch("ROLLBACK").unwrap();
    assert_eq!(alice.record().await, record);
}
