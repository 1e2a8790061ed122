//! Partitions of the log by day: made ahead, dropped as a whole, and never missing.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::timeout;
use tokio_postgres::Client;

use super::{Database, NodeId, batch};
use crate::postgres::commit::{self, Repetition};
use crate::postgres::migrations::STEPS;
use crate::postgres::partitions::{LOCK_TIMEOUT, drop_old, partition_ranges, prepare};
use crate::postgres::transaction::Connection;
use crate::postgres::{PostgresAddress, PostgresStore, create_pool};
use crate::summary::{DAY, day_of};
use crate::{
    Cursor, LedgerEntries, RequestFilter, Requests, RetentionCutoff, StoreMaintenance, TimeUnit,
};
use domain::record::RequestRecord;
use uuid::Uuid;

/// The time of the server in the tests.
const NOW: &str = "2100-06-15T12:00Z";
const ONE_DAY: Duration = Duration::from_hours(24);

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// Returns ten records of requests that arrived `days` days ago, with ids from `first`.
fn records_of(days: i64, first: u64) -> Vec<RequestRecord> {
    let mut records = batch(first..first + 10);
    for record in &mut records {
        record.started_at = now() - SignedDuration::from_hours(24 * days);
    }
    records
}

async fn commit_of(store: &PostgresStore, days: i64, first: u64) {
    store.commit(Arc::new(records_of(days, first))).await.unwrap();
}

async fn prepare_at(store: &PostgresStore, days_ago: i64, keep_for: Option<Duration>) {
    let today = day_of(now()) - days_ago;
    let mut connection = store.connection().await.unwrap();
    prepare(&mut connection, store.epoch, today, keep_for).await.unwrap();
}

/// Returns what is to be deleted now if records are kept for `days`.
fn older_than(days: i64) -> RetentionCutoff {
    RetentionCutoff {
        before: Some(now() - SignedDuration::from_hours(24 * days)),
        beyond: None,
        ended_before: now() - SignedDuration::from_mins(10),
    }
}

