//! Tests of cancelled reads, and of long ones.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use futures_util::future::{join, join3};
use futures_util::poll;
use rusqlite::Connection;
use tokio::time::{sleep, timeout};

use super::{READERS, SqliteStore, temp_database};
use crate::sqlite::codec::ReadColumn;
use crate::{LedgerEntries, RequestFilter, Requests, StoreError};
use domain::id::KeyId;

/// Takes a long time unless it is interrupted.
const LONG_QUERY: &str = "WITH RECURSIVE n (i) AS \
    (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500000000) SELECT max(i) FROM n";

/// Controls the start of a long query.
struct Job {
    started: Receiver<()>,
    proceed: Sender<()>,
}

/// Returns a long query that starts when the job says so.
fn job() -> (Job, impl FnOnce(&Connection) -> Result<i64, StoreError> + Send + 'static) {
    let ((start, started), (proceed, proceeding)) = (channel(), channel());
    let query = move |connection: &Connection| {
        start.send(()).unwrap();
        proceeding.recv().unwrap();
        Ok(connection.query_row(LONG_QUERY, [], |row| row.column(0))?)
    };
    (Job { started, proceed }, query)
}

impl Job {
    /// Polls `future` until the query could start.
    async fn wait_for_start(&self, future: &mut (impl Future + Unpin)) {
        while self.started.try_recv().is_err() {
            assert!(poll!(&mut *future).is_pending());
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Drops `future` during the query, or before the query.
    async fn abandon(&self, future: impl Future, has_query_started: bool) {
        let mut future = Box::pin(future);
        self.wait_for_start(&mut future).await;
        if has_query_started {
            self.proceed.send(()).unwrap();
            sleep(Duration::from_millis(20)).await;
            drop(future);
        } else {
            drop(future);
            self.proceed.send(()).unwrap();
        }
    }
}

#[tokio::test]
async fn abandoned_reads_release_their_readers() {
    for has_query_started in [true, false] {
        let (_folder, path) = temp_database();
        let store = SqliteStore::open(&path).unwrap();
        for _ in 0..READERS {
            let (job, query) = job();
            job.abandon(store.read(move |tx| query(tx)), has_query_started).await;
        }
        timeout(Duration::from_secs(9), store.newest()).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn abandoned_background_reads_release_their_permit() {
    for has_query_started in [true, false] {
        let (_folder, path) = temp_database();
        let store = SqliteStore::open(&path).unwrap();
        let (job, query) = job();
        let read = store.background_reads.run(move |connection, _| query(connection));
        job.abandon(read, has_query_started).await;
        timeout(Duration::from_secs(9), store.verify_ledger()).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn long_reads_leave_a_connection_to_others() {
    let (_folder, path) = temp_database();
    let store = SqliteStore::open(&path).unwrap();
    let (job, query) = job();
    let (other, other_query) = self::job();
    let (last, last_query) = self::job();
    let mut reads = Box::pin(join3(
        store.read_long(move |tx| query(tx)),
        store.read_long(move |tx| other_query(tx)),
        store.read_long(move |tx| last_query(tx)),
    ));
    job.wait_for_start(&mut reads).await;
    other.wait_for_start(&mut reads).await;
    timeout(Duration::from_secs(9), store.newest()).await.unwrap().unwrap();
    assert!(last.started.try_recv().is_err(), "it waits for one of the others");
    drop(reads);
    job.proceed.send(()).unwrap();
    other.proceed.send(()).unwrap();
}

#[tokio::test]
async fn abandoned_long_reads_leave_a_connection_to_others() {
    let (_folder, path) = temp_database();
    let store = SqliteStore::open(&path).unwrap();
    let (job, query) = job();
    let (other, other_query) = self::job();
    let mut reads = Box::pin(join(
        store.read_long(move |tx| query(tx)),
        store.read_long(move |tx| other_query(tx)),
    ));
    job.wait_for_start(&mut reads).await;
    other.wait_for_start(&mut reads).await;
    // Their work keeps its connections until it ends.
    drop(reads);
    let (last, last_query) = self::job();
    let mut waiting = Box::pin(store.read_long(move |tx| last_query(tx)));
    assert!(poll!(&mut waiting).is_pending());
    timeout(Duration::from_secs(9), store.newest()).await.unwrap().unwrap();
    assert!(last.started.try_recv().is_err(), "it waits for one of the others");
    drop(waiting);
    job.proceed.send(()).unwrap();
    other.proceed.send(()).unwrap();
}

#[tokio::test]
async fn a_page_of_a_key_is_a_long_read() {
    let (_folder, path) = temp_database();
    let store = SqliteStore::open(&path).unwrap();
    let (job, query) = job();
    let (other, other_query) = self::job();
    let mut reads = Box::pin(join(
        store.read_long(move |tx| query(tx)),
        store.read_long(move |tx| other_query(tx)),
    ));
    job.wait_for_start(&mut reads).await;
    other.wait_for_start(&mut reads).await;
    let filter = RequestFilter { key: Some(KeyId::new("")), ..RequestFilter::default() };
    let mut page = Box::pin(store.requests_before(&filter, None, 9));
    assert!(poll!(&mut page).is_pending());
    timeout(Duration::from_secs(9), store.newest()).await.unwrap().unwrap();
    assert!(poll!(&mut page).is_pending(), "it waits for one of the others");
    drop((page, reads));
    job.proceed.send(()).unwrap();
    other.proceed.send(()).unwrap();
}
