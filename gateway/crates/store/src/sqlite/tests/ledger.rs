//! Tests of the verification with manipulated databases, and of copies.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use rusqlite::Connection;
use uuid::Uuid;

use super::{SqliteStore, assert_plan, temp_database};
use crate::conformance::{audit_entry, batch};
use crate::sqlite::ledger::page_sql;
use crate::{
    ConsumptionTotals, Cursor, LedgerEntries, RequestFilter, Requests, RetentionCutoff,
    StoreMaintenance, TimeUnit,
};
use domain::id::AccountId;
use domain::ledger::{Entry, EntryKind};
use domain::money::Nanos;
use domain::record::RequestRecord;
use domain::usage::{Tokens, Usage};
use domain::verification::{Difference, VerificationReport};

/// Returns a store of 50 requests, the first 10 of which were deleted.
async fn store(path: &std::path::Path) -> SqliteStore {
    let store = SqliteStore::open(path).unwrap();
    store.commit(Arc::new(batch(0..50))).await.unwrap();
    assert_eq!(store.delete_old_requests(beyond(40), 100).await.unwrap(), 10);
    store
}

/// Selects the records beyond the newest `count`.
fn beyond(count: u64) -> RetentionCutoff {
    let ended_before = "2100-01-01T00:00Z".parse().unwrap();
    RetentionCutoff { before: None, beyond: Some(count), ended_before }
}

/// Regression test: a record of a clock that was ahead kept all those behind it.
#[tokio::test]
async fn a_record_of_the_future_does_not_keep_old_ones() {
    let (_dir, path) = temp_database();
    let store = SqliteStore::open(&path).unwrap();
    let mut records = batch(0..50);
    for index in [0, 3] {
        records[index].started_at = "2110-01-01T00:00Z".parse().unwrap();
    }
    store.commit(Arc::new(records)).await.unwrap();
    let old =
        RetentionCutoff { before: "2099-01-01T00:00Z".parse().ok(), beyond: None, ..beyond(0) };
    assert_eq!(store.delete_old_requests(old, 10).await.unwrap(), 10, "with the two between them");
    assert_eq!(store.delete_old_requests(old, 100).await.unwrap(), 39, "the newest record stays");
    assert!(store.verify_ledger().await.unwrap().is_consistent());
}

/// Returns the kinds of the differences, sorted.
fn kinds(report: &VerificationReport) -> Vec<String> {
    let kind = |it: &Difference| format!("{it:?}").split(' ').next().unwrap().to_owned();
    let kinds: BTreeSet<_> = report.differences.iter().map(kind).collect();
    kinds.into_iter().collect()
}

#[tokio::test]
async fn every_kind_of_difference_is_found() {
    let request = "x'00000000000000000000000000000014'"; // the 20th: number 19
    let cases: &[(&str, &[&str])] = &[
        ("SELECT 1", &[]),
        ("UPDATE balances SET amount = amount + 1", &["Balance"]),
        ("DELETE FROM balances", &["Balance"]),
        ("UPDATE ledger_entries SET amount = amount - 1 WHERE seq = 20", &["Amount", "Balance"]),
        (
            "UPDATE ledger_entries SET account = zeroblob(16) WHERE seq = 20",
            &["Payer", "Balance", "Unlisted"],
        ),
        ("DELETE FROM ledger_entries WHERE seq = 20", &["Balance", "Uncharged"]),
        ("DELETE FROM ledger_entries WHERE seq = 5", &["Balance", "Unrecorded"]),
        (
            "INSERT INTO ledger_entries SELECT 99, account, amount, kind, request, note, at \
                FROM ledger_entries WHERE seq = 20",
            &["Twice", "Balance", "Unlisted"],
        ),
        ("DELETE FROM requests WHERE id = REQUEST", &["Sums", "Unrecorded"]),
        ("UPDATE requests SET cost = 2 WHERE id = REQUEST", &["Amount", "Sums"]),
        ("UPDATE requests SET output = 2 WHERE id = REQUEST", &["Sums"]),
        ("UPDATE requests SET model = 'other' WHERE id = REQUEST", &["Sums"]),
        ("UPDATE request_sums SET input = input + 1 WHERE account = x''", &["Sums"]),
        (
            "UPDATE request_sums SET requests = requests + 1 WHERE account <> x''",
            &["KeySums", "Sums"],
        ),
        ("UPDATE key_days SET cost = cost + 1", &["KeySums"]),
        ("UPDATE key_days SET model = 'other'", &["KeySums"]),
        ("DELETE FROM key_days", &["KeySums"]),
        ("DELETE FROM forgotten_sums", &["Sums", "Unrecorded"]),
        ("UPDATE request_hours SET first = 12", &["Time"]),
        ("UPDATE request_runs SET first = 12", &["Unlisted"]),
        ("UPDATE entry_runs SET last = 49", &["Unlisted"]),
        ("DELETE FROM entry_runs", &["Unlisted"]),
    ];
    for (damage, expected) in cases {
        let (_folder, path) = temp_database();
        let store = store(&path).await;
        let damage = damage.replace("REQUEST", request);
        Connection::open(&path).unwrap().execute_batch(&damage).unwrap();
        let report = store.verify_ledger().await.unwrap();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(kinds(&report), expected, "{damage}: {:?}", report.differences);
        assert_eq!(report.found, report.differences.len() as u64);
    }
}

