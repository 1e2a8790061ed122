//! The tail: history, new records, resuming, and slow readers.

use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::{Stream, StreamExt};

use super::super::tail::{TailBatch, TailStart};
use super::super::usage::RequestQuery;
use super::*;
use store::Cursor;

type Tail = Pin<Box<dyn Stream<Item = Result<TailBatch, ControlError>> + Send>>;

fn tail(bench: &Bench, caller: &Caller, start: TailStart, stop: &CancellationToken) -> Tail {
    tail_with(bench, caller, start, 0, stop)
}

fn tail_with(
    bench: &Bench,
    caller: &Caller,
    start: TailStart,
    max_backlog: u64,
    stop: &CancellationToken,
) -> Tail {
    let (query, max_backlog) = (RequestQuery::default(), NonZeroU64::new(max_backlog));
    Box::pin(bench.control.tail(caller, query, start, max_backlog, stop.clone()).unwrap())
}

async fn next(tail: &mut Tail) -> (usize, bool, Cursor) {
    let batch = tail.next().await.unwrap().unwrap();
    assert_eq!(batch.dropped, 0);
    (batch.records.len(), batch.live, batch.cursor)
}

#[tokio::test]
async fn sends_history_then_new_records_and_resumes_from_a_cursor() {
    let bench = Bench::new(Registration::Open).await;
    let (ann, bob) = (bench.member("ann").await, bench.member("bob").await);
    bench.record(ann.account.id, 3).await;
    bench.record(bob.account.id, 1).await;
    let stop = CancellationToken::new();
    let mut first = tail(&bench, &ann, TailStart::History(2), &stop);
    let (count, live, cursor) = next(&mut first).await;
    assert_eq!((count, live), (2, false));
    // Bob's record is not sent, but the cursor moves past it.
    assert_eq!(cursor, Cursor(4));
    assert_eq!(next(&mut first).await, (0, true, cursor));

    let cursor = {
        let (batch, ()) = tokio::join!(next(&mut first), bench.record(ann.account.id, 1));
        assert_eq!((batch.0, batch.1), (1, true));
        batch.2
    };
    bench.record(bob.account.id, 1).await;
    bench.record(ann.account.id, 2).await;

    let mut resumed = tail(&bench, &ann, TailStart::After(cursor), &stop);
    let (count, live, end) = next(&mut resumed).await;
    assert_eq!((count, live), (2, false));
    assert_eq!(next(&mut resumed).await, (0, true, end));
    let mut all = tail(&bench, &bench.operator, TailStart::After(Cursor(0)), &stop);
    assert_eq!(next(&mut all).await, (8, false, end));

    stop.cancel();
    assert!(resumed.next().await.is_none());
}

#[tokio::test]
async fn without_history_it_is_live_at_once() {
    let bench = Bench::new(Registration::Open).await;
    let ann = bench.member("ann").await;
    bench.record(ann.account.id, 2).await;
    let mut tail = tail(&bench, &ann, TailStart::History(0), &CancellationToken::new());
    assert_eq!(next(&mut tail).await, (0, true, Cursor(2)));
}

#[tokio::test]
async fn a_slow_reader_skips_records_and_learns_their_number() {
    let bench = Bench::new(Registration::Open).await;
    let (ann, bob) = (bench.member("ann").await, bench.member("bob").await);
    let records = |account: &Caller, count| {
        (0..count).map(|_| bench.request(account.account.id)).collect::<Vec<_>>()
    };
    let records = [records(&bob, 5), records(&ann, 10_500), records(&bob, 5)].concat();
    bench.control.store.commit(Arc::new(records)).await.unwrap();
    // The ledger publishes the cursor of this commit with its next batch.
    bench.control.ledger.settle(bench.request(ann.account.id).into(), None);
    let stop = CancellationToken::new();
    let mut committed = bench.control.ledger.committed();
    committed.wait_for(|cursor| cursor.0 > 10_500).await.unwrap();

    let mut of_ann = tail(&bench, &ann, TailStart::After(Cursor(0)), &stop);
    let batch = of_ann.next().await.unwrap().unwrap();
    assert_eq!((batch.dropped, batch.records.len(), batch.live), (9_501, 1_000, false));
    assert_eq!(next(&mut of_ann).await, (0, true, batch.cursor));
    // A reader that wants to see the newest ones skips earlier, and gets fewer.
    let mut viewer = tail_with(&bench, &ann, TailStart::After(Cursor(0)), 100, &stop);
    let batch = viewer.next().await.unwrap().unwrap();
    assert_eq!((batch.dropped, batch.records.len(), batch.live), (10_476, 25, false));
    // Bob's backlog is short, although the log is long.
    let mut of_bob = tail(&bench, &bob, TailStart::After(Cursor(0)), &stop);
    assert_eq!(next(&mut of_bob).await.0, 10);
}
