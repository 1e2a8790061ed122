//! The hot path: commits batches of request records and their ledger entries, one transaction per
//! batch, one statement per table.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU32;
use std::sync::LazyLock;

use foldhash::fast::RandomState;
use futures_util::future;

use super::codec::{ReadColumn, arrays, parameters};
use super::transaction::Transaction;
use super::{allocation_use, claims, entries, keys, sums};
use crate::codec::{At, List, Micros};
use crate::summary::day_of;
use crate::{Cursor, StoreError};
use domain::id::{KeyId, RequestId};
use domain::money::Nanos;
use domain::node::NodeId;
use domain::record::RequestRecord;

/// The columns of a record with their types.
const COLUMNS: [(&str, &str); 27] = [
    ("seq", "bigint"),
    ("account", "uuid"),
    ("day", "bigint"),
    ("id", "uuid"),
    ("key", "text"),
    ("started_at", "bigint"),
    ("duration", "bigint"),
    ("ttft", "bigint"),
    ("endpoint", "smallint"),
    ("stream", "boolean"),
    ("status", "smallint"),
    ("http_status", "integer"),
    ("basis", "smallint"),
    ("input", "bigint"),
    ("cached", "bigint"),
    ("output", "bigint"),
    ("reasoning", "bigint"),
    ("cost", "bigint"),
    ("price_version", "bigint"),
    ("model", "text"),
    ("upstream", "text"),
    ("upstream_model", "text"),
    ("error_code", "text"),
    ("notes", "text"),
    ("overrun", "bigint"),
    ("idempotency", "bytea"),
    ("count", "bigint"),
];

static INSERT: LazyLock<String> = LazyLock::new(|| {
    let names = COLUMNS.map(|(name, _)| name).join(", ");
    let array = |(number, (_, kind)): (usize, &(_, &str))| format!("${}::{kind}[]", number + 1);
    let arrays: Vec<_> = COLUMNS.iter().enumerate().map(array).collect();
    format!("INSERT INTO requests ({names}) SELECT * FROM unnest({})", arrays.join(", "))
});

/// Writes a batch of the gateway `node`, skipping existing records.
pub(super) async fn commit(
    tx: &Transaction<'_>,
    node: NodeId,
    batch: &[RequestRecord],
) -> Result<Cursor, StoreError> {
    // Commits wait for each other from here on: what is found below stays as it is.
    let end = tx.query_one("log_end", "SELECT seq FROM log_end FOR UPDATE", &[]).await?;
    let end: i64 = end.column(0)?;
    let mut batch: Vec<_> = batch.iter().collect();
    batch.sort_by_key(|record| record.account);
    let mut known = find_existing(tx, &batch).await?;
    batch.retain(|record| known.insert(record.id));
    if batch.is_empty() {
        return Ok(Cursor(end));
    }
    let fresh: Vec<_> = (end + 1..).zip(batch).collect();
    let end = fresh.last().map_or(end, |(seq, _)| *seq);
    let hours = sums::by_key(&fresh);
    let mut charges: Vec<_> = fresh.iter().flat_map(|(_, record)| record.entries()).collect();
    charges.sort_by_key(|entry| entry.account);
    // Sent together, without waiting for one after the other. They are executed in this order.
    let record =
        future::try_join3(insert_records(tx, &fresh), move_end(tx, end), touch_keys(tx, &fresh));
    let count = future::try_join(sums::add(tx, &hours), entries::add(tx, &charges));
    let release = future::try_join(
        allocation_use::reduce(tx, node, &fresh),
        claims::mark_answered(tx, &fresh),
    );
    future::try_join3(record, count, release).await?;
    Ok(Cursor(end))
}

/// Returns which of `records` are stored.
async fn find_existing(
    tx: &Transaction<'_>,
    records: &[&RequestRecord],
) -> Result<HashSet<RequestId, RandomState>, StoreError> {
    let sql = "SELECT id FROM requests JOIN unnest($1::uuid[], $2::bigint[], $3::uuid[]) \
        AS batch (account, day, id) USING (account, day, id)";
    let values = arrays!(records, |record| record.account, day_of(record.started_at), record.id);
    tx.query(sql, values).await?.iter().map(|row| row.column(0)).collect()
}

async fn insert_records(
    tx: &Transaction<'_>,
    fresh: &[(i64, &RequestRecord)],
) -> Result<(), StoreError> {
    let values = arrays!(
        fresh,
        |row| row.0,
        row.1.account,
        day_of(row.1.started_at),
        row.1.id,
        &row.1.key,
        At(row.1.started_at),
        Micros(row.1.duration),
        row.1.ttft.map(Micros),
        row.1.endpoint,
        row.1.stream,
        row.1.status,
        row.1.http_status,
        row.1.basis,
        row.1.usage.map(|usage| usage.input),
        row.1.usage.and_then(|usage| usage.cached),
        row.1.usage.map(|usage| usage.output),
        row.1.usage.and_then(|usage| usage.reasoning),
        row.1.cost,
        row.1.price_version,
        row.1.model.as_ref(),
        row.1.deployment.as_ref().map(|served| &served.upstream),
        row.1.deployment.as_ref().map(|served| &served.upstream_model),
        row.1.error_code.as_ref(),
        (!row.1.notes.is_empty()).then(|| List::of(row.1.notes.iter().map(String::as_str))),
        (row.1.overrun != Nanos::ZERO).then_some(row.1.overrun),
        row.1.idempotency.map(|digest| digest.0),
        (row.1.count > NonZeroU32::MIN).then_some(row.1.count),
    );
    tx.execute(&INSERT, values).await?;
    Ok(())
}

async fn move_end(tx: &Transaction<'_>, end: i64) -> Result<(), StoreError> {
    tx.execute("UPDATE log_end SET seq = $1", parameters![end]).await?;
    Ok(())
}

async fn touch_keys(
    tx: &Transaction<'_>,
    fresh: &[(i64, &RequestRecord)],
) -> Result<(), StoreError> {
    let mut last_used = HashMap::<&KeyId, _, RandomState>::default();
    for (_, record) in fresh {
        let last = last_used.entry(&record.key).or_insert(record.started_at);
        *last = record.started_at.max(*last);
    }
    let last_used: Vec<_> = last_used.into_iter().collect();
    keys::touch(tx, &last_used).await
}