#[tokio::test]
async fn what_keys_have_used_is_compared_with_their_days() {
    for (damage, expected) in [
        ("SELECT 1", &[][..]),
        ("UPDATE keys SET used_month = used_month - 1", &["KeyUse"]),
        ("UPDATE keys SET used_tokens = used_tokens + 1", &["KeyUse"]),
        ("UPDATE keys SET spent = spent - 1", &["KeyUse"]),
    ] {
        let (_folder, path) = temp_database();
        let store = SqliteStore::open(&path).unwrap();
        let mut records = batch(0..50);
        let sql = format!(
            "PRAGMA foreign_keys = off; \
            INSERT INTO keys (id, digest, account, label, models, created_at) \
            VALUES ('{}', x'01', x'01', '', '', 0), ('unused', x'02', x'01', '', '', 0)",
            records[0].key
        );
        let db = Connection::open(&path).unwrap();
        db.execute_batch(&sql).unwrap();
        // Of two months, the later one first.
        for record in &mut records[30..] {
            record.started_at -= SignedDuration::from_hours(31 * 24);
        }
        for part in [&records[..10], &records[10..40], &records[40..]] {
            store.commit(Arc::new(part.to_vec())).await.unwrap();
        }
        let of_key = |part: &[RequestRecord]| -> (u64, i64) {
            let used = part.iter().filter(|record| record.key == records[0].key).map(|record| {
                let tokens = record.usage.unwrap_or_default().total().0;
                (tokens, record.cost.unwrap_or_default().0)
            });
            used.fold((0, 0), |sum, used| (sum.0 + used.0, sum.1 + used.1))
        };
        let (tokens, _) = of_key(&records[..30]);
        let (_, spent) = of_key(&records);
        let sql = "SELECT used_tokens, spent FROM keys WHERE digest = x'01'";
        let stored = db.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)));
        assert_eq!(stored, Ok((tokens.cast_signed(), spent)));
        db.execute_batch(damage).unwrap();
        let report = store.verify_ledger().await.unwrap();
        assert_eq!(kinds(&report), expected, "{damage}: {:?}", report.differences);
    }
}

/// Regression test: after a clock had been ahead for a moment, a start did not know the tokens of the month.
#[tokio::test]
async fn tokens_of_a_month_are_known_after_a_record_of_a_later_one() {
    let (_folder, path) = temp_database();
    let store = SqliteStore::open(&path).unwrap();
    let mut records = batch(0..20);
    let (account, key) = (records[0].account, records[0].key.clone());
    for record in &mut records {
        (record.account, record.key) = (account, key.clone());
    }
    let now = records[1].started_at;
    records[0].started_at += SignedDuration::from_hours(40 * 24);
    let db = Connection::open(&path).unwrap();
    let sql = "INSERT INTO keys (id, digest, account, label, models, created_at) \
        VALUES (?, x'01', ?, '', '', 0)";
    db.execute_batch("PRAGMA foreign_keys = off").unwrap();
    db.execute(sql, (key.as_str(), account.0.as_bytes().as_slice())).unwrap();
    for part in [&records[..1], &records[1..]] {
        store.commit(Arc::new(part.to_vec())).await.unwrap();
    }
    let total = |record: &RequestRecord| record.usage.unwrap_or_default().total().0;
    let tokens = records.iter().map(total).sum::<u64>();
    assert_ne!(tokens, total(&records[0]));
    assert_eq!(store.consumption(now).await.unwrap().accounts, [(account, tokens)]);
}

