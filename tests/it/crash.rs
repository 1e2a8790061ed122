//! `kill -9` under load: records survive, nothing is duplicated, and the money adds up.

use std::collections::BTreeSet;
use std::path::Path;

use domain::durability::Durability;
use domain::money::Nanos;
use proto::v1;
use tests::drill::client::Shape;
use tests::drill::crash::{Crash, CrashLoad, KillTime};
use tests::drill::rig;
use tests::drill::round::Drill;
use tests::http::Request;
use tests::process::Gateway;
use tests::{RawUpstream, json_answer, question, with_timeout};
use tokio::task::JoinSet;

async fn killed(ends: usize, durability: Durability) -> Crash {
    let options = CrashLoad { clients: 16, kill: KillTime::AfterEnds(ends), durability };
    let mut crash = Crash::prepare(options).await;
    let round = crash.round().await;
    let verdict = &round.verdict;
    assert!(verdict.differences.is_empty(), "{round}");
    assert!(verdict.interrupted > 0 && verdict.counted > 0, "{round}");
    assert!(Shape::QUICK.iter().all(|shape| verdict.shapes.contains(shape)), "{verdict:?}");
    crash
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_gateway_restarts_with_all_records_and_balances() {
    let (_dir, data) = killed(300, Durability::Process).await.stop().await;
    check_money(&data);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_gateway_with_power_durability_restarts_alike() {
    let (_dir, data) = killed(100, Durability::Power).await.stop().await;
    check_money(&data);
}

/// With one CPU the gateway has one worker.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_gateway_with_one_worker_restarts_alike() {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    // a child process inherits the CPU affinity of this thread
    let all = sched_getaffinity(None).unwrap();
    let mut one = CpuSet::new();
    one.set((0..CpuSet::MAX_CPU).find(|&processor| all.is_set(processor)).unwrap());
    sched_setaffinity(None, &one).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let log = Gateway::start(scratch.path(), |_| {}).await.stop().await;
    assert!(log.contains("workers=1"), "{log}");
    let (_dir, data) = killed(300, Durability::Process).await.stop().await;
    check_money(&data);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reconciliation_detects_every_kind_of_tampering() {
    for (tampering, differences) in killed(50, Durability::Process).await.tamper().await {
        assert!(tampering.is_seen_in(differences), "{tampering} makes {differences} differences");
    }
}

/// While the database is locked, only the journal can contain the record.
#[tokio::test]
async fn a_result_that_no_client_received_survives_a_crash() {
    const ANSWER: &str = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":700}}"#;
    let (dir, upstream) = (tempfile::tempdir().unwrap(), RawUpstream::start().await);
    let gateway = Gateway::start(dir.path(), |_| {}).await;
    let operator = rig::operator(&gateway, dir.path()).await;
    operator.add_model_on("asked", &[&upstream.url]).await;
    let drained = operator.key_with(|key| {
        key.client_gone = v1::ClientGone::Drain.into();
        key.drain_seconds = 60;
    });
    let key = drained.await.secret;
    let request = Request::post(gateway.http, "/v1/chat/completions").bearer(&key);
    let request = request.json(&question("asked", "hi"));
    let mut client = JoinSet::new();
    client.spawn(async move { request.try_send().await.is_ok() });
    let mut call = upstream.call().await;
    client.shutdown().await;

    let database = rusqlite::Connection::open(dir.path().join("tollgate.db")).unwrap();
    database.execute_batch("BEGIN IMMEDIATE").unwrap();
    let before = operator.account().await;
    call.send(json_answer(200, ANSWER)).await;
    let charged = async { while operator.account().await == before {} };
    with_timeout("the end of the request", charged).await;
    gateway.kill().await;
    drop(database);

    let gateway = Gateway::start(dir.path(), |_| {}).await;
    let record = rig::operator(&gateway, dir.path()).await.record().await;
    let (status, basis) = (record.status(), record.usage_basis());
    assert_eq!((status, basis), (v1::RequestStatus::Cancelled, v1::UsageBasis::Upstream));
    assert_eq!(record.tokens.unwrap().output, Some(700));
}

/// Regression test: the gateway waited for the lock for almost two minutes, or until it was killed.
#[tokio::test]
async fn a_shutdown_ends_although_the_database_is_locked_and_the_next_start_has_all_records() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), |_| {}).await;
    let key = rig::operator(&gateway, dir.path()).await.key().await.secret;
    let database = rusqlite::Connection::open(dir.path().join("tollgate.db")).unwrap();
    database.execute_batch("BEGIN IMMEDIATE").unwrap();
    for _ in 0..3 {
        let request = Request::post(gateway.http, "/v1/chat/completions").bearer(&key);
        let answer = request.json(&question("sim-chat", "hi")).answer().await;
        assert_eq!(answer.status, 200);
    }
    gateway.stop().await;
    drop(database);

    let gateway = Gateway::start(dir.path(), |_| {}).await;
    let records = rig::operator(&gateway, dir.path()).await.records(3).await;
    assert_eq!(records.len(), 3, "{records:?}");
    for record in records {
        assert_eq!(record.status(), v1::RequestStatus::Completed);
    }
    gateway.stop().await;
    check_money(dir.path());
}

/// Checks that charges and records match one to one, and that the sums agree.
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
async fn a_second_gateway_on_the_same_port_reports_the_conflict() {
    let dir = tempfile::tempdir().unwrap();
    let first = Gateway::start(&dir.path().join("one"), |_| {}).await;
    let mut second = tests::process::command("gateway");
    second.arg("--data-dir").arg(dir.path().join("two"));
    second.args(["--listen", &first.http.to_string(), "--admin-listen", "127.0.0.1:0"]);
    let output = with_timeout("its end", second.output()).await.unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(stderr.contains("--listen") && stderr.contains(&first.http.to_string()), "{stderr}");
}
