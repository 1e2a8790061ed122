//! The hot path: commits batches of request records and their ledger entries, one transaction per
//! batch, one statement per table.
//!
//! Nearly every batch is sent once, so whether its records are stored is not looked up: the unique index refuses them,
//! and the batch is sent again with a look for each record ([`Repetition`]).

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU32;

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

/// The columns of a record.
const COLUMNS: &str = "seq, account, day, id, key, started_at, duration, ttft, endpoint, stream, \
    status, http_status, basis, input, cached, output, reasoning, cost, price_version, model, \
    upstream, upstream_model, error_code, notes, overrun, idempotency, count";

/// Whether a batch can have records that are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repetition {
    /// It was not sent before, as far as is known. If a record is stored, the commit fails with
    /// [`is_repetition`].
    Unlikely,
    /// It may have been sent before. Records that are stored are skipped, which costs a look for each.
    Possible,
}

/// Writes a batch of the gateway `node`.
pub(super) async fn commit(
    tx: &Transaction<'_>,
    node: NodeId,
    batch: &[RequestRecord],
    repetition: Repetition,
) -> Result<Cursor, StoreError> {
    // Commits wait for each other from here on: what is found below stays as it is.
    let end = tx.query_one("log_end", "SELECT seq FROM log_end FOR UPDATE", &[]).await?;
    let end: i64 = end.column(0)?;
    let mut batch: Vec<_> = batch.iter().collect();
    batch.sort_by_key(|record| record.account);
    let mut known = match repetition {
        Repetition::Unlikely => HashSet::default(),
        Repetition::Possible => find_existing(tx, &batch).await?,
    };
    batch.retain(|record| known.insert(record.id));
    if batch.is_empty() {
        return Ok(Cursor(end));
    }
    let fresh: Vec<_> = (end + 1..).zip(batch).collect();
    let end = fresh.last().map_or(end, |(seq, _)| *seq);
    let hours = sums::by_key(&fresh);
    let mut charges: Vec<_> = fresh.iter().flat_map(|(_, record)| record.entries()).collect();
    charges.sort_by_key(|entry| entry.account);
    // Alone, because it can fail, and the driver loses a connection whose COPY follows a statement that failed.
    insert_records(tx, &fresh).await?;
    // Sent together, without waiting for one after the other. They are executed in this order.
    let end_and_keys = future::try_join(move_end(tx, end), touch_keys(tx, &fresh));
    let count = future::try_join(sums::add(tx, &hours), entries::add(tx, &charges));
    let release = future::try_join(
        allocation_use::reduce(tx, node, &fresh),
        claims::mark_answered(tx, &fresh),
    );
    future::try_join3(end_and_keys, count, release).await?;
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
    let mut copy = tx.copy_in("requests", COLUMNS).await?;
    for (seq, record) in fresh {
        let served = record.deployment.as_ref();
        let notes = || List::of(record.notes.iter().map(String::as_str));
        copy.write(parameters![
            *seq,
            record.account,
            day_of(record.started_at),
            record.id,
            &record.key,
            At(record.started_at),
            Micros(record.duration),
            record.ttft.map(Micros),
            record.endpoint,
            record.stream,
            record.status,
            record.http_status,
            record.basis,
            record.usage.map(|usage| usage.input),
            record.usage.and_then(|usage| usage.cached),
            record.usage.map(|usage| usage.output),
            record.usage.and_then(|usage| usage.reasoning),
            record.cost,
            record.price_version,
            record.model.as_ref(),
            served.map(|served| &served.upstream),
            served.map(|served| &served.upstream_model),
            record.error_code.as_ref(),
            (!record.notes.is_empty()).then(notes),
            (record.overrun != Nanos::ZERO).then_some(record.overrun),
            record.idempotency.map(|digest| digest.0),
            (record.count > NonZeroU32::MIN).then_some(record.count),
        ])
        .await?;
    }
    copy.finish().await
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