#[tokio::test]
async fn overruns_are_compared_with_their_records() {
    let cases: &[(&str, &[&str])] = &[
        ("SELECT 1", &[]),
        ("UPDATE ledger_entries SET amount = amount - 1 WHERE OVERRUN", &["Amount", "Balance"]),
        ("DELETE FROM ledger_entries WHERE OVERRUN", &["Balance", "Uncharged"]),
        (
            "UPDATE ledger_entries SET account = CAST('0123456789abcdef' AS BLOB) WHERE OVERRUN",
            &["Balance", "Payer", "Unlisted"],
        ),
        (
            "INSERT INTO ledger_entries SELECT 99, account, amount, kind, request, note, at \
                FROM ledger_entries WHERE OVERRUN",
            &["Balance", "Twice", "Unlisted"],
        ),
        (
            "UPDATE ledger_entries SET kind = 3 WHERE OVERRUN",
            &["Amount", "Payer", "Twice", "Uncharged"],
        ),
        ("UPDATE requests SET overrun = 3 WHERE overrun = 2", &["Amount"]),
        ("UPDATE requests SET overrun = NULL", &["Amount"]),
        ("UPDATE requests SET overrun = 2", &["Uncharged"]),
    ];
    let overrun = "kind = 5 AND request = (SELECT id FROM requests WHERE overrun IS NOT NULL)";
    for (damage, expected) in cases {
        let (_folder, path) = temp_database();
        let store = SqliteStore::open(&path).unwrap();
        let mut records = batch(0..50);
        for number in [3, 40] {
            records[number].overrun = Nanos(2);
        }
        store.commit(Arc::new(records)).await.unwrap();
        assert_eq!(store.delete_old_requests(beyond(40), 100).await.unwrap(), 10);
        let damage = damage.replace("OVERRUN", overrun);
        Connection::open(&path).unwrap().execute_batch(&damage).unwrap();
        let report = store.verify_ledger().await.unwrap();
        assert_eq!(kinds(&report), *expected, "{damage}: {:?}", report.differences);
    }
}

#[tokio::test]
async fn saturated_balances_are_verified() {
    let (_folder, path) = temp_database();
    let store = SqliteStore::open(&path).unwrap();
    let mut records = batch(0..9);
    for record in &mut records {
        record.cost = Some(Nanos(i64::MAX));
    }
    let account = records[0].account;
    let credit = Entry {
        account,
        amount: Nanos(100),
        kind: EntryKind::Credit("debt".to_owned()),
        at: records[0].started_at,
    };
    for part in [&records[..1], &records[1..3], &records[3..]] {
        store.add_entry(&credit, &audit_entry("e")).await.unwrap();
        store.commit(Arc::new(part.to_vec())).await.unwrap();
        assert_eq!(kinds(&store.verify_ledger().await.unwrap()), [""; 0]);
    }
    store.add_entry(&credit, &audit_entry("e")).await.unwrap();
    assert_eq!(kinds(&store.verify_ledger().await.unwrap()), [""; 0]);
    assert_eq!(store.balance(account).await.unwrap(), Nanos(i64::MIN + 100));
    Connection::open(&path)
        .unwrap()
        .execute("UPDATE balances SET amount = amount + 1", [])
        .unwrap();
    assert_eq!(kinds(&store.verify_ledger().await.unwrap()), ["Balance"]);
}

