//! Tests of the verification with manipulated databases.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Database, batch};
use crate::conformance::audit_entry;
use crate::{LedgerEntries, Requests, RetentionCutoff, StoreMaintenance};
use domain::ledger::{Entry, EntryKind};
use domain::money::Nanos;
use domain::verification::VerificationReport;

/// Returns the kinds of the differences, sorted.
fn kinds(report: &VerificationReport) -> Vec<String> {
    let kind = |it: &_| format!("{it:?}").split(' ').next().unwrap().to_owned();
    let kinds: BTreeSet<_> = report.differences.iter().map(kind).collect();
    kinds.into_iter().collect()
}

#[tokio::test]
async fn every_kind_of_difference_is_found() {
    let Some(database) = Database::create("differences").await else { return };
    let store = database.open(1).await.unwrap();
    let mut records = batch(0..50);
    for number in [3, 40] {
        records[number].overrun = Nanos(2);
    }
    store.commit(Arc::new(records)).await.unwrap();
    let ended_before = "2100-01-01T00:00Z".parse().unwrap();
    let cutoff = RetentionCutoff { before: None, beyond: Some(40), ended_before };
    assert_eq!(store.delete_old_requests(cutoff, 100).await.unwrap(), 10);

    let client = database.connect().await;
    let tables =
        ["balances", "requests", "ledger_entries", "request_sums", "deleted_sums", "key_days"];
    for table in tables {
        let save = format!("CREATE TABLE saved_{table} AS SELECT * FROM {table}");
        client.batch_execute(&save).await.unwrap();
    }
    // The charge of the 20th record, and the overrun that still has its record.
    let request = "request = '00000000-0000-0000-0000-000000000014'";
    let overrun = "kind = 5 AND request = (SELECT id FROM requests WHERE overrun IS NOT NULL)";
    let copy = "INSERT INTO ledger_entries (account, amount, kind, request, note, at) \
        SELECT account, amount, kind, request, note, at FROM ledger_entries WHERE";
    let cases: &[(&str, &[&str])] = &[
        ("SELECT 1", &[]),
        ("UPDATE balances SET amount = amount + 1", &["Balance"]),
        ("DELETE FROM balances", &["Balance"]),
        ("UPDATE ledger_entries SET amount = amount - 1 WHERE REQUEST", &["Amount", "Balance"]),
        (
            "UPDATE ledger_entries SET account = gen_random_uuid() WHERE REQUEST",
            &["Balance", "Payer"],
        ),
        ("DELETE FROM ledger_entries WHERE REQUEST", &["Balance", "Uncharged"]),
        (
            "DELETE FROM ledger_entries WHERE request = '00000000-0000-0000-0000-000000000005'",
            &["Balance", "Unrecorded"],
        ),
        ("COPY REQUEST", &["Balance", "Twice"]),
        (
            "DELETE FROM requests WHERE id IN (SELECT request FROM ledger_entries WHERE REQUEST)",
            &["Sums", "Unrecorded"],
        ),
        ("UPDATE requests SET cost = 2 WHERE seq = 20", &["Amount", "Sums"]),
        ("UPDATE requests SET output = 2 WHERE seq = 20", &["Sums"]),
        ("UPDATE requests SET model = 'other' WHERE seq = 20", &["Sums"]),
        ("UPDATE requests SET model = NULL WHERE seq = 20", &["Sums"]),
        ("UPDATE request_sums SET requests = requests + 1", &["KeySums", "Sums"]),
        ("UPDATE key_days SET cost = cost + 1", &["KeySums"]),
        ("UPDATE key_days SET model = 'other'", &["KeySums"]),
        ("DELETE FROM key_days", &["KeySums"]),
        ("DELETE FROM deleted_sums", &["Sums", "Unrecorded"]),
        ("UPDATE ledger_entries SET amount = amount - 1 WHERE OVERRUN", &["Amount", "Balance"]),
        ("DELETE FROM ledger_entries WHERE OVERRUN", &["Balance", "Uncharged"]),
        ("COPY OVERRUN", &["Balance", "Twice"]),
        ("UPDATE requests SET overrun = 3 WHERE overrun = 2", &["Amount"]),
        ("UPDATE requests SET overrun = 2", &["Uncharged"]),
    ];
    for (damage, expected) in cases {
        let damage =
            damage.replace("COPY", copy).replace("REQUEST", request).replace("OVERRUN", overrun);
        client.batch_execute(&damage).await.unwrap();
        let report = store.verify_ledger().await.unwrap();
        assert_eq!(kinds(&report), *expected, "{damage}: {:?}", report.differences);
        for table in tables {
            let restore = format!(
                "TRUNCATE {table}; INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * FROM saved_{table}"
            );
            client.batch_execute(&restore).await.unwrap();
        }
    }
    database.remove(store).await;
}

#[tokio::test]
async fn saturated_balances_are_verified() {
    let Some(database) = Database::create("saturated_balances").await else { return };
    let store = database.open(1).await.unwrap();
    let mut records = batch(0..9);
    for record in &mut records {
        record.cost = Some(Nanos(i64::MAX));
    }
    let account = records[0].account;
    let kind = EntryKind::Credit("debt".to_owned());
    let credit = Entry { account, amount: Nanos(100), kind, at: records[0].started_at };
    for part in [&records[..1], &records[1..3], &records[3..]] {
        store.add_entry(&credit, &audit_entry("e")).await.unwrap();
        store.commit(Arc::new(part.to_vec())).await.unwrap();
        assert_eq!(kinds(&store.verify_ledger().await.unwrap()), [""; 0]);
    }
    store.add_entry(&credit, &audit_entry("e")).await.unwrap();
    assert_eq!(kinds(&store.verify_ledger().await.unwrap()), [""; 0]);
    assert_eq!(store.balance(account).await.unwrap(), Nanos(i64::MIN + 100));
    let client = database.connect().await;
    client.batch_execute("UPDATE balances SET amount = amount + 1").await.unwrap();
    assert_eq!(kinds(&store.verify_ledger().await.unwrap()), ["Balance"]);
    database.remove(store).await;
}

#[tokio::test]
async fn dropping_the_future_frees_the_verification() {
    let Some(database) = Database::create("dropped_verification").await else { return };
    let store = database.open(1).await.unwrap();
    let client = database.connect().await;
    // The verification waits for this transaction.
    client.batch_execute("BEGIN; LOCK TABLE balances IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let mut report = Box::pin(store.verify_ledger());
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted \
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    while client.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        assert!(futures_util::poll!(&mut report).is_pending());
        tokio::task::yield_now().await;
    }
    drop(report);
    client.batch_execute("COMMIT").await.unwrap();
    assert!(store.verify_ledger().await.unwrap().is_consistent());
    database.remove(store).await;
}
