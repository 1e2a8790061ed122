//! A gateway that is replaced finishes its streams while the next one serves; what both spend adds up.

use std::net::SocketAddr;
use std::path::Path;

use crate::restart::Clients;
use proto::v1::{Limits, RequestStatus};
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::drill::rig;
use tests::http::{Answer, PendingAnswer, Request};
use tests::process::Gateway;
use tests::{Call, RawUpstream, Session, chunk, question, with_timeout};

/// A gateway with a model whose upstream the test plays.
struct Setup {
    data: TempDir,
    upstream: RawUpstream,
}

/// A stream, and the call of its upstream.
struct Stream {
    answer: PendingAnswer,
    call: Call,
}

const WORD: &str =
    r#"data: {"choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}"#;

impl Setup {
    async fn start() -> (Self, Gateway) {
        let setup =
            Self { data: tempfile::tempdir().unwrap(), upstream: RawUpstream::start().await };
        let gateway = setup.serve(&[]).await;
        setup.operator(&gateway).await.add_model_on("asked", &[&setup.upstream.url]).await;
        (setup, gateway)
    }

    async fn serve(&self, arguments: &[&str]) -> Gateway {
        // Requests must not end before the test ends them, however busy the machine is.
        let serving = Gateway::start(self.data.path(), |command| {
            command.args(arguments).env("TOLLGATE_DRAIN_SECONDS", "300");
        });
        serving.await
    }

    async fn take_over(&self) -> Gateway {
        self.serve(&["--take-over"]).await
    }

    async fn operator(&self, gateway: &Gateway) -> Session {
        rig::operator(gateway, self.data.path()).await
    }

    /// Begins a stream of some words.
    async fn begin(&self, request: Request) -> Stream {
        // The head is sent with the first event.
        let streaming = async {
            let mut call = self.upstream.begin_stream().await;
            call.send(chunk(&format!("{WORD}\n\n"))).await;
            call
        };
        let (answer, call) = tokio::join!(request.send(), streaming);
        Stream { answer, call }
    }

    /// Returns the number of directories of replaced gateways.
    fn draining(&self) -> usize {
        let entries = std::fs::read_dir(self.data.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("journal.draining-")).count()
    }

    /// Waits until the records of replaced gateways are stored.
    async fn adopted(&self) {
        let adopted = async {
            while self.draining() > 0 {
                tokio::task::yield_now().await;
            }
        };
        with_timeout("the records of the replaced gateway", adopted).await;
    }

    /// Stops the last gateway, and checks that the ledger adds up. Returns the data directory.
    async fn finish(self, gateway: Gateway, charged: usize) -> TempDir {
        gateway.stop().await;
        check_ledger(self.data.path(), charged);
        self.data
    }
}

impl Stream {
    /// Lets the upstream end with this usage. Returns the events that the client gets.
    async fn end(self, completion_tokens: u64) -> Vec<String> {
        self.try_end(completion_tokens).await
    }

    /// Like [`end`](Self::end), unless the gateway has ended the stream.
    async fn try_end(self, completion_tokens: u64) -> Vec<String> {
        let Self { answer, mut call } = self;
        let usage = json!({ "prompt_tokens": 1, "completion_tokens": completion_tokens });
        let stop = json!({ "index": 0, "delta": {}, "finish_reason": "stop" });
        let last = json!({ "choices": [stop], "usage": usage });
        call.try_send(chunk(&format!("data: {last}\n\ndata: [DONE]\n\n"))).await;
        call.try_send(chunk("")).await;
        answer.events().await
    }
}

/// Checks that this number of requests is charged once, and that the balances are the sums of their entries.
fn check_ledger(data: &Path, requests: usize) {
    let number = |query: &str| number(data, query);
    assert_eq!(
        number("SELECT coalesce(sum(overrun), 0) FROM requests"),
        0,
        "more was spent than held"
    );
    let (count, requests) = ("SELECT count(*)", i64::try_from(requests).unwrap());
    let of_requests = "FROM ledger_entries WHERE request IS NOT NULL";
    assert_eq!(number(&format!("{count} {of_requests}")), requests);
    assert_eq!(number(&format!("SELECT count(DISTINCT request) {of_requests}")), requests);
    let amount = number(&format!("SELECT sum(amount) {of_requests}"));
    assert_eq!(amount, -number("SELECT sum(cost) FROM requests"));
    let entries = "SELECT sum(amount) FROM ledger_entries";
    assert_eq!(number("SELECT sum(amount) FROM balances"), number(entries));
}

/// Returns the number that a query of the database in `data` has as its result.
fn number(data: &Path, query: &str) -> i64 {
    let database = Connection::open(data.join("tollgate.db")).unwrap();
    database.query_row(query, (), |row| row.get(0)).unwrap()
}

