//! The partitions of the log by day: made ahead of the records, and dropped as a whole once all of their records are
//! old.
//!
//! Invariant: a record never lacks a partition. `requests_of_other_days` is the default partition; it takes the records
//! of days that have none, such as those of clocks that are wrong, and those written while only gateways of earlier
//! versions run, which make no partitions. A partition is not made for days of which the default partition has records.
//!
//! Batches write to single partitions, so they never wait for a partition to be made: attaching it locks the default
//! partition, and `requests` only against other changes of the schema. Dropping one locks `requests` against
//! everything, for some milliseconds, once all transactions in progress that use it have ended. It waits for these no longer than
//! [`LOCK_TIMEOUT`], because batches and readers queue behind it meanwhile; the next sweep tries again.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use super::PostgresStore;
use super::codec::{ReadColumn, parameters};
use super::nodes::NodeEpoch;
use super::sums::saturating_addition;
use super::transaction::{Connection, Transaction};
use crate::codec::Count;
use crate::summary::DAY;
use crate::{Cursor, RetentionCutoff, StoreError};

/// The longest wait for the locks of a change of partitions.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_millis(500);

/// The days after today for which partitions are made.
const DAYS_AHEAD: i64 = 2;

/// The number of partitions into which the kept days are divided: a statement that reads the whole log locks each
/// partition and its seven indexes.
const KEPT_PARTITIONS: i64 = 32;

/// The least number of days of a partition if no record becomes too old.
const MIN_UNLIMITED_DAYS: i64 = 30;

/// The number of partitions beyond which no more are made, which only a clock that jumps about can reach.
const MAX_PARTITIONS: usize = 128;

/// A partition of the log with its days, from the first to the one before `end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Partition {
    /// The name, quoted if necessary.
    name: String,
    /// `None` if it has no first day.
    first: Option<i64>,
    /// `None` for the default partition.
    end: Option<i64>,
}

/// Makes partitions for `today` and the next days, unless another gateway does so or deletes old rows.
pub(super) async fn prepare(
    connection: &mut Connection,
    node: NodeEpoch,
    today: i64,
    keep_for: Option<Duration>,
) -> Result<(), StoreError> {
    // Avoids a write transaction without changes.
    if missing_days(&list(&connection.view().await?).await?, today, keep_for).is_empty() {
        return Ok(());
    }
    let tx = connection.begin(node).await?;
    if !tx.try_claim_retention().await? {
        return Ok(());
    }
    limit_lock_waits(&tx, LOCK_TIMEOUT).await?;
    for (first, end) in missing_days(&list(&tx).await?, today, keep_for) {
        // These days stay in the default partition.
        let sql = "SELECT max(day) FROM requests_of_other_days WHERE started_at >= $1 AND started_at < $2";
        let times = parameters![first.saturating_mul(DAY), end.saturating_mul(DAY)];
        let found: Option<i64> =
            tx.query_one("requests_of_other_days", sql, times).await?.column(0)?;
        let first = found.map_or(first, |day| day + 1);
        if first < end {
            attach(&tx, first, end).await?;
        }
    }
    tx.commit().await
}

/// Creates the partitions of an empty log for the days of the records that it will receive. The partition of all
/// earlier days ends at the first one; days in between have no partition.
pub(super) async fn create_for_days(
    tx: &Transaction<'_>,
    days: &BTreeSet<i64>,
) -> Result<(), StoreError> {
    let ranges = partition_ranges(days);
    let Some((first, _)) = ranges.first() else { return Ok(()) };
    for partition in list(tx).await? {
        if partition.end.is_some() {
            tx.execute_batch(&format!("DROP TABLE {}", partition.name)).await?;
        }
    }
    tx.execute_batch(&format!(
        "CREATE TABLE requests_of_earlier_days PARTITION OF requests \
        FOR VALUES FROM (MINVALUE) TO ({first})"
    ))
    .await?;
    for (first, end) in ranges {
        attach(tx, first, end).await?;
    }
    Ok(())
}

