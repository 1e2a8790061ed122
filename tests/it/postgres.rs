//! The whole product on a PostgreSQL database. Without a server in `TOLLGATE_TEST_POSTGRES`, each
//! test says that it is skipped, and passes.

use std::path::Path;

use domain::durability::Durability;
use proto::v1;
use tests::drill::client::Shape;
use tests::drill::crash::{Crash, CrashLoad, KillTime};
use tests::drill::rig;
use tests::drill::round::Drill;
use tests::http::Request;
use tests::process::{self, Gateway};
use tests::{
    ClockShift, PostgresDatabase, PostgresPrograms, PostgresServer, Session, free_ports, question,
    with_timeout,
};
use tokio::process::Command;

async fn start(database: &PostgresDatabase, data: &Path) -> Gateway {
    Gateway::start(data, |command| _ = command.env("TOLLGATE_STORE", &database.url)).await
}

/// Returns what a gateway that does not start writes to stderr.
async fn refusal(change: impl FnOnce(&mut Command), data: &Path) -> String {
    let mut gateway = process::command("gateway");
    gateway.arg("--data-dir").arg(data);
    gateway.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    change(&mut gateway);
    let output = with_timeout("its end", gateway.output()).await.unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

/// The second round starts from the balances and the journal that the first one left.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_gateway_on_postgres_restarts_with_all_records_and_balances() {
    let Some(database) = PostgresDatabase::create("it_killed").await else { return };
    let options =
        CrashLoad { clients: 16, kill: KillTime::AfterEnds(300), durability: Durability::Process };
    let mut crash = Crash::prepare_on(options, database.url.clone()).await;
    for _ in 0..2 {
        // The round includes the verification of the ledger.
        let round = crash.round().await;
        let verdict = &round.verdict;
        assert!(verdict.differences.is_empty(), "{round}");
        assert!(verdict.interrupted > 0 && verdict.counted > 0, "{round}");
        assert!(Shape::QUICK.iter().all(|shape| verdict.shapes.contains(shape)), "{verdict:?}");
    }
    let (_dir, data) = crash.stop().await;
    assert!(!data.join("tollgate.db").exists());

    assert!(database.number("SELECT sum(cost)::bigint FROM requests").await > 0);
    let unbalanced = "SELECT count(*) FROM balances WHERE amount <> \
        (SELECT sum(amount) FROM ledger_entries WHERE account = balances.account)";
    assert_eq!(database.number(unbalanced).await, 0);
    let twice = "SELECT count(*) - count(DISTINCT (request, kind)) FROM ledger_entries \
        WHERE request IS NOT NULL";
    assert_eq!(database.number(twice).await, 0, "a request is charged twice");
    let ids = "SELECT count(*) - count(DISTINCT id) FROM requests";
    assert_eq!(database.number(ids).await, 0, "a request is recorded twice");
    let gaps = "SELECT max(seq) - count(*) FROM requests";
    assert_eq!(database.number(gaps).await, 0, "the cursors have gaps");
    let elsewhere = "SELECT (SELECT count(*) FROM requests_of_earlier_days) \
        + (SELECT count(*) FROM requests_of_other_days)";
    assert_eq!(database.number(elsewhere).await, 0, "a record is not in the partition of its day");
    database.remove().await;
}