/// Regression: verification failed permanently once the sum of two counts exceeded the range of a
/// column.
#[tokio::test]
async fn saturated_sums_are_verified() {
    // Also changes sums that are not saturated: those of an hour, and the number of requests.
    let damages = [
        "SELECT 1",
        "UPDATE key_days SET requests = requests + 1",
        "UPDATE request_sums SET output = output + 1 WHERE output < 100",
        "UPDATE request_sums SET output = 9223372036854775807 WHERE output < 100",
        "UPDATE requests SET reasoning = 0 WHERE reasoning > 0",
    ];
    for damage in damages {
        let (_folder, path) = temp_database();
        let store = SqliteStore::open(&path).unwrap();
        let mut records = batch(0..20);
        for (at, record) in (0..).zip(&mut records) {
            record.started_at += Duration::from_secs(3_600 * (at % 4));
            // Like older versions, which stored any reported count; one hour has none of these.
            if at % 4 != 1 && at < 16 {
                let tokens = Tokens(if at % 4 == 2 { u64::MAX / 4 } else { u64::MAX });
                let some = Some(tokens);
                record.usage =
                    Some(Usage { input: tokens, cached: some, output: tokens, reasoning: some });
            }
        }
        for part in records.chunks(7) {
            store.commit(Arc::new(part.to_vec())).await.unwrap();
        }
        assert!(store.verify_ledger().await.unwrap().is_consistent());
        let summary = store.summarize(&RequestFilter::default(), TimeUnit::Day).await.unwrap();
        let huge = i64::MAX.unsigned_abs();
        assert_eq!(summary.totals.requests, 20);
        assert!(summary.totals.input >= huge, "{:?}", summary.totals);
        assert_eq!(store.delete_old_requests(beyond(12), 100).await.unwrap(), 8);
        Connection::open(&path).unwrap().execute_batch(damage).unwrap();
        let report = store.verify_ledger().await.unwrap();
        assert_eq!(
            report.is_consistent(),
            damage == damages[0],
            "{damage}: {:?}",
            report.differences
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_and_verifications_are_consistent_during_commits() {
    let (folder, path) = temp_database();
    let store = SqliteStore::open(&path).unwrap();
    store.commit(Arc::new(batch(0..1_000))).await.unwrap();
    let write = async {
        for n in 100..300 {
            store.commit(Arc::new(batch(n * 10..n * 10 + 10))).await.unwrap();
        }
    };
    let read = async {
        for n in 0..5 {
            assert!(store.verify_ledger().await.unwrap().is_consistent());
            let mut copy = store.copy().await.unwrap();
            let copy_path = folder.path().join(format!("copy-{n}.db"));
            let mut file = std::fs::File::create(&copy_path).unwrap();
            std::io::copy(&mut copy.file, &mut file).unwrap();
            file.flush().unwrap();
            let copied = SqliteStore::open(&copy_path).unwrap();
            assert!(copied.verify_ledger().await.unwrap().is_consistent());
            assert_eq!(copied.newest().await.unwrap().0 % 10, 0, "whole batches");
        }
    };
    tokio::join!(write, read);
    assert_eq!(store.newest().await.unwrap(), Cursor(3_000));
    assert!(!path.with_extension("db-copy").exists(), "nothing is left behind");
}

#[tokio::test]
async fn dropping_the_future_cancels_the_verification() {
    let (_folder, path) = temp_database();
    let store = SqliteStore::open(&path).unwrap();
    store.commit(Arc::new(batch(0..20_000))).await.unwrap();
    let mut report = Box::pin(store.verify_ledger());
    assert!(futures_util::poll!(&mut report).is_pending());
    drop(report);
    // The next verification would wait forever if the first kept its permit.
    assert!(store.verify_ledger().await.unwrap().is_consistent());
}

#[test]
fn pages_of_an_accounts_entries_do_not_read_the_whole_ledger() {
    let (_folder, path) = temp_database();
    drop(SqliteStore::open(&path).unwrap());
    let db = Connection::open(&path).unwrap();
    let (sql, _) = page_sql(Some(AccountId(Uuid::nil())), Some(Cursor(9)));
    let expected = [
        "SEARCH entry_runs USING PRIMARY KEY (owner=? AND first>? AND first<?)",
        "SCALAR SUBQUERY",
        "SEARCH entry_runs USING PRIMARY KEY (owner=? AND first<?)",
        "SEARCH ledger_entries USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
    ];
    assert_plan(&db, &sql, &expected);
}
