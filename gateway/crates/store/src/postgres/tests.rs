//! The conformance suite on a server, and tests of the PostgreSQL backend.
//!
//! They need a server: `TOLLGATE_TEST_POSTGRES` is the URL of one of its databases, with the right
//! to create others. Without it, each test says so and passes.

mod allocations;
mod changes;
mod claims;
mod commit;
mod ledger;
mod migration;
mod nodes;
mod pages;
mod partitions;
mod schema_locks;
mod traffic;

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use super::*;
use crate::conformance::{batch, dump, run};
use crate::{Cursor, Identities, LedgerEntries, RequestFilter, Requests, TimeUnit};
use domain::id::{AccountId, KeyId, ModelId};
use domain::money::Nanos;
use domain::node::NodeName;
use domain::usage::{Tokens, Usage};

/// A database of a test.
struct Database {
    url: String,
    name: String,
    server: Client,
}

impl Database {
    /// Creates a database, unless there is no server.
    async fn create(test: &str) -> Option<Self> {
        let Some(server_url) = server_url() else {
            // A test runs on a thread of its name.
            let thread = std::thread::current();
            let test = thread.name().unwrap_or(test);
            eprintln!("skipped, because TOLLGATE_TEST_POSTGRES is not set: {test}");
            return None;
        };
        let server = connect(&server_url).await;
        let name = format!("tollgate_{test}_{}", std::process::id());
        server.batch_execute(&format!("DROP DATABASE IF EXISTS {name}")).await.unwrap();
        server.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        let (base, _) = server_url.rsplit_once('/').unwrap();
        Some(Self { url: format!("{base}/{name}"), name, server })
    }

    /// Opens the store for [`node`] `number`.
    async fn open(&self, number: u128) -> Result<PostgresStore, StoreError> {
        let address = PostgresAddress::parse(&self.url).unwrap();
        PostgresStore::open(&address, &node(number)).await
    }

    /// Returns a connection that bypasses the store.
    async fn connect(&self) -> Client {
        connect(&self.url).await
    }

    /// Closes the store and deletes the database.
    async fn remove(&self, store: PostgresStore) {
        store.close();
        let sql = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        self.server.batch_execute(&sql).await.unwrap();
    }
}

/// Returns the node with the data directory `number`.
fn node(number: u128) -> JoiningNode {
    JoiningNode {
        id: NodeId(Uuid::from_u128(number)),
        name: NodeName::new(format!("node-{number}")),
        version: "0.0.0",
        address: format!("h:{number}"),
        patience: Duration::from_mins(1),
    }
}

#[expect(clippy::disallowed_methods, reason = "the server is a setting of the tests only")]
fn server_url() -> Option<String> {
    std::env::var("TOLLGATE_TEST_POSTGRES").ok()
}

#[expect(clippy::disallowed_methods, reason = "the task ends with the client")]
async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(async move {
        // Fails if the database is dropped first.
        let _ = connection.await;
    });
    client
}

#[tokio::test]
async fn passes_the_conformance_suite_and_persists() {
    let Some(database) = Database::create("conformance").await else { return };
    let store = database.open(1).await.unwrap();
    run(&store).await;
    let before = dump(&store).await;
    store.close();
    assert!(matches!(store.load().await, Err(StoreError::Unavailable(_))));
    assert!(matches!(store.commit(Arc::default()).await, Err(StoreError::Unavailable(_))));
    let again = database.open(2).await.unwrap();
    assert_eq!(dump(&again).await, before);

    let client = database.connect().await;
    for sql in ["UPDATE audit SET actor = NULL", "DELETE FROM audit", "TRUNCATE audit"] {
        let refused = client.batch_execute(sql).await.unwrap_err();
        assert!(refused.as_db_error().unwrap().message().contains("append-only"), "{refused}");
    }
    database.remove(again).await;
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let Some(database) = Database::create("newer").await else { return };
    database.open(1).await.unwrap().close();
    let client = database.connect().await;
    let known: i64 =
        client.query_one("SELECT version FROM schema_version", &[]).await.unwrap().get(0);
    let newer = "UPDATE schema_version SET version = 999, oldest_supported = version + 1";
    client.batch_execute(newer).await.unwrap();
    match database.open(1).await.err() {
        Some(StoreError::Unopened { location, source }) => {
            assert!(location.starts_with("postgres://"), "{location}");
            let text = source.to_string();
            let versions = format!("schema is 999, which gateways with schema {} or", known + 1);
            assert!(text.contains(&versions), "{text}");
        }
        other => panic!("{other:?}"),
    }
    client.execute("UPDATE schema_version SET version = $1", &[&known]).await.unwrap();
    database.remove(database.open(1).await.unwrap()).await;
}

