//! The hot path: commits batches of request records and their ledger entries, one transaction per
//! batch.
//!
//! Values that exist once per key, account or hour are summed in memory first, so that a record
//! costs little more than its own insertion; `benches/commit.rs` measures this.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::LazyLock;

use foldhash::fast::RandomState;
use jiff::Timestamp;
use rusqlite::Connection;

use super::codec::{ReadColumn, parameters};
use super::keys::{self, KeyUse};
use super::rows::{Insertion, Values};
use super::{filter, spans, sums};
use crate::codec::{At, List, Micros};
use crate::records;
use crate::summary::{balance_changes, day_of};
use crate::{Cursor, StoreError};
use domain::id::{AccountId, KeyId, RequestId};
use domain::ledger::Entry;
use domain::money::Nanos;
use domain::month::month_of;
use domain::record::RequestRecord;

static INSERT_REQUESTS: LazyLock<Insertion> = LazyLock::new(|| {
    let columns = [
        "id",
        "account",
        "key",
        "started_at",
        "duration",
        "ttft",
        "endpoint",
        "stream",
        "status",
        "http_status",
        "basis",
        "input",
        "cached",
        "output",
        "reasoning",
        "cost",
        "price_version",
        "model",
        "upstream",
        "upstream_model",
        "error_code",
        "notes",
        "overrun",
        "idempotency",
        "count",
    ];
    Insertion::new("requests", &columns, "ON CONFLICT (id) DO NOTHING")
});
static INSERT_ENTRIES: LazyLock<Insertion> = LazyLock::new(|| {
    let columns = ["account", "amount", "kind", "request", "note", "at"];
    Insertion::new("ledger_entries", &columns, "")
});
static ADD_TO_BALANCES: LazyLock<Insertion> =
    LazyLock::new(|| Insertion::adding("balances", &["account"], &["amount"]));

/// Writes a batch, skipping existing records.
pub(super) fn commit(tx: &Connection, batch: &[RequestRecord]) -> Result<Cursor, StoreError> {
    let mut batch: Vec<_> = batch.iter().collect();
    batch.sort_by_key(|record| record.account);
    let fresh = insert_records(tx, &batch)?;
    if let Some((first, _)) = fresh.first() {
        spans::REQUEST_SPANS.record(tx, *first, fresh.iter().map(|(_, record)| record.account))?;
    }
    add_key_use(tx, &fresh)?;
    filter::extend_hours(tx, &fresh)?;
    sums::add(tx, fresh.iter().map(|(_, record)| *record))?;
    let mut entries: Vec<_> = fresh.iter().flat_map(|(_, record)| record.entries()).collect();
    entries.sort_by_key(|entry| entry.account);
    add_entries(tx, &entries)?;
    match fresh.last() {
        Some((seq, _)) => Ok(Cursor(*seq)),
        None => newest(tx),
    }
}

/// Returns the cursor of the newest record; zero if there is none.
pub(super) fn newest(tx: &Connection) -> Result<Cursor, StoreError> {
    let mut select = tx.prepare_cached("SELECT coalesce(max(seq), 0) FROM requests")?;
    Ok(Cursor(select.query_row([], |row| row.column(0))?))
}

/// Writes ledger entries; entries of one account should be adjacent. A balance is the sum of its
/// entries in their order, saturated after each.
pub(super) fn add_entries(tx: &Connection, entries: &[Entry]) -> Result<(), StoreError> {
    INSERT_ENTRIES.execute(tx, entries, bind_entry)?;
    let first = tx.last_insert_rowid() + 1 - i64::try_from(entries.len()).unwrap_or_default();
    spans::ENTRY_SPANS.record(tx, first, entries.iter().map(|entry| entry.account))?;
    let (mut changes, sums) = balance_changes(entries);
    changes.extend(sums);
    let bind = |(account, change): &_, values: &mut Values<'_, '_>| {
        values.bind(parameters![account, change])
    };
    Ok(ADD_TO_BALANCES.execute(tx, &changes, bind)?)
}

/// Returns the balance of each account that has ledger entries.
pub(super) fn balances(tx: &Connection) -> Result<Vec<(AccountId, Nanos)>, StoreError> {
    let mut select = tx.prepare_cached("SELECT account, amount FROM balances")?;
    let balances = select.query_map([], |row| Ok((row.column(0)?, row.column(1)?)))?;
    Ok(balances.collect::<Result<_, _>>()?)
}