/// Returns the partitions that have records, without the prefix of their names, with the number of their records.
async fn counts(client: &Client) -> Vec<(String, i64)> {
    let sql = "SELECT replace(tableoid::regclass::text, 'requests_of_', '') AS name, count(*) \
        FROM requests GROUP BY 1 ORDER BY 1";
    let rows = client.query(sql, &[]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

fn named(counts: &[(&str, i64)]) -> Vec<(String, i64)> {
    counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

async fn partitions(client: &Client) -> i64 {
    let sql = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'requests'::regclass";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

async fn verify(store: &PostgresStore) {
    let report = store.verify_ledger().await.unwrap();
    assert!(report.is_consistent(), "{:?}", report.differences);
}

#[tokio::test]
async fn days_are_dropped_as_a_whole_and_the_ledger_stays_consistent() {
    let Some(database) = Database::create("days").await else { return };
    let store = database.open(1).await.unwrap();
    let client = database.connect().await;
    for days_ago in (0..=4).rev() {
        prepare_at(&store, days_ago, Some(2 * ONE_DAY)).await;
        let mut records = records_of(days_ago, u64::try_from(days_ago).unwrap() * 10);
        for record in &mut records[..5] {
            record.started_at -= SignedDuration::from_hours(6);
        }
        store.commit(Arc::new(records)).await.unwrap();
    }
    let kept = [("2100_06_12", 10), ("2100_06_13", 10), ("2100_06_14", 10), ("2100_06_15", 10)];
    let before = [&[("2100_06_11", 10)], &kept[..]].concat();
    assert_eq!(counts(&client).await, named(&before));
    let made = partitions(&client).await;
    let all = store.summarize(&RequestFilter::default(), TimeUnit::Day).await.unwrap();

    // The records of 2100-06-13 are older than two days in part, so the day stays, and none is deleted alone.
    assert_eq!(store.drop_old_days(older_than(2)).await.unwrap(), 10);
    assert_eq!(store.drop_old_days(older_than(2)).await.unwrap(), 10);
    assert_eq!(store.drop_old_days(older_than(2)).await.unwrap(), 0);
    assert_eq!(store.delete_old_requests(older_than(2), 100).await.unwrap(), 0);
    assert_eq!(counts(&client).await, named(&kept[1..]));
    assert_eq!(partitions(&client).await, made - 3, "also the empty one of all earlier days");
    verify(&store).await;
    let left = store.summarize(&RequestFilter::default(), TimeUnit::Day).await.unwrap();
    assert_eq!(left, all, "sums are kept");

    // Of the records beyond a number, whole days are dropped, and then the others deleted one by one.
    let beyond = RetentionCutoff { before: None, beyond: Some(15), ..older_than(0) };
    assert_eq!(store.drop_old_days(beyond).await.unwrap(), 10);
    assert_eq!(store.delete_old_requests(beyond, 100).await.unwrap(), 5);
    assert_eq!(counts(&client).await, named(&[("2100_06_14", 5), ("2100_06_15", 10)]));
    verify(&store).await;
    database.remove(store).await;
}

#[tokio::test]
async fn a_day_stays_while_one_of_its_requests_ended_recently() {
    let Some(database) = Database::create("recent_end").await else { return };
    let store = database.open(1).await.unwrap();
    prepare_at(&store, 4, Some(ONE_DAY)).await;
    let mut records = records_of(4, 0);
    records[3].duration = 4 * ONE_DAY;
    store.commit(Arc::new(records)).await.unwrap();
    assert_eq!(store.drop_old_days(older_than(1)).await.unwrap(), 0);
    let later = SignedDuration::from_mins(20);
    let cutoff = older_than(1);
    let cutoff = RetentionCutoff { ended_before: cutoff.ended_before + later, ..cutoff };
    assert_eq!(store.drop_old_days(cutoff).await.unwrap(), 10);
    verify(&store).await;
    database.remove(store).await;
}

#[tokio::test]
async fn records_of_far_days_are_stored_found_and_deleted() {
    let Some(database) = Database::create("far_days").await else { return };
    let store = database.open(1).await.unwrap();
    let client = database.connect().await;
    prepare_at(&store, 0, Some(ONE_DAY)).await;
    let (past, future) = (365 * 100, -365 * 100);
    for (number, days_ago) in [past, future, 0].into_iter().enumerate() {
        commit_of(&store, days_ago, 10 * number as u64).await;
    }
    let stored = [("2100_06_15", 10), ("earlier_days", 10), ("other_days", 10)];
    assert_eq!(counts(&client).await, named(&stored));
    let since = now() - SignedDuration::from_hours(24 * future + 1);
    let filter = RequestFilter { since: Some(since), ..RequestFilter::default() };
    assert_eq!(store.requests_before(&filter, None, 99).await.unwrap().len(), 10);
    // A batch that is sent again is found wherever it is.
    let again = [records_of(past, 0), records_of(future, 10)].concat();
    assert_eq!(store.commit(Arc::new(again)).await.unwrap(), Cursor(30));
    verify(&store).await;

    // The partition of all earlier days has only old records, and is dropped with them.
    assert_eq!(store.drop_old_days(older_than(1)).await.unwrap(), 10);
    // Its days have no partition any more.
    commit_of(&store, past, 30).await;
    assert_eq!(counts(&client).await, named(&[("2100_06_15", 10), ("other_days", 20)]));
    verify(&store).await;

    // Of the days around the far one, those with records stay in the default partition.
    prepare_at(&store, future + 1, Some(ONE_DAY)).await;
    let made = partitions(&client).await;
    prepare_at(&store, future + 1, Some(ONE_DAY)).await;
    assert_eq!(partitions(&client).await, made);
    for (number, days_ago) in [(40, future), (50, future + 1)] {
        commit_of(&store, days_ago, number).await;
    }
    assert_eq!(counts(&client).await[1..], named(&[("2200_05_21", 10), ("other_days", 30)]));
    verify(&store).await;
    database.remove(store).await;
}

#[tokio::test]
async fn a_day_that_others_read_stays_and_blocks_no_batch() {
    let Some(database) = Database::create("read_day").await else { return };
    let store = database.open(1).await.unwrap();
    prepare_at(&store, 4, Some(ONE_DAY)).await;
    commit_of(&store, 4, 0).await;
    let client = database.connect().await;
    client.batch_execute("DROP TABLE requests_of_earlier_days").await.unwrap();
    let mut reader = database.connect().await;
    let reading = reader.transaction().await.unwrap();
    reading.query("SELECT count(*) FROM requests", &[]).await.unwrap();

    // It does not even add up the records, which would wait for this lock.
    let mut other = database.connect().await;
    let blocking = other.transaction().await.unwrap();
    blocking.batch_execute("LOCK TABLE deleted_sums IN SHARE MODE").await.unwrap();
    let cutoff = older_than(1);
    let dropping = drop_old(&store, &cutoff, Duration::from_millis(1));
    let refused = timeout(Duration::from_secs(9), dropping).await.unwrap().unwrap_err();
    assert!(crate::postgres::error::is_lock_timeout(&refused), "{refused:?}");
    blocking.rollback().await.unwrap();
    commit_of(&store, 0, 20).await;
    verify(&store).await;
    reading.rollback().await.unwrap();

    // While it waits for a lock, a record of the day can arrive: the reader writes one.
    let mut dropping = Box::pin(drop_old(&store, &cutoff, Duration::from_mins(1)));
    let reading = read_before_the_lock(&client, &mut other, &mut reader, &mut dropping).await;
    let late = "INSERT INTO requests SELECT * FROM (SELECT (jsonb_populate_record(requests, \
        jsonb_build_object('seq', 21, 'id', gen_random_uuid(), 'cost', 0))).* FROM requests \
        WHERE seq = 1) AS late";
    assert_eq!(reading.execute(late, &[]).await.unwrap(), 1);
    reading.commit().await.unwrap();
    assert_eq!(dropping.await.unwrap(), None, "it has a record that was not counted");
    assert_eq!(counts(&client).await, named(&[("2100_06_11", 11), ("other_days", 10)]));
    client.batch_execute("DELETE FROM requests WHERE seq = 21").await.unwrap();
    assert_eq!(drop_old(&store, &cutoff, LOCK_TIMEOUT).await.unwrap(), Some(10));
    verify(&store).await;
    database.remove(store).await;
}

#[tokio::test]
async fn totals_include_a_day_that_is_dropped_meanwhile() {
    let Some(database) = Database::create("totals_of_dropped").await else { return };
    let store = database.open(1).await.unwrap();
    prepare_at(&store, 4, Some(ONE_DAY)).await;
    commit_of(&store, 4, 0).await;
    let client = database.connect().await;
    client.batch_execute("DROP TABLE requests_of_earlier_days").await.unwrap();
    let (mut other, mut reader) = (database.connect().await, database.connect().await);
    // The hour of the end is read from the log, unless records of it were deleted.
    let until = now() - SignedDuration::from_hours(24 * 4) + SignedDuration::from_mins(30);
    let filter = RequestFilter { until: Some(until), ..RequestFilter::default() };

    let cutoff = older_than(1);
    let mut dropping = Box::pin(drop_old(&store, &cutoff, Duration::from_mins(1)));
    let reading = read_before_the_lock(&client, &mut other, &mut reader, &mut dropping).await;
    let mut totals = Box::pin(store.summarize(&filter, TimeUnit::Day));
    wait_for_locks(&client, &mut totals, "relation", 2).await;
    reading.commit().await.unwrap();
    let (dropped, totals) = tokio::join!(dropping, totals);
    assert_eq!((dropped.unwrap(), totals.unwrap().totals.requests), (Some(10), 10));
    database.remove(store).await;
}

/// Polls `future` until `number` statements wait for locks of this kind.
async fn wait_for_locks(
    client: &Client,
    future: &mut (impl Future + Unpin),
    kind: &str,
    number: i64,
) {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
        AND wait_event_type = 'Lock' AND wait_event = $1";
    while client.query_one(sql, &[&kind]).await.unwrap().get::<_, i64>(0) < number {
        assert!(futures_util::poll!(&mut *future).is_pending());
        tokio::task::yield_now().await;
    }
}

/// Polls `dropping` until it has added up the records and waits for the returned transaction, which reads the log.
async fn read_before_the_lock<'a>(
    client: &Client,
    other: &mut Client,
    reader: &'a mut Client,
    dropping: &mut (impl Future + Unpin),
) -> tokio_postgres::Transaction<'a> {
    // Before the lock, it looks whether the node was removed.
    let removing = other.transaction().await.unwrap();
    removing.query("SELECT FROM nodes FOR UPDATE", &[]).await.unwrap();
    wait_for_locks(client, dropping, "transactionid", 1).await;
    let reading = reader.transaction().await.unwrap();
    reading.query("SELECT count(*) FROM requests", &[]).await.unwrap();
    removing.rollback().await.unwrap();
    wait_for_locks(client, dropping, "relation", 1).await;
    reading
}

#[tokio::test]
async fn partitions_are_long_if_many_days_are_kept() {
    let Some(database) = Database::create("long_partitions").await else { return };
    let store = database.open(1).await.unwrap();
    let client = database.connect().await;
    // A quarter of a year, then without a limit.
    let keep_for = Some(90 * ONE_DAY);
    for days_ago in (0..=90).rev() {
        prepare_at(&store, days_ago, keep_for).await;
    }
    let made = partitions(&client).await;
    assert!((30..=35).contains(&made), "{made}");
    for days_ago in (0..=90).rev() {
        prepare_at(&store, days_ago - 90, None).await;
    }
    assert!((made..=made + 4).contains(&partitions(&client).await));
    // A clock that jumps about.
    for jump in 0..200 {
        prepare_at(&store, -10_000 * jump, Some(ONE_DAY)).await;
    }
    assert_eq!(partitions(&client).await, 128);
    commit_of(&store, -1_500_000, 0).await;
    verify(&store).await;
    database.remove(store).await;
}

#[test]
fn copied_days_get_a_bounded_number_of_partitions() {
    let ranges = |days: &[i64]| partition_ranges(&days.iter().copied().collect());
    assert_eq!(ranges(&[]), []);
    assert_eq!(ranges(&[-1]), []);
    assert_eq!(
        ranges(&[-700, 20_003, 20_000, 20_001]),
        [(20_000, 20_001), (20_001, 20_002), (20_003, 20_004)]
    );
    let quarter: Vec<_> = (20_000..20_092).chain([1_000_000]).collect();
    let parts = ranges(&quarter);
    assert_eq!(parts.len(), 47);
    assert!(parts.iter().all(|(first, end)| end - first == 2));
    assert!(parts.is_sorted_by(|(_, end), (first, _)| end <= first));
    let years: Vec<_> = (10_000..20_000).collect();
    assert!((32..64).contains(&ranges(&years).len()));
}

/// A database that was upgraded from the schema of earlier versions.
struct Upgraded {
    database: Database,
    client: Client,
    store: PostgresStore,
    /// The time in microseconds at which the records were made.
    micros: i64,
    /// Ten records of each of six days, in the order of the log.
    records: Vec<RequestRecord>,
}

/// Returns the time of the database in microseconds.
async fn micros(client: &Client) -> i64 {
    let sql = "SELECT (extract(epoch FROM now()) * 1000000)::bigint";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

impl Upgraded {
    /// Creates the database, upgrades it and makes its partitions.
    async fn create() -> Option<Self> {
        let database = Database::create("earlier_days").await?;
        let client = database.connect().await;
        client
            .batch_execute("CREATE TABLE schema_version (version bigint NOT NULL)")
            .await
            .unwrap();
        for step in &STEPS[..13] {
            client.batch_execute(step).await.unwrap();
        }
        let set = "INSERT INTO schema_version (version, oldest_supported) VALUES (13, 5)";
        client.batch_execute(set).await.unwrap();
        let micros = micros(&client).await;
        let of_day = |days: i64, first: u64| {
            let mut records = batch(first..first + 10);
            for record in &mut records {
                record.started_at = Timestamp::from_microsecond(micros + days * DAY).unwrap();
            }
            records
        };
        let pool = create_pool(&PostgresAddress::parse(&database.url).unwrap(), 1).unwrap();
        let mut connection = Connection::of(&pool).await.unwrap();
        let tx = connection.begin_unfenced().await.unwrap();
        let days: Vec<_> = [-400, -1, 0, 1, 2, 30_000].into_iter().zip((0..).step_by(10)).collect();
        let records: Vec<_> = days.iter().flat_map(|&(days, first)| of_day(days, first)).collect();
        let node = NodeId(Uuid::from_u128(1));
        commit::commit(&tx, node, &records, Repetition::Unlikely).await.unwrap();
        tx.commit().await.unwrap();
        let store = database.open(1).await.unwrap();
        store.prepare_days(Some(ONE_DAY)).await.unwrap();
        Some(Self { database, client, store, micros, records })
    }
}

/// With the schema of earlier versions, the records of all days are in one partition.
#[tokio::test]
async fn records_of_an_earlier_version_stay_in_their_partition() {
    let Some(mut upgraded) = Upgraded::create().await else { return };
    if day_of(Timestamp::from_microsecond(micros(&upgraded.client).await).unwrap())
        != day_of(Timestamp::from_microsecond(upgraded.micros).unwrap())
    {
        // Midnight passed between the records and the partitions.
        upgraded.database.remove(upgraded.store).await;
        upgraded = Upgraded::create().await.unwrap();
    }
    let Upgraded { database, client, store, micros, records } = upgraded;
    let moved = [("earlier_days", 40), ("other_days", 20)];
    assert_eq!(counts(&client).await, named(&moved));
    let all = store.requests_before(&RequestFilter::default(), None, 99).await.unwrap();
    let all: Vec<_> = all.into_iter().map(|(_, record)| record).rev().collect();
    assert_eq!(all, records);
    verify(&store).await;
    // The day after tomorrow has a record in the default partition.
    assert_eq!(partitions(&client).await, 2);
    let today = day_of(Timestamp::from_microsecond(micros).unwrap());
    let mut connection = store.connection().await.unwrap();
    prepare(&mut connection, store.epoch, today + 1, Some(ONE_DAY)).await.unwrap();
    assert_eq!(partitions(&client).await, 3);
    drop(connection);

    // One by one as long as not all of its records are old, and then as a whole.
    let at = |days: i64| Timestamp::from_microsecond(micros + days * DAY).unwrap();
    let cutoff =
        |days| RetentionCutoff { before: Some(at(days)), beyond: None, ended_before: at(days) };
    assert_eq!(store.drop_old_days(cutoff(0)).await.unwrap(), 0);
    assert_eq!(store.delete_old_requests(cutoff(0), 99).await.unwrap(), 20);
    assert_eq!(store.drop_old_days(cutoff(2)).await.unwrap(), 20);
    assert_eq!(counts(&client).await, named(&[("other_days", 20)]));
    verify(&store).await;
    database.remove(store).await;
}

/// Regression test: a record of a clock that was ahead kept all those behind it.
#[tokio::test]
async fn a_record_of_the_future_does_not_keep_old_ones() {
    let Some(database) = Database::create("ahead").await else { return };
    let store = database.open(1).await.unwrap();
    let mut records = records_of(4, 0);
    for index in [0, 5] {
        records[index].started_at += SignedDuration::from_hours(24 * 3_650);
    }
    store.commit(Arc::new(records)).await.unwrap();
    let deleted = store.delete_old_requests(older_than(2), 100).await.unwrap();
    assert_eq!(deleted, 9, "the newest record stays");
    verify(&store).await;
    database.remove(store).await;
}