/// Retention of a gateway that starts two days later, by the clock of the database.
#[tokio::test]
async fn a_day_of_the_log_is_dropped_as_a_whole_and_totals_stay() {
    let Some(programs) = PostgresPrograms::find(None) else {
        eprintln!("skipped, because the programs of PostgreSQL are not installed");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let [port, _] = free_ports().await;
    let server = PostgresServer::create(programs, dir.path().join("server"), port).await;
    let Some(shift) = ClockShift::compile(dir.path()).await else { return };
    server.shift_clock(&shift, -2 * 86_400).await;
    let mut database = PostgresDatabase::create_on(&server.url(), "it_days").await;
    let data = dir.path().join("data");
    let start = async |database: &PostgresDatabase| {
        Gateway::start(&data, |command| {
            command.env("TOLLGATE_STORE", &database.url).env("TOLLGATE_RECORDS_KEEP_DAYS", "1");
        })
        .await
    };
    let gateway = start(&database).await;
    let operator = rig::operator(&gateway, &data).await;
    let key = operator.key().await.secret;
    for _ in 0..3 {
        let request = Request::post(gateway.http, "/v1/chat/completions").bearer(&key);
        assert_eq!(request.json(&question("sim-chat", "hi")).answer().await.status, 200);
    }
    operator.records(3).await;
    let sums = usage(&operator).await;
    assert_eq!(sums.totals.as_ref().unwrap().requests, 3);
    gateway.stop().await;
    let sql = "SELECT tableoid::regclass::text FROM requests GROUP BY 1";
    let day: String = database.client.query_one(sql, &[]).await.unwrap().get(0);
    assert!(day.starts_with("requests_of_2"), "{day}");

    server.shift_clock(&shift, 0).await;
    database.follow_to(&server.url()).await;
    // As if a gateway had run meanwhile: after a jump of the clock, retention waits for an hour.
    let trust = "UPDATE meta SET value = to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') \
        WHERE name = 'trusted_time'";
    assert_eq!(database.client.execute(trust, &[]).await.unwrap(), 1);
    let gateway = start(&database).await;
    let exists = format!("SELECT count(*) FROM pg_class WHERE relname = '{day}'");
    let dropping = async { while database.number(&exists).await > 0 {} };
    with_timeout("the removal of a day", dropping).await;
    let operator = rig::operator(&gateway, &data).await;
    assert_eq!(operator.records(0).await, []);
    assert_eq!(usage(&operator).await, sums);
    let verification = v1::VerifyLedgerRequest {};
    let proof = operator.ledger().verify_ledger(verification).await.unwrap().into_inner();
    assert_eq!((proof.ok, proof.requests, proof.charges), (true, 0, 3), "{proof:?}");
    let request = Request::post(gateway.http, "/v1/chat/completions").bearer(&key);
    assert_eq!(request.json(&question("sim-chat", "hi")).answer().await.status, 200);
    operator.records(1).await;
    gateway.stop().await;
    database.remove().await;
}

async fn usage(operator: &Session) -> v1::SummarizeUsageResponse {
    let request = v1::SummarizeUsageRequest::default();
    operator.usage().summarize_usage(request).await.unwrap().into_inner()
}

#[tokio::test]
async fn backups_are_left_to_the_tools_of_postgres() {
    let Some(database) = PostgresDatabase::create("it_backup").await else { return };
    let dir = tempfile::tempdir().unwrap();
    let gateway = start(&database, dir.path()).await;
    let operator = rig::operator(&gateway, dir.path()).await;
    let refused = match operator.maintenance().backup(v1::BackupRequest {}).await {
        Err(status) => status,
        Ok(answer) => answer.into_inner().message().await.unwrap_err(),
    };
    assert!(refused.message().contains("pg_dump"), "{refused}");
    // Nothing was copied, so the audit log does not say so.
    let log = operator.audit().list_audit(v1::ListAuditRequest::default()).await.unwrap();
    let entries = log.into_inner().entries;
    assert!(!entries.is_empty());
    assert!(entries.iter().all(|entry| entry.action != "database.backup"), "{entries:?}");
    gateway.stop().await;
    database.remove().await;
}

#[tokio::test]
async fn an_empty_database_does_not_replace_a_lost_one() {
    let Some(database) = PostgresDatabase::create("it_lost").await else { return };
    let dir = tempfile::tempdir().unwrap();
    start(&database, dir.path()).await.stop().await;
    let lose = "DROP SCHEMA public CASCADE; CREATE SCHEMA public";
    database.client.batch_execute(lose).await.unwrap();
    let address = |command: &mut Command| _ = command.env("TOLLGATE_STORE", &database.url);
    for attempt in 1..=2 {
        let text = refusal(address, dir.path()).await;
        assert!(text.contains("is empty, but `journal`, `seal.key`"), "{attempt}: {text}");
    }
    database.remove().await;
}

#[tokio::test]
async fn the_password_of_the_database_is_not_shown() {
    let closed = tests::closed_port().await;
    let address = closed.trim_start_matches("http://").trim_end_matches("/v1");
    let url = format!("postgres://tg:hunter2@{address}/db");
    let dir = tempfile::tempdir().unwrap();
    let environment = |command: &mut Command| _ = command.env("TOLLGATE_STORE", &url);
    let flag = |command: &mut Command| _ = command.args(["--store", &url]);
    let wrong = |command: &mut Command| _ = command.args(["--store", "mysql://tg:hunter2@h/db"]);
    for text in [
        refusal(environment, dir.path()).await,
        refusal(flag, dir.path()).await,
        refusal(wrong, dir.path()).await,
    ] {
        assert!(!text.contains("hunter2"), "{text}");
    }
    let text = refusal(environment, dir.path()).await;
    assert!(text.contains("the store at `postgres://tg@127.0.0.1:"), "{text}");
    let mut help = process::command("gateway");
    help.args(["serve", "--help"]).env("TOLLGATE_STORE", &url);
    let help = String::from_utf8(help.output().await.unwrap().stdout).unwrap();
    assert!(help.contains("TOLLGATE_STORE") && !help.contains("hunter2"), "{help}");
}