/// Returns the records that were new, with their cursors.
fn insert_records<'a>(
    tx: &Connection,
    records: &[&'a RequestRecord],
) -> rusqlite::Result<Vec<(i64, &'a RequestRecord)>> {
    let mut fresh = Vec::with_capacity(records.len());
    let bind = |record: &&RequestRecord, values: &mut Values<'_, '_>| bind_record(record, values);
    INSERT_REQUESTS.execute_in_parts(tx, records, bind, |records, written| {
        let written = i64::try_from(written).unwrap_or_default();
        let first = tx.last_insert_rowid() + 1 - written;
        if written == i64::try_from(records.len()).unwrap_or_default() {
            fresh.extend((first..).zip(records.iter().copied()));
        } else if written > 0 {
            fresh.extend(find_fresh(tx, first, records)?);
        }
        Ok(())
    })?;
    Ok(fresh)
}

/// Returns which of `records` are the rows from `first` on, which have the same order.
fn find_fresh<'a>(
    tx: &Connection,
    first: i64,
    records: &[&'a RequestRecord],
) -> rusqlite::Result<Vec<(i64, &'a RequestRecord)>> {
    let mut select =
        tx.prepare_cached("SELECT seq, id FROM requests WHERE seq >= ? ORDER BY seq")?;
    let found = select.query_map(parameters![first], |row| Ok((row.column(0)?, row.column(1)?)))?;
    let found: Vec<(i64, RequestId)> = found.collect::<rusqlite::Result<_>>()?;
    let mut found = found.into_iter().peekable();
    let fresh = records.iter().filter_map(|record| {
        let (seq, _) = found.next_if(|(_, id)| *id == record.id)?;
        Some((seq, *record))
    });
    Ok(fresh.collect())
}

fn bind_record(record: &RequestRecord, values: &mut Values<'_, '_>) -> rusqlite::Result<()> {
    let usage = record.usage.as_ref();
    let served = record.deployment.as_ref();
    let notes = record.notes.iter().map(String::as_str);
    values.bind(parameters![
        record.id,
        record.account,
        record.key,
        At(record.started_at),
        Micros(record.duration),
        record.ttft.map(Micros),
        record.endpoint,
        record.stream,
        record.status,
        record.http_status,
        record.basis,
        usage.map(|usage| usage.input),
        usage.and_then(|usage| usage.cached),
        usage.map(|usage| usage.output),
        usage.and_then(|usage| usage.reasoning),
        record.cost,
        record.price_version,
        record.model,
        served.map(|served| &served.upstream),
        served.map(|served| &served.upstream_model),
        record.error_code,
        (!record.notes.is_empty()).then(|| List::of(notes)),
        (record.overrun != Nanos::ZERO).then_some(record.overrun),
        record.idempotency.map(|digest| digest.0),
        (record.count > NonZeroU32::MIN).then_some(record.count),
    ])
}

fn add_key_use(tx: &Connection, fresh: &[(i64, &RequestRecord)]) -> Result<(), StoreError> {
    let mut by_key = HashMap::<&KeyId, KeyUse, RandomState>::default();
    // The month of most records is that of the record before.
    let mut month = Timestamp::MAX..Timestamp::MIN;
    for (_, record) in fresh {
        let last_used_at = record.started_at;
        if !month.contains(&last_used_at) {
            let (start, end) = month_of(last_used_at);
            month = start..end;
        }
        let used = KeyUse {
            last_used_at,
            spent: record.cost.unwrap_or_default(),
            month: day_of(month.start),
            tokens: record.usage.unwrap_or_default().total().0,
        };
        by_key.entry(&record.key).and_modify(|sum| sum.add(used)).or_insert(used);
    }
    by_key.into_iter().try_for_each(|(key, used)| keys::add_use(tx, key, used))
}

fn bind_entry(entry: &Entry, values: &mut Values<'_, '_>) -> rusqlite::Result<()> {
    let (code, request, note) = records::entry_columns(&entry.kind);
    values.bind(parameters![entry.account, entry.amount, code, request, note, At(entry.at)])
}
