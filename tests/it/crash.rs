//! `kill -9` in mid-load: what was written stays, nothing is there twice, and the money adds up.

use std::collections::BTreeSet;
use std::path::Path;

use gateway::app;
use gateway::domain::money::Nanos;
use gateway::simulator::{Settings, Simulator, TruthLog};
use proto::v1;
use tests::drill::client::{self, Seen, Shape};
use tests::drill::reconcile::{self, Logs};
use tests::process::Gateway;
use tests::{Session, soon};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Requests that clients saw the end of before the gateway is killed.
const FINISHED: usize = 300;
const WORKERS: usize = 16;

/// A simulator on a port, which outlives the gateway.
async fn simulator(tasks: &mut JoinSet<()>) -> (String, TruthLog) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let truth = TruthLog::memory();
    let simulator = Simulator::new(Settings { seed: 1, truth: truth.clone() });
    tasks.spawn(app::run_simulator(listener, simulator, CancellationToken::new()));
    (url, truth)
}

async fn operator(gateway: &Gateway, data: &Path) -> Session {
    let token = std::fs::read_to_string(data.join("operator.token")).unwrap();
    Session::with_token(&gateway.admin, "operator", token.trim()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_gateway_comes_back_with_its_records_and_its_money() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut tasks = JoinSet::new();
    let (url, truth) = simulator(&mut tasks).await;
    let no_simulator = |command: &mut tokio::process::Command| _ = command.arg("--no-simulator");
    let gateway = Gateway::start(&data, no_simulator).await;
    operator(&gateway, &data).await.add_model_on("asked", &[&url]).await;
    let changing = operator(&gateway, &data).await;
    let update = v1::UpdateModelRequest {
        id: "asked".to_owned(),
        deployments: Some(v1::DeploymentList {
            deployments: vec![v1::Deployment {
                upstream: "up-asked-0".to_owned(),
                upstream_model: "sim-chat".to_owned(),
                ..Default::default()
            }],
        }),
        ..Default::default()
    };
    changing.models().update_model(update).await.unwrap();
    let alice = Session::register(&gateway.admin, "alice", "correct horse battery alice").await;
    let key = alice.key().await.secret;
    let credit: Nanos = alice.account().await.balance_usd.parse().unwrap();

    let (done, mut finished) = mpsc::unbounded_channel();
    let mut load = JoinSet::new();
    for worker in 0..WORKERS {
        let ask =
            client::ask_on(gateway.http, key.clone(), "asked".to_owned(), worker, done.clone());
        load.spawn(ask);
    }
    drop(done);
    let mut seen: Vec<Seen> = Vec::new();
    while seen.len() < FINISHED {
        seen.push(soon("a finished request", finished.recv()).await.unwrap());
    }
    gateway.kill().await;
    while let Some(end) = soon("the clients' end", finished.recv()).await {
        seen.push(end);
    }
    while let Some(worker) = load.join_next().await {
        worker.unwrap();
    }

    let gateway = Gateway::start(&data, no_simulator).await;
    let answer = client::ask(gateway.http, &key, "asked", Shape::Chat, "still there?").await;
    let last = answer.expect("the key works");
    let alice = Session::sign_in(&gateway.admin, "alice").await;
    let records = reconcile::records_with(&alice, &last.id).await;
    seen.push(last);
    let balance = alice.account().await.balance_usd.parse().unwrap();
    let truth = truth.entries();
    let logs = Logs { seen: &seen, truth: &truth, records: &records, credit, balance };
    let verdict = reconcile::reconcile(&logs);
    assert!(verdict.differences.is_empty(), "{verdict}: {:#?}", verdict.differences);
    assert!(seen.iter().all(|end| end.status == 200), "{seen:#?}");
    assert!(verdict.interrupted > 0 && verdict.counted > 0, "{verdict}");
    drop(alice);
    gateway.stop().await;
    check_money(&data);
}

/// Every charge has its record and the other way round, once, and the sums agree.
fn check_money(data: &Path) {
    let database = rusqlite::Connection::open(data.join("tollgate.db")).unwrap();
    let number = |query: &str| -> i64 { database.query_row(query, (), |row| row.get(0)).unwrap() };
    let credit = number("SELECT sum(amount) FROM ledger_entries WHERE request IS NULL");
    let charges = number("SELECT sum(amount) FROM ledger_entries WHERE request IS NOT NULL");
    let costs = number("SELECT sum(cost) FROM requests");
    let balance = number("SELECT sum(amount) FROM balances");
    assert!(costs > 0);
    assert_eq!(Nanos(charges), -Nanos(costs));
    assert_eq!(Nanos(balance), Nanos(credit) + Nanos(charges));
    let twice = number("SELECT count(request) - count(DISTINCT request) FROM ledger_entries");
    assert_eq!(twice, 0, "a request is charged twice");
    let mut billed = database.prepare("SELECT id FROM requests WHERE cost > 0").unwrap();
    let mut entries =
        database.prepare("SELECT request FROM ledger_entries WHERE request IS NOT NULL").unwrap();
    let ids = |statement: &mut rusqlite::Statement<'_>| -> BTreeSet<Vec<u8>> {
        statement.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(ids(&mut billed), ids(&mut entries));
}

#[tokio::test]
async fn a_second_gateway_on_the_same_port_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let first = Gateway::start(&dir.path().join("one"), |_| {}).await;
    let mut second = tests::process::command("gateway");
    second.arg("--data-dir").arg(dir.path().join("two"));
    second.args(["--listen", &first.http.to_string(), "--admin-listen", "127.0.0.1:0"]);
    let output = soon("its end", second.output()).await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(said.contains("--listen") && said.contains(&first.http.to_string()), "{said}");
}