/// Drops the first partition whose records may all be deleted, and returns their number, which is not zero. `None` if
/// there is no such partition, or if another gateway deletes old rows.
pub(super) async fn drop_old(
    store: &PostgresStore,
    cutoff: &RetentionCutoff,
    lock_timeout: Duration,
) -> Result<Option<u64>, StoreError> {
    let old = find_old(&store.connection().await?.view().await?, cutoff).await?;
    for partition in old {
        // Adding up its records can take long. The server notices within a second that the connection was closed.
        let mut connection = store.connection().await?.detach();
        // Fails if a long transaction reads the log, before the records are added up in vain. The transaction ends at once.
        // It waits as long as the drop, since with NOWAIT it would fail on nearly every batch of a busy gateway.
        lock(&connection.begin_unfenced().await?, lock_timeout).await?;
        let tx = connection.begin_unfenced().await?;
        tx.execute_batch("SET LOCAL client_connection_check_interval = 1000").await?;
        match drop_partition(tx, store.epoch, &partition.name, cutoff, lock_timeout).await? {
            // It was empty, or has requests that ended recently.
            Some(0) | None => {}
            deleted => return Ok(deleted),
        }
    }
    Ok(None)
}

/// Keeps all partitions until the transaction ends. It must be the first statement of a transaction that reads the log
/// and the sums of deleted records, before the one that takes its snapshot: a partition that was dropped in between
/// would be missing from the log, and not yet be in those sums.
pub(super) async fn keep(tx: &Transaction<'_>) -> Result<(), StoreError> {
    tx.execute_batch("LOCK TABLE ONLY requests IN ACCESS SHARE MODE").await
}

/// Returns the day before which single records are deleted because of their age. Later days have partitions, which are
/// dropped as a whole. `None` if all old records are deleted one by one.
pub(super) async fn first_dropped_day(
    tx: &Transaction<'_>,
    cutoff: &RetentionCutoff,
) -> Result<Option<i64>, StoreError> {
    let Some(before) = cutoff.before else { return Ok(None) };
    // Records that have just ended are kept even if all others are too old.
    let keep_for = Duration::try_from(cutoff.ended_before.duration_since(before));
    let longest = days_per_partition(keep_for.unwrap_or_default());
    let is_short = |(first, end): &(i64, i64)| end - first <= longest;
    Ok(list(tx)
        .await?
        .iter()
        .filter_map(Partition::days)
        .filter(is_short)
        .map(|(first, _)| first)
        .min())
}

/// Drops a partition and adds its records to the sums of deleted ones. Returns their number; `None` if it must stay.
async fn drop_partition(
    tx: Transaction<'_>,
    node: NodeEpoch,
    name: &str,
    cutoff: &RetentionCutoff,
    lock_timeout: Duration,
) -> Result<Option<u64>, StoreError> {
    // From here on, no other gateway deletes records.
    if !tx.try_claim_retention().await? {
        return Ok(None);
    }
    let sums = tx.query_with(&adding_to_deleted_sums(name), &[]).await?;
    let Some(row) = sums.first() else { return Ok(None) };
    let (deleted, newest) = (row.column::<Count>(0)?.0, row.column::<i64>(1)?);
    if row.column::<i64>(2)? >= cutoff.ended_before.as_microsecond() {
        return Ok(None);
    }
    // Only now, because a removal and a new start of the node wait for its fenced transactions.
    tx.fence(node).await?;
    lock(&tx, lock_timeout).await?;
    // A record that was written meanwhile has a later cursor.
    if last_cursor(&tx, name).await? != newest {
        return Ok(None);
    }
    tx.execute_batch(&format!("DROP TABLE {name}")).await?;
    tx.commit().await?;
    Ok(Some(deleted))
}

