//! Copies of a SQLite database.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_postgres::{Client, Row};

use super::{Database, batch, run};
use crate::migration::{Batch, Comparison, MigrationError, StoredValue, TABLES, migrate};
use crate::postgres::PostgresAddress;
use crate::postgres::codec::ReadColumn;
use crate::sqlite::SqliteStore;
use crate::summary::DAY;
use crate::{Cursor, Identities, LedgerEntries, Requests, RetentionCutoff, StoreMaintenance};
use domain::money::Nanos;

/// Tables of which SQLite has nothing: those of several gateways, and the ends of logs.
const OWN_TABLES: [&str; 9] = [
    "allocation_operations",
    "allocations",
    "change_log_end",
    "changes",
    "idempotency_claims",
    "log_end",
    "nodes",
    "schema_version",
    "traffic_minutes",
];

async fn copy(source: &SqliteStore, database: &Database) -> Result<Comparison, MigrationError> {
    let address = PostgresAddress::parse(&database.url).unwrap();
    migrate(source, &address, Some("a fingerprint"), |_, _| ()).await
}

/// Returns a store that has rows in all tables and sums of deleted records, and the folder of its
/// file.
async fn full() -> (SqliteStore, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("tollgate.db")).unwrap();
    run(&store).await;
    store.commit(Arc::new(batch(10_000..10_100))).await.unwrap();
    let ended_before = "2100-01-01T00:00Z".parse().unwrap();
    let cutoff = RetentionCutoff { before: None, beyond: Some(90), ended_before };
    assert!(store.delete_old_requests(cutoff, 10_000).await.unwrap() > 10);
    (store, folder)
}

/// Returns the rows of each table in SQLite, sorted.
async fn rows_of_source(source: &SqliteStore) -> BTreeMap<&'static str, Vec<Vec<StoredValue>>> {
    let (sender, mut batches) = mpsc::channel(1);
    let mut tables = BTreeMap::<_, Vec<_>>::new();
    let collect = async {
        while let Some(Batch { table, rows }) = batches.recv().await {
            tables.entry(table.name).or_default().extend(rows);
        }
        Ok(())
    };
    futures_util::future::try_join(source.export(sender), collect).await.unwrap();
    for rows in tables.values_mut() {
        rows.sort_unstable();
    }
    tables
}

/// Returns the rows of each table in PostgreSQL, sorted, without those that a migration adds.
async fn rows_of_copy(client: &Client) -> BTreeMap<&'static str, Vec<Vec<StoredValue>>> {
    let mut tables = BTreeMap::new();
    for table in TABLES {
        let columns: Vec<_> = table.columns().collect();
        let sql = format!("SELECT {} FROM {}", columns.join(", "), table.copy());
        let rows = client.query(&sql, &[]).await.unwrap();
        let values = |row: &Row| (0..columns.len()).map(|at| row.column(at).unwrap()).collect();
        let mut rows: Vec<Vec<StoredValue>> = rows.iter().map(values).collect();
        rows.sort_unstable();
        if !rows.is_empty() {
            tables.insert(table.name, rows);
        }
    }
    tables
}