fn stream(to: SocketAddr, key: &str) -> Request {
    let mut body = question("asked", "hi");
    body["stream"] = json!(true);
    Request::post(to, "/v1/chat/completions").bearer(key).json(&body)
}

async fn ask(to: SocketAddr, key: &str) -> Answer {
    let body = question("sim-chat", "hi");
    Request::post(to, "/v1/chat/completions").bearer(key).json(&body).answer().await
}

#[track_caller]
fn check_complete(events: &[String]) {
    assert_eq!(events.last().map(|event| event.trim_end()), Some("data: [DONE]"), "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_gateway_serves_before_the_streams_of_the_last_one_have_ended() {
    let (setup, first) = Setup::start().await;
    let (address, operator) = (first.http, setup.operator(&first).await);
    let key = operator.key().await.secret;
    let clients = Clients::start(4, address, &key);
    let mut running = Vec::new();
    let mut gateway = first;
    // Each gateway finishes a stream while all later ones serve.
    for _ in 0..3 {
        let stream = setup.begin(stream(address, &key)).await;
        let next = setup.take_over().await;
        assert_eq!(ask(address, &key).await.status, 200);
        running.push((std::mem::replace(&mut gateway, next), stream));
    }
    assert_eq!(setup.draining(), 3);
    let served = clients.stop().await + 6;
    running.reverse();
    for (last, stream) in running {
        check_complete(&stream.end(100).await);
        let (log, status) = last.wait().await;
        assert!(status.success(), "{log}");
    }
    setup.adopted().await;
    let data = setup.finish(gateway, served).await;
    let streams = "SELECT count(*) FROM requests WHERE model = 'asked' AND output = 100";
    assert_eq!(number(data.path(), streams), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn three_gateways_together_spend_no_more_than_the_balance_and_the_cap() {
    let (setup, first) = Setup::start().await;
    let address = first.http;
    let alice = Session::register(&first.admin, "alice", "correct horse battery alice").await;
    let operator = setup.operator(&first).await;
    operator.credit("alice", "-5").await;
    operator.credit("alice", "0.01").await;
    let key = alice.key().await.secret;
    let capped = alice.key_with(|key| key.spend_cap_usd = "0.001".to_owned()).await.secret;
    let streams =
        [setup.begin(stream(address, &key)).await, setup.begin(stream(address, &capped)).await];
    let second = setup.take_over().await;
    let other = setup.begin(stream(address, &key)).await;
    let gateway = setup.take_over().await;
    // Until nothing is left, or what is left is held for the other gateways.
    for key in [&key, &capped] {
        let spending = async { while ask(address, key).await.status == 200 {} };
        with_timeout("the end of the balance", spending).await;
    }
    // Each holds more than before, up to what the balance pays for.
    let mut streams: Vec<_> = streams.into_iter().chain([other]).collect();
    let words = "word ".repeat(50);
    let piece = format!(r#"data: {{"choices":[{{"index":0,"delta":{{"content":"{words}"}}}}]}}"#);
    for _ in 0..100 {
        for stream in &mut streams {
            // Until the gateway cuts the stream.
            stream.call.try_send(chunk(&format!("{piece}\n\n"))).await;
        }
    }
    for stream in streams {
        stream.try_end(1_000_000).await;
    }
    for replaced in [first, second] {
        let (log, status) = replaced.wait().await;
        assert!(status.success(), "{log}");
    }
    setup.adopted().await;
    let operator = setup.operator(&gateway).await;
    let alice = Session::with_token(&gateway.admin, "alice", &alice.token).await;
    let balance = alice.account().await.balance_usd;
    assert!(balance.parse::<f64>().unwrap() < 0.005, "{balance}");
    let verified = operator.ledger().verify_ledger(proto::v1::VerifyLedgerRequest {}).await;
    assert!(verified.unwrap().into_inner().ok);
    gateway.stop().await;
    let of_capped = "SELECT sum(cost) FROM requests WHERE key = (SELECT id FROM keys WHERE spend_cap IS NOT NULL)";
    let spent = number(setup.data.path(), of_capped);
    assert!((1..=1_000_000).contains(&spent), "{spent}");
    // What exceeds the balances is the loss of the operator. It is what the upstreams claim beyond what was held.
    let overrun = number(setup.data.path(), "SELECT coalesce(sum(overrun), 0) FROM requests");
    assert_eq!(overrun, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_in_progress_count_under_limits_and_for_idempotency_keys() {
    let (setup, first) = Setup::start().await;
    let address = first.http;
    let limits = Limits { concurrency: Some(1), ..Limits::default() };
    let operator = setup.operator(&first).await;
    let key = operator.key_with(|key| key.limits = Some(limits)).await.secret;
    let request = |text: &str| {
        let body = json!({ "model": "asked", "input": text, "stream": true, "store": true });
        let request = Request::post(address, "/v1/responses").bearer(&key);
        request.header("idempotency-key", "one").json(&body)
    };
    let stream = setup.begin(request("hi")).await;
    // Another request keeps the replaced gateway running.
    let other = setup.begin(crate::hand_over::stream(address, &operator.key().await.secret)).await;
    let gateway = setup.take_over().await;
    assert_eq!(ask(address, &key).await.status, 429);
    let code = |answer: Answer| answer.error()["code"].clone();
    assert_eq!(code(request("hi").answer().await), json!("idempotency_in_progress"));
    assert_eq!(code(request("ho").answer().await), json!("idempotency_key_reused"));
    let events = stream.end(2).await;
    let data = events.iter().filter_map(|event| event.split_once("data: "));
    let mut data = data.filter_map(|(_, data)| serde_json::from_str::<Value>(data).ok());
    let completed = data.find(|event| event["type"] == "response.completed");
    let completed = completed.unwrap_or_else(|| panic!("{events:?}"));
    let released = async { while ask(address, &key).await.status != 200 {} };
    with_timeout("the slot of the request", released).await;
    assert_eq!(code(request("hi").answer().await), json!("idempotent_answer_gone"));
    // The response ended when its gateway could not reach the database any more.
    let path = format!("/v1/responses/{}", completed["response"]["id"].as_str().unwrap());
    let stored =
        async { while Request::get(address, &path).bearer(&key).answer().await.status != 200 {} };
    with_timeout("the response of the replaced gateway", stored).await;
    assert_eq!(setup.draining(), 1);
    check_complete(&other.end(1).await);
    setup.adopted().await;
    setup.finish(gateway, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_a_replaced_gateway_that_is_killed_are_interrupted() {
    let (setup, first) = Setup::start().await;
    let (address, operator) = (first.http, setup.operator(&first).await);
    let key = operator.key().await.secret;
    let stream = setup.begin(stream(address, &key)).await;
    let gateway = setup.take_over().await;
    first.kill().await;
    drop(stream);
    setup.adopted().await;
    let record = setup.operator(&gateway).await.record().await;
    assert_eq!(record.status(), RequestStatus::Interrupted);
    setup.finish(gateway, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_continues_what_a_killed_gateway_was_waiting_for() {
    let (setup, first) = Setup::start().await;
    let (address, operator) = (first.http, setup.operator(&first).await);
    let key = operator.key().await.secret;
    let streams =
        [setup.begin(stream(address, &key)).await, setup.begin(stream(address, &key)).await];
    let second = setup.take_over().await;
    let port = second.http.to_string();
    second.kill().await;
    let gateway = setup.serve(&["--listen", &port]).await;
    assert_eq!(ask(address, &key).await.status, 200);
    let [one, two] = streams;
    check_complete(&one.end(10).await);
    // What ends while no gateway runs is stored by the next start.
    gateway.stop().await;
    assert_eq!(setup.draining(), 1);
    check_complete(&two.end(10).await);
    let (log, status) = first.wait().await;
    assert!(status.success(), "{log}");
    let gateway = setup.serve(&["--listen", &port]).await;
    assert_eq!(setup.draining(), 0);
    setup.finish(gateway, 3).await;
}

/// Regression test: a line that cannot be read kept gateways from starting, and damaged files were deleted.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_replaced_gateway_left_is_used_as_far_as_it_can_be_read() {
    let (setup, first) = Setup::start().await;
    let (address, operator) = (first.http, setup.operator(&first).await);
    let key = operator.key().await.secret;
    let stream = setup.begin(stream(address, &key)).await;
    let second = setup.take_over().await;
    second.kill().await;
    check_complete(&stream.end(10).await);
    let (log, status) = first.wait().await;
    assert!(status.success(), "{log}");
    let left = setup.data.path().join("journal.draining-1");
    std::fs::write(left.join("responses.jsonl"), b"\0\0\0\xff\n{\"id\":").unwrap();
    std::fs::write(left.join("9999999999.journal"), b"not a journal").unwrap();
    std::fs::create_dir(setup.data.path().join("journal.damaged-1")).unwrap();
    let gateway = setup.serve(&[]).await;
    assert_eq!(setup.draining(), 0);
    let aside = setup.data.path().join("journal.damaged-2");
    assert_eq!(std::fs::read(aside.join("9999999999.damaged")).unwrap(), b"not a journal");
    assert!(gateway.log().contains("journal.damaged-2"), "{}", gateway.log());
    setup.finish(gateway, 1).await;
}