/// Locks the log against everything.
async fn lock(tx: &Transaction<'_>, lock_timeout: Duration) -> Result<(), StoreError> {
    limit_lock_waits(tx, lock_timeout).await?;
    tx.execute_batch("LOCK TABLE ONLY requests IN ACCESS EXCLUSIVE MODE").await
}

/// Returns the last cursor of a partition; zero if it is empty.
async fn last_cursor(tx: &Transaction<'_>, name: &str) -> Result<i64, StoreError> {
    let sql = format!("SELECT coalesce(max(seq), 0) FROM {name}");
    let rows = tx.query_with(&sql, &[]).await?;
    rows.first().map_or(Ok(0), |row| row.column(0))
}

/// Returns a statement that adds the records of a partition to the sums of deleted records, and returns their number,
/// the last cursor and the last end of a request.
fn adding_to_deleted_sums(partition: &str) -> String {
    let sums = ["requests", "input", "cached", "output", "reasoning", "cost"];
    let columns = format!("account, hour, key, model, status, {}", sums.join(", "));
    let sum = |sum: &str| match sum {
        "requests" => "saturated(sum(coalesce(count, 1)))".to_owned(),
        sum => format!("saturated(coalesce(sum({sum}), 0))"),
    };
    let add = |sum| format!("{sum} = {}", saturating_addition(sum));
    format!(
        "WITH sums ({columns}, records, newest, last_end) AS (SELECT account, \
            floor(started_at / 3600000000.0)::bigint, key, model, status, {}, count(*), max(seq), \
            max(started_at::numeric + duration) FROM {partition} GROUP BY 1, 2, 3, 4, 5), \
        added AS (INSERT INTO deleted_sums AS stored ({columns}) SELECT {columns} FROM sums \
            ON CONFLICT (account, hour, key, model, status) DO UPDATE SET {}) \
        SELECT coalesce(sum(records), 0)::bigint, coalesce(max(newest), 0), \
            saturated(coalesce(max(last_end), 0)) FROM sums",
        sums.map(sum).join(", "),
        sums.map(add).join(", ")
    )
}

/// Returns the partitions whose records may all be deleted, in the order of their days. Some of their requests may
/// have ended recently.
async fn find_old(
    tx: &Transaction<'_>,
    cutoff: &RetentionCutoff,
) -> Result<Vec<Partition>, StoreError> {
    let newest = tx.query_one("log_end", "SELECT seq FROM log_end", &[]).await?;
    let surplus = cutoff.surplus(Cursor(newest.column(0)?));
    let mut old = Vec::new();
    for partition in list(tx).await? {
        let Some(end) = partition.end else { continue };
        let is_before = |time: Timestamp| end.saturating_mul(DAY) <= time.as_microsecond();
        if !is_before(cutoff.ended_before) {
            continue;
        }
        if cutoff.before.is_some_and(is_before)
            || last_cursor(tx, &partition.name).await? <= surplus
        {
            old.push(partition);
        }
    }
    Ok(old)
}

/// Returns the days from `today` that lack a partition, as ranges without their ends.
fn missing_days(
    partitions: &[Partition],
    today: i64,
    keep_for: Option<Duration>,
) -> Vec<(i64, i64)> {
    let length = partition_days(partitions, today, keep_for);
    let room = MAX_PARTITIONS.saturating_sub(partitions.len());
    let (mut day, mut missing) = (today, Vec::new());
    while day <= today + DAYS_AHEAD && missing.len() < room {
        let covering = partitions.iter().find(|partition| partition.contains(day));
        if let Some(end) = covering.and_then(|partition| partition.end) {
            day = end;
            continue;
        }
        let next = partitions.iter().filter_map(|it| it.first).filter(|first| *first > day).min();
        let end = (day + length).min(next.unwrap_or(i64::MAX));
        missing.push((day, end));
        day = end;
    }
    missing
}

