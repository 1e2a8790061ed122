//! The conformance suite on a file, and tests of the SQLite backend.

mod ledger;
mod opening;
mod reads;
mod responses;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::Connection;
use tempfile::TempDir;
use uuid::Uuid;

use super::codec::ReadColumn;
use super::filter::Selection;
use super::*;
use crate::conformance::{batch, dump, run};
use crate::{Cursor, Identities, LedgerEntries, RequestFilter, Requests, TimeUnit};
use domain::expression::{Predicate, Term};
use domain::id::{AccountId, KeyId, ModelId};
use domain::money::Nanos;
use domain::record::RequestStatus;
use domain::usage::{Tokens, Usage};

fn temp_database() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollgate.db");
    (folder, path)
}

#[tokio::test]
async fn passes_the_conformance_suite_and_persists() {
    let (_folder, path) = temp_database();
    let store = SqliteStore::open(&path).unwrap();
    run(&store).await;
    let before = dump(&store).await;
    store.close().await;
    assert!(matches!(store.load().await, Err(StoreError::Unavailable(_))));
    assert!(matches!(store.commit(Arc::new(batch(0..1))).await, Err(StoreError::Unavailable(_))));
    drop(store);
    assert!(!path.with_extension("db-wal").exists(), "closing folds the log into the file");
    assert_eq!(dump(&SqliteStore::open(&path).unwrap()).await, before);

    let db = Connection::open(&path).unwrap();
    let wrong = "SELECT count(*) FROM balances b WHERE amount <> \
        (SELECT sum(amount) FROM ledger_entries e WHERE e.account = b.account)";
    assert_eq!(db.query_row(wrong, [], |row| row.column::<i64>(0)).unwrap(), 0);
}

#[tokio::test]
async fn committed_batches_survive_a_kill() {
    let (folder, path) = temp_database();
    let store = SqliteStore::open(&path).unwrap();
    store.commit(Arc::new(batch(0..50))).await.unwrap();
    // Simulates a kill by copying the files without closing the store.
    let copy = folder.path().join("copy.db");
    std::fs::copy(&path, &copy).unwrap();
    std::fs::copy(path.with_extension("db-wal"), copy.with_extension("db-wal")).unwrap();
    let copied = SqliteStore::open(&copy).unwrap();
    assert_eq!(copied.newest().await.unwrap(), Cursor(50));
    assert_eq!(copied.balance(AccountId(Uuid::from_u128(1))).await.unwrap(), Nanos(-50));
}

#[tokio::test]
async fn dropping_the_store_waits_for_queued_writes() {
    let (_folder, path) = temp_database();
    let store = SqliteStore::open(&path).unwrap();
    // The first poll queues the job; then the future is dropped.
    let mut commit = Box::pin(store.commit(Arc::new(batch(0..500))));
    assert!(futures_util::poll!(&mut commit).is_pending());
    drop(commit);
    drop(store);
    assert_eq!(SqliteStore::open(&path).unwrap().newest().await.unwrap(), Cursor(500));
}

#[tokio::test]
async fn files_are_only_accessible_to_their_owner() {
    let (folder, path) = temp_database();
    let store = SqliteStore::open(&path).unwrap();
    store.commit(Arc::new(batch(0..1))).await.unwrap();
    let files: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap()).collect();
    assert_eq!(files.len(), 3, "{files:?}");
    for file in files {
        let mode = file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file:?}");
    }
}

#[test]
fn refuses_newer_databases_and_other_files() {
    let check = |path: &Path, because: &str| match SqliteStore::open(path).err() {
        Some(StoreError::Unopened { location, source }) => {
            assert_eq!(location, path.display().to_string());
            assert!(source.to_string().contains(because), "{source}");
        }
        other => panic!("{other:?}"),
    };
    let (folder, path) = temp_database();
    drop(SqliteStore::open(&path).unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 999).unwrap();
    check(&path, "newer version");
    let text = folder.path().join("text");
    std::fs::write(&text, "not a database, and long enough to tell".repeat(100)).unwrap();
    check(&text, "not a database");
    check(&folder.path().join("no/such/folder.db"), "No such file");
}

