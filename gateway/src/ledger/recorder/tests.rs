//! Waiting records, a store that fails, and readers that wait for the store.

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::*;
use crate::ledger::Ledger;
use crate::ledger::journal::Journal;
use crate::ledger::journal::tests::{ended, open};
use domain::record::RequestStatus;
use store::sqlite::SqliteStore;
use store::{RequestFilter, Requests};

fn refused(number: u128) -> RequestRecord {
    RequestRecord {
        status: RequestStatus::Rejected,
        usage: None,
        cost: Some(Nanos::ZERO),
        overrun: Nanos::ZERO,
        count: NonZeroU32::MIN,
        ..ended(number)
    }
}

#[tokio::test]
async fn with_too_many_waiting_records_only_requests_that_went_upstream_are_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(&dir.path().join("db")).unwrap());
    let (journal, _) = Journal::open(&dir.path().join("journal")).unwrap();
    let (ledger, task) = Ledger::new(store.clone(), journal, &[], Cursor(0));
    for number in [1, 2] {
        ledger.begin(open(number)).unwrap();
    }
    ledger.settle(refused(10).into(), None);
    // One more than may wait.
    ledger.recorder.queue.waiting.fetch_add(MAX_WAITING_RECORDS, Ordering::Relaxed);
    for number in 11..20 {
        ledger.settle(refused(number).into(), None);
    }
    ledger.settle(ended(1).into(), None);
    ledger.settle(refused(2).into(), None);
    assert_eq!(ledger.recorder.queue.unrecorded.load(Ordering::Relaxed), 9);

    let stop = CancellationToken::new();
    stop.cancel();
    task.run(stop).await;
    let written = store.requests_before(&RequestFilter::default(), None, 100).await.unwrap();
    let ids: Vec<_> = written.into_iter().map(|(_, record)| record.id).collect();
    assert_eq!(ids, [2, 1, 10].map(|number| RequestId(Uuid::from_u128(number))));
    assert_eq!(ledger.recorder.queue.unrecorded.load(Ordering::Relaxed), 0, "it was logged");
    assert!(!ledger.is_behind());
    ledger.settle(refused(20).into(), None);
    assert_eq!(ledger.recorder.queue.unrecorded.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_request_that_is_open_in_the_journal_is_never_merged() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(&dir.path().join("db")).unwrap());
    let (journal, _) = Journal::open(&dir.path().join("journal")).unwrap();
    let (ledger, _task) = Ledger::new(store.clone(), journal, &[], Cursor(0));
    let settle = |number| {
        let record = RequestRecord { deployment: None, idempotency: None, ..refused(number) };
        ledger.settle(record.into(), None);
    };
    for number in 0..20 {
        settle(number);
    }
    let id = RequestId(Uuid::from_u128(20));
    ledger.begin(open(20)).unwrap();
    settle(20);
    assert!(!ledger.journal.is_open(id), "it is closed");
    assert!(ledger.find_unwritten(id).is_some(), "under its own id");
    assert!(ledger.find_unwritten(RequestId(Uuid::from_u128(19))).is_none(), "merged");
}

#[tokio::test]
async fn a_waiting_record_is_found_until_the_store_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(&dir.path().join("db")).unwrap());
    let (journal, _) = Journal::open(&dir.path().join("journal")).unwrap();
    let (ledger, task) = Ledger::new(store.clone(), journal, &[], Cursor(0));
    let ids = [1, 2].map(|number| RequestId(Uuid::from_u128(number)));
    ledger.settle(refused(1).into(), None);
    assert_eq!(ledger.find_unwritten(ids[0]), Some(refused(1)));
    assert_eq!(ledger.find_unwritten(ids[1]), None);
    let stop = CancellationToken::new();
    let reader = async {
        for (id, number) in ids.into_iter().zip(1..) {
            if number > 1 {
                ledger.settle(refused(number).into(), None);
            }
            ledger.wait_until_stored().await;
            assert_eq!(store.find_request(id).await.unwrap(), Some(refused(number)));
            assert_eq!(ledger.find_unwritten(id), None);
        }
        stop.cancel();
    };
    tokio::join!(task.run(stop.clone()), reader);
}

#[tokio::test]
async fn a_store_that_fails_keeps_no_reader_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(&dir.path().join("db")).unwrap());
    let (journal, _) = Journal::open(&dir.path().join("journal")).unwrap();
    let (ledger, task) = Ledger::new(store.clone(), journal, &[], Cursor(0));
    store.close().await;
    ledger.settle(refused(1).into(), None);
    let writing = task.run(CancellationToken::new());
    tokio::select! {
        () = writing => unreachable!("it keeps trying"),
        () = ledger.wait_until_stored() => {}
    }
    assert_eq!(ledger.find_unwritten(RequestId(Uuid::from_u128(1))), Some(refused(1)));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_keeps_failing_is_reported_and_its_records_count() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(&dir.path().join("db")).unwrap());
    let (journal, _) = Journal::open(&dir.path().join("journal")).unwrap();
    let account = ended(1).account;
    let balances = [(account, Nanos(1_000_000_000))];
    let (ledger, task) = Ledger::new(store.clone(), journal, &balances, Cursor(0));
    ledger.begin(open(1)).unwrap();
    ledger.settle(ended(1).into(), None);
    assert_eq!(ledger.waiting_entries()[&account], ledger.balance(account) + -balances[0].1);
    assert_eq!(ledger.write_failure(), None);
    store.close().await;
    let stop = CancellationToken::new();
    let mut writing = std::pin::pin!(task.run(stop.clone()));
    for expected in [None, Some(WriteFailure::Store { disk: None, waiting: 1 })] {
        tokio::select! {
            () = &mut writing => unreachable!("it keeps trying"),
            () = tokio::time::sleep(STORE_GRACE.mul_f64(0.9)) => {}
        }
        assert_eq!(ledger.write_failure(), expected);
        assert_eq!(ledger.blocked_records(), 1);
    }
}