/// Returns half-open ranges of days, one for each partition, that contain `days`. No range is longer
/// than those of new records under a retention of as many days, so that retention drops it as a whole, too.
pub(super) fn partition_ranges(days: &BTreeSet<i64>) -> Vec<(i64, i64)> {
    let length = (i64::try_from(days.len()).unwrap_or(i64::MAX) / KEPT_PARTITIONS).max(1);
    let mut ranges = Vec::<(i64, i64)>::new();
    // Days before 1970 are those of clocks that were wrong; they stay in the partition of all earlier days.
    for day in days.range(0..) {
        if ranges.last().is_none_or(|(_, end)| day >= end) {
            ranges.push((*day, day.saturating_add(length)));
        }
    }
    ranges
}

/// Returns the number of days of a partition that is made: one, unless more than [`KEPT_PARTITIONS`] days are kept.
fn partition_days(partitions: &[Partition], today: i64, keep_for: Option<Duration>) -> i64 {
    let Some(keep_for) = keep_for else {
        let first = partitions.iter().filter_map(|it| it.first).min().unwrap_or(today);
        let logged = today.saturating_sub(first);
        return (logged / KEPT_PARTITIONS).max(MIN_UNLIMITED_DAYS);
    };
    days_per_partition(keep_for)
}

/// Returns the number of days of a partition if records are kept for `keep_for`.
fn days_per_partition(keep_for: Duration) -> i64 {
    let day = Duration::from_hours(24).as_secs();
    let days = i64::try_from(keep_for.as_secs().div_ceil(day)).unwrap_or(i64::MAX);
    (days / KEPT_PARTITIONS + i64::from(days % KEPT_PARTITIONS > 0)).max(1)
}

/// Returns all partitions.
async fn list(tx: &Transaction<'_>) -> Result<Vec<Partition>, StoreError> {
    let sql = r"SELECT oid::regclass::text, substring(bound FROM 'FROM \(''(-?[0-9]+)''\)')::bigint,
        substring(bound FROM 'TO \(''(-?[0-9]+)''\)')::bigint AS last
        FROM (SELECT oid, pg_get_expr(relpartbound, oid) AS bound FROM pg_inherits
            JOIN pg_class ON oid = inhrelid WHERE inhparent = 'requests'::regclass) AS partitions
        ORDER BY last";
    let rows = tx.query(sql, &[]).await?;
    let partition = |row: &tokio_postgres::Row| {
        Ok(Partition { name: row.column(0)?, first: row.column(1)?, end: row.column(2)? })
    };
    rows.iter().map(partition).collect()
}

/// Makes an empty partition and attaches it. `CREATE TABLE … PARTITION OF` would lock `requests` against everything.
async fn attach(tx: &Transaction<'_>, first: i64, end: i64) -> Result<(), StoreError> {
    let name = name_of(first);
    tx.execute_batch(&format!(
        "CREATE TABLE {name} (LIKE requests INCLUDING ALL); \
        ALTER TABLE requests ATTACH PARTITION {name} FOR VALUES FROM ({first}) TO ({end})"
    ))
    .await
}

/// Returns the name of the partition that begins with a day.
fn name_of(first: i64) -> String {
    let start = Timestamp::from_microsecond(first.saturating_mul(DAY)).unwrap_or_default();
    format!("requests_of_{}", start.strftime("%Y_%m_%d"))
}

async fn limit_lock_waits(tx: &Transaction<'_>, limit: Duration) -> Result<(), StoreError> {
    tx.execute_batch(&format!("SET LOCAL lock_timeout = {}", limit.as_millis())).await
}

// === impl Partition ===

impl Partition {
    fn contains(&self, day: i64) -> bool {
        self.first.is_none_or(|first| first <= day) && self.end.is_some_and(|end| day < end)
    }

    /// Returns the first day and the one after the last, if it has both.
    fn days(&self) -> Option<(i64, i64)> {
        self.first.zip(self.end)
    }
}
