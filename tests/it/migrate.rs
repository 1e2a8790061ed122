//! `gateway migrate`, from SQLite to PostgreSQL. Without a server in `TOLLGATE_TEST_POSTGRES`, each
//! test says that it is skipped, and passes.

use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::time::Duration;

use gateway::clock::{Clock, SystemClock};
use gateway::config::Settings;
use proto::v1;
use proto::v1::credential::Source;
use serde_json::{Value, json};
use tests::drill::rig;
use tests::process::{self, Gateway};
use tests::{Home, ManualClock, PostgresDatabase, Product, Session, question, with_timeout};

use crate::ledger::{proof, send_requests};

async fn migrate(data: &Path, to: &str) -> Output {
    let mut gateway = process::command("gateway");
    gateway.args(["migrate", "--to", to, "--data-dir"]).arg(data);
    with_timeout("the migration", gateway.output()).await.unwrap()
}

/// Returns what a migration that fails writes to stderr.
async fn refusal(data: &Path, to: &str) -> String {
    let output = migrate(data, to).await;
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

/// Returns everything that an operator can list.
async fn everything(product: &Product) -> Vec<String> {
    let operator = product.operator().await;
    let accounts = v1::ListAccountsRequest::default();
    let accounts = operator.accounts().list_accounts(accounts).await.unwrap().into_inner();
    let keys = v1::ListKeysRequest { account: "*".to_owned() };
    let keys = operator.keys().list_keys(keys).await.unwrap().into_inner();
    let plans = operator.plans().list_plans(v1::ListPlansRequest {}).await.unwrap().into_inner();
    let models = operator.models().list_models(v1::ListModelsRequest::default()).await;
    let upstreams = operator.upstreams().list_upstreams(v1::ListUpstreamsRequest::default()).await;
    let requests = v1::ListRequestsRequest { page_size: 1_000, ..Default::default() };
    let requests = operator.usage().list_requests(requests).await.unwrap().into_inner();
    let usage = v1::SummarizeUsageRequest::default();
    let usage = operator.usage().summarize_usage(usage).await.unwrap().into_inner();
    let entries = v1::ListEntriesRequest { page_size: 1_000, ..Default::default() };
    let entries = operator.ledger().list_entries(entries).await.unwrap().into_inner();
    let audit = v1::ListAuditRequest { page_size: 1_000, ..Default::default() };
    let audit = operator.audit().list_audit(audit).await.unwrap().into_inner();
    let proof = proof(product).await;
    vec![
        format!("{accounts:#?}"),
        format!("{keys:#?}"),
        format!("{plans:#?}"),
        format!("{:#?}", models.unwrap().into_inner()),
        format!("{:#?}", upstreams.unwrap().into_inner()),
        format!("{requests:#?}"),
        format!("{usage:#?}"),
        format!("{entries:#?}"),
        format!("{audit:#?}"),
        format!("{} {} {} {}", proof.ok, proof.requests, proof.charges, proof.entries),
    ]
}

/// Sends a Responses request that continues `previous`, and returns the answer.
async fn respond(product: &Product, key: &str, text: &str, previous: Option<&str>) -> Value {
    let mut body = json!({ "model": "sim-chat", "input": text });
    if let Some(previous) = previous {
        body["previous_response_id"] = json!(previous);
    }
    let answer = product.post("/v1/responses").bearer(key).json(&body).answer().await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// Returns the data directory of a gateway that has run on SQLite, with an account `alice`.
async fn used() -> Home {
    let product = Home::new(|_| {}).start().await;
    let alice = product.member("alice").await;
    send_requests(&product, &alice, 2).await;
    product.stop().await
}

#[tokio::test]
async fn everything_continues_on_postgres() {
    let Some(database) = PostgresDatabase::create("it_migrate").await else { return };
    let clock = ManualClock::at("2026-11-20T10:30:00Z");
    let mut home = Home::new(|setup| setup.clock = Arc::new(clock.clone()));
    let product = home.start().await;
    let alice = product.member("alice").await;
    let bob = product.member("bob").await;
    send_requests(&product, &alice, 3).await;
    clock.advance(Duration::from_hours(48));
    let operator = product.operator().await;
    operator.credit("alice", "3.5").await;
    operator.credit("bob", "-1").await;
    let sealed = v1::Credential { source: Some(Source::Secret("sk-upstream".to_owned())) };
    let upstream = v1::Upstream {
        name: "sealed".to_owned(),
        url: product.simulator_url().to_owned(),
        credentials: vec![sealed],
        ..Default::default()
    };
    operator.add_upstream(upstream).await;
    operator.add_model(tests::priced_model("sealed-model", &[("sealed", "sim-chat")])).await;
    send_requests(&product, &bob, 2).await;
    let key = alice.key().await.secret;
    let mut stream = question("sealed-model", "a stream");
    stream["stream"] = json!(true);
    assert_eq!(product.chat(&key, &stream).answer().await.status, 200);
    assert_eq!(product.chat(&key, &question("gpt-9", "unknown")).answer().await.status, 404);
    let first = respond(&product, &key, "remember: blue", None).await;
    let second = respond(&product, &key, "which?", first["id"].as_str()).await;
    alice.records(3 + 4).await;
    product.stop().await;
    crate::retention::trust(&home, "2026-11-22T10:30:00Z");

    home.setup.config.records.keep_for = Some(Duration::from_hours(24));
    let product = home.start().await;
    let operator = product.operator().await;
    let left = async || operator.records(0).await.len();
    with_timeout("the removal of old records", async { while left().await != 6 {} }).await;
    product.stop().await;
    home.setup.config.records.keep_for = None;

    // Its last request may be in the journal only.
    let killed = Gateway::start(home.data_dir(), |_| ()).await;
    let last = tests::http::Request::new(killed.http, http::Method::POST, "/v1/chat/completions");
    let last = last.bearer(&key).json(&question("sim-chat", "the last")).answer().await;
    assert_eq!(last.status, 200);
    killed.kill().await;

    let output = migrate(home.data_dir(), &database.url).await;
    let text = String::from_utf8(output.stdout).unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}\n{log}");
    assert!(text.contains("requests, rows") && text.contains("Both are the same."), "{text}");

    // The source is unchanged but for the replayed journal.
    let product = home.start().await;
    let before = everything(&product).await;
    assert_eq!(product.operator().await.records(0).await.len(), 7);
    product.stop().await;
    let settings = Settings { store: Some(database.url.as_str().into()), ..Settings::default() };
    home.setup.config.store = settings.resolve().unwrap().store;
    let product = home.start().await;
    for (before, after) in before.iter().zip(everything(&product).await) {
        assert_eq!(*before, after);
    }

    let session = Session::with_token(&product.admin, "alice", &alice.token).await;
    assert_eq!(session.account().await.name, "alice");
    Session::sign_in(&product.admin, "bob").await;
    let third = respond(&product, &key, "again?", second["id"].as_str()).await;
    assert_eq!(third["previous_response_id"], second["id"]);
    let path = format!("/v1/responses/{}", first["id"].as_str().unwrap());
    let stored = product.get(&path).bearer(&key).answer().await.json();
    assert_eq!(stored["output"], first["output"]);
    assert_eq!(product.chat(&key, &question("sealed-model", "hi")).answer().await.status, 200);
    // The reading of the stored response has a record, too.
    let records = product.operator().await.records(10).await;
    assert_eq!(records.len(), 10);
    let ids = "SELECT count(DISTINCT seq) + max(seq) - count(*) FROM requests";
    // Three records were deleted, and cursors have no gaps.
    assert_eq!(database.number(ids).await, 3 + 10);
    assert!(proof(&product).await.ok);
    product.stop().await;
    database.remove().await;
}

/// Returns the number of requests, whether or not they have records.
async fn total(operator: &Session) -> u64 {
    let usage = operator.usage().summarize_usage(v1::SummarizeUsageRequest::default()).await;
    usage.unwrap().into_inner().totals.unwrap().requests
}

#[tokio::test]
async fn copied_records_are_in_partitions_of_days_that_retention_drops() {
    let Some(database) = PostgresDatabase::create("it_migrate_days").await else { return };
    let day = Duration::from_hours(24);
    let clock = ManualClock::at(&(SystemClock::new().now() - 3 * day).to_string());
    let home = Home::new(|setup| setup.clock = Arc::new(clock.clone()));
    let product = home.start().await;
    let alice = product.member("alice").await;
    send_requests(&product, &alice, 2).await;
    clock.advance(day);
    let alice = Session::sign_in(&product.admin, "alice").await;
    send_requests(&product, &alice, 3).await;
    clock.advance(2 * day);
    let alice = Session::sign_in(&product.admin, "alice").await;
    send_requests(&product, &alice, 1).await;
    let balance = alice.account().await.balance_usd;
    let home = product.stop().await;
    // The clock of the database continues from here.
    crate::retention::trust(&home, &clock.now().to_string());

    assert!(migrate(home.data_dir(), &database.url).await.status.success());
    let partitions = "SELECT tableoid::regclass::text, count(*) FROM requests \
        GROUP BY tableoid ORDER BY min(started_at)";
    let rows = database.client.query(partitions, &[]).await.unwrap();
    let (names, counts): (Vec<String>, Vec<i64>) =
        rows.iter().map(|row| (row.get::<_, String>(0), row.get::<_, i64>(1))).unzip();
    assert_eq!(counts, [2, 3, 1]);
    assert!(names.iter().all(|name| name.starts_with("requests_of_2")), "{names:?}");

    let gateway = Gateway::start(home.data_dir(), |command| {
        command.env("TOLLGATE_STORE", &database.url).env("TOLLGATE_RECORDS_KEEP_DAYS", "1");
    })
    .await;
    let count = "SELECT count(*) FROM requests";
    with_timeout("two days", async { while database.number(count).await != 1 {} }).await;
    let [old, older, _] = &names[..] else { panic!("{names:?}") };
    let left = format!("SELECT count(*) FROM pg_class WHERE relname IN ('{old}', '{older}')");
    assert_eq!(database.number(&left).await, 0);
    let operator = rig::operator(&gateway, home.data_dir()).await;
    assert_eq!(total(&operator).await, 6);
    let verification = v1::VerifyLedgerRequest {};
    let proof = operator.ledger().verify_ledger(verification).await.unwrap().into_inner();
    assert_eq!((proof.ok, proof.requests, proof.charges), (true, 1, 6), "{proof:?}");
    let alice = Session::sign_in(&gateway.admin, "alice").await;
    assert_eq!(alice.account().await.balance_usd, balance);
    gateway.stop().await;
    database.remove().await;
}

#[tokio::test]
async fn an_incomplete_copy_is_used_by_no_gateway_and_no_second_migration() {
    let Some(database) = PostgresDatabase::create("it_migrate_failed").await else { return };
    let mut home = used().await;
    let sqlite = rusqlite::Connection::open(home.data_dir().join("tollgate.db")).unwrap();
    // PostgreSQL has 32 bits for this number, so the copy ends at this table.
    sqlite.execute_batch("UPDATE requests SET http_status = 5000000000").unwrap();
    let text = refusal(home.data_dir(), &database.url).await;
    assert!(text.contains("which is incomplete now"), "{text}");
    assert!(database.number("SELECT count(*) FROM accounts").await > 0);
    let again = refusal(home.data_dir(), &database.url).await;
    assert!(again.contains("incomplete migration (`gateway migrate`, begun at "), "{again}");
    let settings = Settings { store: Some(database.url.as_str().into()), ..Settings::default() };
    let sqlite_config =
        std::mem::replace(&mut home.setup.config.store, settings.resolve().unwrap().store);
    let refused = format!("{:#}", home.start_and_stop().await.unwrap_err());
    assert!(refused.contains("delete it, create an empty database"), "{refused}");
    assert_eq!(database.number("SELECT count(*) FROM nodes").await, 0);

    // The source is unharmed.
    sqlite.execute_batch("UPDATE requests SET http_status = 200").unwrap();
    drop(sqlite);
    home.setup.config.store = sqlite_config;
    home.start_and_stop().await.unwrap();
    let empty = "DROP SCHEMA public CASCADE; CREATE SCHEMA public";
    database.client.batch_execute(empty).await.unwrap();
    assert!(migrate(home.data_dir(), &database.url).await.status.success());
    database.remove().await;
}

#[tokio::test]
async fn a_running_gateway_and_a_database_in_use_are_refused() {
    let Some(database) = PostgresDatabase::create("it_migrate_refused").await else { return };
    let home = used().await;
    let running = home.start().await;
    let text = refusal(home.data_dir(), &database.url).await;
    assert!(text.contains("stop the gateway first: another gateway is using"), "{text}");
    running.stop().await;
    assert!(migrate(home.data_dir(), &database.url).await.status.success());
    let text = refusal(home.data_dir(), &database.url).await;
    assert!(text.contains("it is not empty (table `accounts` has rows)"), "{text}");
    database.remove().await;
}