/// What a migration may do: each table gets a column, and the schema supports older gateways.
#[tokio::test]
async fn a_gateway_serves_and_starts_beside_a_newer_one() {
    let Some(database) = Database::create("rolling").await else { return };
    let store = database.open(1).await.unwrap();
    let client = database.connect().await;
    let version = "SELECT version FROM schema_version";
    let known: i64 = client.query_one(version, &[]).await.unwrap().get(0);
    run(&store).await;
    let before = dump(&store).await;
    let migration = "DO $$ DECLARE name text; BEGIN \
        FOR name IN SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace \
            WHERE nspname = 'public' AND relkind IN ('r', 'p') AND NOT relispartition LOOP \
            EXECUTE format('ALTER TABLE %I ADD COLUMN newer bigint NOT NULL DEFAULT 7', name); \
        END LOOP; END $$; \
        UPDATE schema_version SET version = version + 1";
    client.batch_execute(migration).await.unwrap();
    assert_eq!(dump(&store).await, before, "it reads the same");
    let newest = store.newest().await.unwrap();
    let fresh = Arc::new(batch(9_000..9_010));
    assert_eq!(store.commit(fresh).await.unwrap(), Cursor(newest.0 + 10));
    assert!(store.verify_ledger().await.unwrap().is_consistent());
    let written = dump(&store).await;
    store.close();
    let again = database.open(1).await.unwrap();
    assert_eq!(dump(&again).await, written, "it starts");
    let version: i64 = client.query_one(version, &[]).await.unwrap().get(0);
    assert_eq!(version, known + 1, "an older gateway does not migrate");
    database.remove(again).await;
}

#[tokio::test]
async fn asynchronous_commits_are_refused() {
    let Some(database) = Database::create("asynchronous").await else { return };
    let set = |to: &str| {
        let sql = format!("ALTER DATABASE {} SET synchronous_commit = {to}", database.name);
        async { database.server.batch_execute(&{ sql }).await.unwrap() }
    };
    set("off").await;
    match database.open(1).await.err() {
        Some(StoreError::Unopened { source, .. }) => {
            assert!(source.to_string().contains("synchronous_commit"), "{source}");
        }
        other => panic!("{other:?}"),
    }
    set("local").await;
    database.remove(database.open(1).await.unwrap()).await;
}

#[tokio::test]
async fn a_failed_batch_is_rolled_back_and_can_be_repeated() {
    let Some(database) = Database::create("failed_batch").await else { return };
    let store = database.open(1).await.unwrap();
    store.commit(Arc::new(batch(0..1))).await.unwrap();
    let before = dump(&store).await;
    let client = database.connect().await;
    let refuse = "ALTER TABLE ledger_entries ADD CONSTRAINT refuses CHECK (amount <> -7)";
    client.batch_execute(refuse).await.unwrap();
    let mut failing = batch(1..101);
    failing[50].cost = Some(Nanos(7));
    let failing = Arc::new(failing);
    assert!(matches!(store.commit(failing.clone()).await, Err(StoreError::Unavailable(_))));
    assert_eq!(dump(&store).await, before);
    client.batch_execute("ALTER TABLE ledger_entries DROP CONSTRAINT refuses").await.unwrap();
    assert_eq!(store.commit(failing).await.unwrap(), Cursor(101));
    let report = store.verify_ledger().await.unwrap();
    assert!(report.is_consistent(), "{report:?}");
    assert_eq!((report.requests, report.entries), (101, 101));
    database.remove(store).await;
}

#[tokio::test]
async fn huge_counts_saturate() {
    let Some(database) = Database::create("huge_counts").await else { return };
    let store = database.open(1).await.unwrap();
    for n in 0..3 {
        let mut absurd = batch(n..n + 1);
        absurd[0].usage = Some(Usage { input: Tokens(u64::MAX), ..Usage::default() });
        absurd[0].cost = Some(Nanos(i64::MAX));
        store.commit(Arc::new(absurd)).await.unwrap();
    }
    let summary = store.summarize(&RequestFilter::default(), TimeUnit::Day).await.unwrap();
    assert_eq!(summary.totals.input, u64::MAX / 2);
    assert_eq!(store.load().await.unwrap().balances[0].1, Nanos(i64::MIN));
    let report = store.verify_ledger().await.unwrap();
    assert!(report.is_consistent(), "{report:?}");
    database.remove(store).await;
}

/// A text of PostgreSQL cannot contain a NUL, and a client can send one.
#[tokio::test]
async fn texts_with_nul_are_stored_and_found() {
    let Some(database) = Database::create("nul").await else { return };
    let store = database.open(1).await.unwrap();
    let model = ModelId::new("a\0b\0");
    let mut records = batch(0..1);
    records[0].model = Some(model.clone());
    records[0].key = KeyId::new("\0");
    store.commit(Arc::new(records)).await.unwrap();
    let filter = RequestFilter { model: Some(model), ..RequestFilter::default() };
    let found = store.requests_before(&filter, None, 9).await.unwrap();
    assert_eq!(found[0].1.model, Some(ModelId::new("a\u{fffd}b\u{fffd}")));
    assert_eq!(store.summarize(&filter, TimeUnit::Day).await.unwrap().totals.requests, 1);
    database.remove(store).await;
}

#[tokio::test]
async fn connections_that_the_server_closed_are_replaced() {
    let Some(database) = Database::create("closed_connections").await else { return };
    let store = database.open(1).await.unwrap();
    store.commit(Arc::new(batch(0..10))).await.unwrap();
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    database.connect().await.batch_execute(end).await.unwrap();
    // Calls fail until the pool has noticed that its connection is closed; the recorder repeats them.
    let batch = Arc::new(batch(5..20));
    let committed = async {
        loop {
            if let Ok(cursor) = store.commit(batch.clone()).await {
                return cursor;
            }
        }
    };
    let committed = tokio::time::timeout(Duration::from_mins(1), committed).await;
    assert_eq!(committed.expect("another connection is opened"), Cursor(20));
    assert_eq!(store.balance(AccountId(Uuid::from_u128(1))).await.unwrap(), Nanos(-20));
    database.remove(store).await;
}
