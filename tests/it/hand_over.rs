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

    /// Returns the directories of gateways that have been replaced.
    fn ending(&self) -> usize {
        let entries = std::fs::read_dir(self.data.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("journal.ending-")).count()
    }

    /// Waits until the records of replaced gateways are stored.
    async fn adopted(&self) {
        let adopted = async {
            while self.ending() > 0 {
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
        let Self { answer, mut call } = self;
        let usage = json!({ "prompt_tokens": 1, "completion_tokens": completion_tokens });
        let stop = json!({ "index": 0, "delta": {}, "finish_reason": "stop" });
        let last = json!({ "choices": [stop], "usage": usage });
        call.send(chunk(&format!("data: {last}\n\ndata: [DONE]\n\n"))).await;
        call.send(chunk("")).await;
        answer.events().await
    }
}

/// Checks that this number of requests is charged once, and that the balances are the sums of their entries.
fn check_ledger(data: &Path, requests: usize) {
    let number = |query: &str| number(data, query);
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
    assert_eq!(setup.ending(), 3);
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
async fn both_gateways_together_spend_no_more_than_the_balance_and_the_cap() {
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
    let gateway = setup.take_over().await;
    // Until nothing is left, or what is left is held for the other gateway.
    for key in [&key, &capped] {
        let spending = async { while ask(address, key).await.status == 200 {} };
        with_timeout("the end of the balance", spending).await;
    }
    for stream in streams {
        // More than the balance pays for.
        stream.end(1_000_000).await;
    }
    let (log, status) = first.wait().await;
    assert!(status.success(), "{log}");
    setup.adopted().await;
    let operator = setup.operator(&gateway).await;
    let alice = Session::with_token(&gateway.admin, "alice", &alice.token).await;
    let balance = alice.account().await.balance_usd;
    assert!(balance.parse::<f64>().unwrap() >= 0.0, "{balance}");
    let verified = operator.ledger().verify_ledger(proto::v1::VerifyLedgerRequest {}).await;
    assert!(verified.unwrap().into_inner().ok);
    gateway.stop().await;
    let of_capped = "SELECT sum(cost) FROM requests WHERE key = (SELECT id FROM keys WHERE spend_cap IS NOT NULL)";
    let spent = number(setup.data.path(), of_capped);
    assert!((1..=1_000_000).contains(&spent), "{spent}");
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
    setup.adopted().await;
    assert_eq!(ask(address, &key).await.status, 200);
    assert_eq!(code(request("hi").answer().await), json!("idempotent_answer_gone"));
    // The response was stored when its gateway could not reach the database any more.
    let path = format!("/v1/responses/{}", completed["response"]["id"].as_str().unwrap());
    let stored = Request::get(address, &path).bearer(&key).answer().await;
    assert_eq!(stored.status, 200, "{stored:?}");
    setup.finish(gateway, 2).await;
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
    assert_eq!(setup.ending(), 1);
    check_complete(&two.end(10).await);
    let (log, status) = first.wait().await;
    assert!(status.success(), "{log}");
    let gateway = setup.serve(&["--listen", &port]).await;
    assert_eq!(setup.ending(), 0);
    setup.finish(gateway, 3).await;
}