#[tokio::test]
async fn a_failed_batch_is_rolled_back_and_can_be_repeated() {
    let (_folder, path) = temp_database();
    let store = SqliteStore::open(&path).unwrap();
    store.commit(Arc::new(batch(0..1))).await.unwrap();
    let before = dump(&store).await;
    let db = Connection::open(&path).unwrap();
    let trigger = "CREATE TRIGGER refuses AFTER INSERT ON ledger_entries WHEN new.amount = -7 \
        BEGIN SELECT raise(FAIL, 'no'); END";
    db.execute_batch(trigger).unwrap();
    let mut failing = batch(1..101);
    failing[50].cost = Some(Nanos(7));
    let failing = Arc::new(failing);
    match store.commit(failing.clone()).await {
        Err(StoreError::Unavailable(source)) => assert_eq!(source.to_string(), "no"),
        other => panic!("{other:?}"),
    }
    assert_eq!(dump(&store).await, before);
    db.execute_batch("DROP TRIGGER refuses").unwrap();
    assert_eq!(store.commit(failing).await.unwrap(), Cursor(101));
    let report = store.verify_ledger().await.unwrap();
    assert!(
        report.is_consistent() && report.requests == 101 && report.entries == 101,
        "{report:?}"
    );
}

#[tokio::test]
async fn errors_name_corrupt_values() {
    let (_folder, path) = temp_database();
    let store = SqliteStore::open(&path).unwrap();
    store.commit(Arc::new(batch(0..1))).await.unwrap();
    Connection::open(&path).unwrap().execute("UPDATE requests SET status = 77", []).unwrap();
    let all = RequestFilter::default();
    match store.requests_before(&all, None, 9).await {
        Err(StoreError::Unavailable(source)) => {
            assert!(source.to_string().contains("`77` is not a RequestStatus"), "{source}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_panic_in_a_job_does_not_affect_later_jobs() {
    let (_folder, path) = temp_database();
    let store = SqliteStore::open(&path).unwrap();
    for _ in 0..=READERS {
        assert!(store.read::<()>(|_| panic!("a bug")).await.is_err());
    }
    match store.write::<()>(|_| panic!("a bug")).await {
        Err(StoreError::Unavailable(source)) => assert!(source.to_string().contains("panicked")),
        other => panic!("{other:?}"),
    }
    assert_eq!(store.commit(Arc::new(batch(0..3))).await.unwrap(), Cursor(3));
    assert_eq!(store.newest().await.unwrap(), Cursor(3));
}

#[tokio::test]
async fn huge_counts_saturate() {
    let (_folder, path) = temp_database();
    let store = SqliteStore::open(&path).unwrap();
    for n in 0..3 {
        let mut absurd = batch(n..n + 1);
        absurd[0].usage = Some(Usage { input: Tokens(u64::MAX), ..Usage::default() });
        absurd[0].cost = Some(Nanos(i64::MAX));
        store.commit(Arc::new(absurd)).await.unwrap();
    }
    let summary = store.summarize(&RequestFilter::default(), TimeUnit::Day).await.unwrap();
    assert_eq!(summary.totals.input, u64::MAX / 2);
    assert_eq!(store.load().await.unwrap().balances[0].1, Nanos(i64::MIN));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_whole_batches_while_the_writer_commits() {
    let (_folder, path) = temp_database();
    let store = SqliteStore::open(&path).unwrap();
    let all = RequestFilter::default();
    let write = async {
        for n in 0..100 {
            store.commit(Arc::new(batch(n * 10..n * 10 + 10))).await.unwrap();
        }
    };
    let read = || async {
        let mut last = 0;
        while last < 1_000 {
            let summary = store.summarize(&all, TimeUnit::Day).await.unwrap();
            assert_eq!(summary.totals.requests % 10, 0);
            assert!(summary.totals.requests >= last);
            last = summary.totals.requests;
            let page = store.requests_before(&all, None, 5).await.unwrap();
            assert!(page.first().map_or(0, |(cursor, _)| cursor.0) >= i64::try_from(last).unwrap());
        }
    };
    tokio::join!(write, read(), read());
}

#[test]
fn pages_do_not_read_the_whole_log() {
    let (_folder, path) = temp_database();
    drop(SqliteStore::open(&path).unwrap());
    let db = Connection::open(&path).unwrap();
    let all = RequestFilter::default();
    let own = RequestFilter { account: Some(AccountId(Uuid::nil())), ..all.clone() };
    let run = [
        "SEARCH request_runs USING PRIMARY KEY (owner=? AND first>? AND first<?)",
        "SCALAR SUBQUERY",
        "SEARCH request_runs USING PRIMARY KEY (owner=? AND first<?)",
        "SEARCH requests USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
    ];
    let status = Some(RequestStatus::Failed);
    let trouble = &["SEARCH requests USING INDEX requests_by_trouble (status=?"];
    let statuses = |statuses: &[RequestStatus], negated| {
        let predicate = Predicate::Status(statuses.to_vec());
        RequestFilter { terms: vec![Term { predicate, negated }], ..RequestFilter::default() }
    };
    for (filter, parts, expected) in [
        (own.clone(), 1, &run[..]),
        (RequestFilter { key: Some(KeyId::new("")), ..own.clone() }, 1, &run),
        (RequestFilter { status, ..own }, 1, &run),
        (
            RequestFilter { model: Some(ModelId::new("")), ..all.clone() },
            1,
            &["SEARCH requests USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"],
        ),
        (all.clone(), 1, &["SEARCH requests USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"]),
        (RequestFilter { status, ..all }, 1, trouble),
        (statuses(&[RequestStatus::Failed, RequestStatus::Rejected], false), 2, trouble),
        (statuses(&[RequestStatus::Completed], true), RequestStatus::ALL.len() - 1, trouble),
    ] {
        let selections = Selection::of(&db, &filter).unwrap().parts();
        assert_eq!(selections.len(), parts, "{filter:?}");
        for selection in selections {
            for direction in ["ASC", "DESC"] {
                let sql = requests::page_sql(&db, &selection, (2, 8), direction).unwrap().0;
                assert_plan(&db, &sql, expected);
            }
        }
    }
}

#[tokio::test]
async fn a_page_of_several_statuses_has_the_order_of_the_log() {
    use RequestStatus::{Cancelled, Completed, Failed, Rejected};
    let (_folder, path) = temp_database();
    let store = SqliteStore::open(&path).unwrap();
    let mut records = batch(0..40);
    for (record, status) in
        records.iter_mut().zip([Failed, Completed, Rejected, Cancelled].iter().cycle())
    {
        record.status = *status;
    }
    store.commit(Arc::new(records)).await.unwrap();
    for (list, negated) in [(vec![Failed, Rejected], false), (vec![Completed, Cancelled], true)] {
        let predicate = Predicate::Status(list);
        let filter =
            RequestFilter { terms: vec![Term { predicate, negated }], ..RequestFilter::default() };
        let mut back = store.requests_before(&filter, None, 7).await.unwrap();
        let oldest = back.last().map(|(cursor, _)| *cursor);
        back.extend(store.requests_before(&filter, oldest, 50).await.unwrap());
        let mut forth = store.requests_after(&filter, Cursor(0), 50).await.unwrap();
        assert!(forth.is_sorted_by_key(|(cursor, _)| *cursor), "{forth:?}");
        assert!(forth.iter().all(|(_, record)| [Failed, Rejected].contains(&record.status)));
        forth.reverse();
        assert_eq!((forth.len(), forth), (20, back));
    }
}

/// Checks the steps of a query plan. Sorting would be an additional step.
fn assert_plan(db: &Connection, sql: &str, expected: &[&str]) {
    let mut select = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let plan: Vec<String> =
        select.raw_query().mapped(|row| row.column(3)).map(Result::unwrap).collect();
    let is_expected = |(step, expected): (&String, &&str)| step.starts_with(expected);
    assert!(
        plan.len() == expected.len() && plan.iter().zip(expected).all(is_expected),
        "{sql}: {plan:?}"
    );
}

#[tokio::test]
async fn the_audit_log_is_append_only() {
    let (_folder, path) = temp_database();
    run(&SqliteStore::open(&path).unwrap()).await;
    let db = Connection::open(&path).unwrap();
    for sql in ["UPDATE audit SET actor = NULL", "DELETE FROM audit"] {
        let refused = db.execute(sql, []).unwrap_err();
        assert!(refused.to_string().contains("append-only"), "{refused}");
    }
}