/// Returns the error and its causes.
fn text(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[tokio::test]
async fn a_copy_has_everything_and_continues_the_logs() {
    let Some(database) = Database::create("copy").await else { return };
    let (source, _folder) = full().await;
    // More than one batch of the copy.
    for start in [11_000, 14_000, 17_000] {
        source.commit(Arc::new(batch(start..start + 3_000))).await.unwrap();
    }
    let comparison = copy(&source, &database).await.unwrap();
    assert!(comparison.is_equal(), "{comparison}");
    for table in TABLES {
        let name = format!("{}, rows", table.name);
        let figure = comparison.figures.iter().find(|figure| figure.name == name).unwrap();
        assert!(figure.sqlite > 0, "`{name}` is not tested");
    }
    let client = database.connect().await;
    assert_eq!(rows_of_copy(&client).await, rows_of_source(&source).await);
    let copied = database.open(1).await.unwrap();
    let entries = source.entries_before(None, None, usize::MAX).await.unwrap();
    assert_eq!(copied.entries_before(None, None, usize::MAX).await.unwrap(), entries);
    let newest = source.newest().await.unwrap();
    assert_eq!(copied.newest().await.unwrap(), newest);
    assert_eq!(copied.commit(Arc::new(batch(30_000..30_001))).await.unwrap(), Cursor(newest.0 + 1));
    let added = copied.entries_before(None, None, 1).await.unwrap();
    assert_eq!((added[0].0.0, added[0].1.amount), (entries[0].0.0 + 1, Nanos(-1)));
    assert!(copied.verify_ledger().await.unwrap().is_consistent());
    let sums = "SELECT count(*) FROM response_bytes AS stored WHERE bytes <> \
        (SELECT coalesce(sum(bytes), 0) FROM responses WHERE account = stored.account)";
    assert_eq!(client.query_one(sums, &[]).await.unwrap().get::<_, i64>(0), 0);
    database.remove(copied).await;
}

/// Ten records of each of these days since 1970, in batches.
async fn commit_days(source: &SqliteStore, days: &[i64]) {
    for (first, day) in (0..).step_by(10).zip(days) {
        let mut records = batch(first..first + 10);
        for record in &mut records {
            record.started_at = Timestamp::from_microsecond(day * DAY + DAY / 2).unwrap();
        }
        source.commit(Arc::new(records)).await.unwrap();
    }
}

#[tokio::test]
async fn copied_days_are_dropped_as_a_whole() {
    let Some(database) = Database::create("copied_days").await else { return };
    let folder = tempfile::tempdir().unwrap();
    let source = SqliteStore::open(&folder.path().join("tollgate.db")).unwrap();
    // The first one is of a clock that was behind, and the last one of a clock that was ahead.
    commit_days(&source, &[9, 20_000, 20_001, 20_003, 40_000]).await;
    let comparison = copy(&source, &database).await.unwrap();
    assert!(comparison.is_equal(), "{comparison}");
    let counts = async |client: &Client| -> Vec<(String, i64)> {
        let sql = "SELECT substring(tableoid::regclass::text FROM 13), count(*) FROM requests \
            GROUP BY tableoid ORDER BY min(started_at)";
        let rows = client.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    };
    let named =
        |names: &[&str]| -> Vec<_> { names.iter().map(|name| ((*name).to_owned(), 10)).collect() };
    let client = database.connect().await;
    let days = ["1970_01_10", "2024_10_04", "2024_10_05", "2024_10_07", "2079_07_08"];
    assert_eq!(counts(&client).await, named(&days));

    let copied = database.open(1).await.unwrap();
    copied.prepare_days(Some(Duration::from_hours(24))).await.unwrap();
    let noon = Timestamp::from_microsecond(20_002 * DAY + DAY / 2).unwrap();
    let cutoff = RetentionCutoff { before: Some(noon), beyond: None, ended_before: noon };
    for _ in 0..3 {
        assert_eq!(copied.drop_old_days(cutoff).await.unwrap(), 10);
    }
    assert_eq!(copied.delete_old_requests(cutoff, 99).await.unwrap(), 0);
    assert_eq!(counts(&client).await, named(&days[3..]));
    assert!(copied.verify_ledger().await.unwrap().is_consistent());
    database.remove(copied).await;
}

#[tokio::test]
async fn every_table_and_column_is_written() {
    let Some(database) = Database::create("columns").await else { return };
    let store = database.open(1).await.unwrap();
    let sql = "SELECT table_name::text, column_name::text FROM information_schema.columns \
        WHERE table_schema = 'public' AND table_name NOT LIKE 'requests_of_%'";
    let found = database.connect().await.query(sql, &[]).await.unwrap();
    let found = found.iter().map(|row| (row.get(0), row.get(1)));
    let found: BTreeSet<(String, String)> =
        found.filter(|(table, _): &(String, _)| !OWN_TABLES.contains(&&**table)).collect();
    let columns =
        TABLES.iter().flat_map(|table| table.columns().map(|column| (table.name, column)));
    let written = columns.map(|(table, column)| (table.to_owned(), column.to_owned())).collect();
    assert_eq!(found, written);
    database.remove(store).await;
}

#[tokio::test]
async fn an_incomplete_copy_is_refused() {
    let Some(database) = Database::create("incomplete_copy").await else { return };
    let (source, _folder) = full().await;
    // PostgreSQL has 32 bits for this number.
    source.tamper("UPDATE requests SET http_status = 5000000000").await.unwrap();
    let error = copy(&source, &database).await.unwrap_err();
    assert!(matches!(error, MigrationError::Copy { .. }), "{error:?}");
    assert!(text(&error).contains("which is incomplete now"), "{}", text(&error));
    let client = database.connect().await;
    let accounts = client.query_one("SELECT count(*) FROM accounts", &[]).await.unwrap();
    assert!(accounts.get::<_, i64>(0) > 0, "something was copied");

    let refused = text(&database.open(1).await.err().unwrap());
    assert!(refused.contains("incomplete migration (`gateway migrate`, begun at 2"), "{refused}");
    let again = text(&copy(&source, &database).await.unwrap_err());
    assert!(again.contains("incomplete migration"), "{again}");
    let nodes = client.query_one("SELECT count(*) FROM nodes", &[]).await.unwrap();
    assert_eq!(nodes.get::<_, i64>(0), 0);
    let drop = format!("DROP DATABASE {} WITH (FORCE)", database.name);
    database.server.batch_execute(&drop).await.unwrap();
}

#[tokio::test]
async fn a_database_in_use_is_refused() {
    let Some(database) = Database::create("copy_into_use").await else { return };
    let (source, _folder) = full().await;
    let store = database.open(1).await.unwrap();
    let refused = text(&copy(&source, &database).await.unwrap_err());
    assert!(refused.contains("not empty (table `nodes`"), "{refused}");
    assert!(store.load().await.unwrap().accounts.is_empty());
    database.remove(store).await;
}

#[tokio::test]
async fn an_inconsistent_ledger_is_not_copied() {
    let Some(database) = Database::create("inconsistent_copy").await else { return };
    let (source, _folder) = full().await;
    source.tamper("UPDATE balances SET amount = amount + 1").await.unwrap();
    let error = copy(&source, &database).await.unwrap_err();
    assert!(matches!(error, MigrationError::Inconsistent(1..)), "{error:?}");
    database.remove(database.open(1).await.unwrap()).await;
}
