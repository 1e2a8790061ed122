//! The hot path: ended requests and changes of balances, a batch per transaction.
//!
//! What is kept once per key, account or hour is summed up in memory first, so that a row costs its
//! own insertion and little else; `benches/commit.rs` measures it.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use foldhash::fast::RandomState;
use rusqlite::{Connection, params};

use super::codec::{At, List, Span};
use super::rows::{Insertion, Values};
use super::{filter, keys, sums};
use crate::domain::id::{AccountId, KeyId, RequestId};
use crate::domain::ledger::{Entry, EntryKind};
use crate::domain::money::Nanos;
use crate::domain::record::RequestRecord;
use crate::store::{Batch, Cursor, StoreError};

static REQUESTS: LazyLock<Insertion> = LazyLock::new(|| {
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
    ];
    Insertion::new("requests", &columns, "ON CONFLICT (id) DO NOTHING")
});
static ENTRIES: LazyLock<Insertion> = LazyLock::new(|| {
    let columns = ["account", "amount", "kind", "request", "note", "at"];
    Insertion::new("ledger_entries", &columns, "")
});

/// Writes a batch, leaving out what is already there.
pub(super) fn commit(tx: &Connection, batch: &Batch) -> Result<Cursor, StoreError> {
    let fresh = insert_records(tx, &batch.records)?;
    touch_keys(tx, &fresh)?;
    filter::extend_hours(tx, &fresh)?;
    sums::add(tx, fresh.iter().map(|(_, record)| *record))?;
    add_entries(tx, batch, &fresh)?;
    match fresh.last() {
        Some((seq, _)) => Ok(Cursor(*seq)),
        None => newest(tx),
    }
}

/// Returns the cursor of the newest record; zero if there is none.
pub(super) fn newest(tx: &Connection) -> Result<Cursor, StoreError> {
    let mut select = tx.prepare_cached("SELECT coalesce(max(seq), 0) FROM requests")?;
    Ok(Cursor(select.query_row([], |row| row.get(0))?))
}

/// Writes one ledger entry.
pub(super) fn add_entry(tx: &Connection, entry: &Entry) -> Result<(), StoreError> {
    insert_entries(tx, &[entry])?;
    add_to_balance(tx, entry.account, entry.amount)
}

/// Returns the balance of every account that has ledger entries.
pub(super) fn balances(tx: &Connection) -> Result<Vec<(AccountId, Nanos)>, StoreError> {
    let mut select = tx.prepare_cached("SELECT account, amount FROM balances")?;
    let balances = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(balances.collect::<Result<_, _>>()?)
}

/// Returns those that were not there before, with their cursors.
fn insert_records<'a>(
    tx: &Connection,
    records: &'a [RequestRecord],
) -> rusqlite::Result<Vec<(i64, &'a RequestRecord)>> {
    let mut fresh = Vec::with_capacity(records.len());
    REQUESTS.run(tx, records, bind_record, |records, written| {
        let written = i64::try_from(written).unwrap_or_default();
        let first = tx.last_insert_rowid() + 1 - written;
        if written == i64::try_from(records.len()).unwrap_or_default() {
            fresh.extend((first..).zip(records));
        } else if written > 0 {
            fresh.extend(find_fresh(tx, first, records)?);
        }
        Ok(())
    })?;
    Ok(fresh)
}

/// Tells which of `records` are those in the table from `first` on, in whose order they are.
fn find_fresh<'a>(
    tx: &Connection,
    first: i64,
    records: &'a [RequestRecord],
) -> rusqlite::Result<Vec<(i64, &'a RequestRecord)>> {
    let mut select =
        tx.prepare_cached("SELECT seq, id FROM requests WHERE seq >= ? ORDER BY seq")?;
    let found = select.query_map([first], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let found: Vec<(i64, RequestId)> = found.collect::<rusqlite::Result<_>>()?;
    let mut found = found.into_iter().peekable();
    let fresh = records.iter().filter_map(|record| {
        let (seq, _) = found.next_if(|(_, id)| *id == record.id)?;
        Some((seq, record))
    });
    Ok(fresh.collect())
}

fn bind_record(record: &RequestRecord, values: &mut Values<'_>) -> rusqlite::Result<()> {
    let usage = record.usage.as_ref();
    let served = record.deployment.as_ref();
    let notes = record.notes.iter().map(String::as_str);
    values.bind(params![
        record.id,
        record.account,
        record.key,
        At(record.started_at),
        Span(record.duration),
        record.ttft.map(Span),
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
    ])
}

fn touch_keys(tx: &Connection, fresh: &[(i64, &RequestRecord)]) -> Result<(), StoreError> {
    let mut last_used = HashMap::<&KeyId, _, RandomState>::default();
    for (_, record) in fresh {
        let last = last_used.entry(&record.key).or_insert(record.started_at);
        *last = record.started_at.max(*last);
    }
    last_used.into_iter().try_for_each(|(key, at)| keys::touch(tx, key, at))
}

fn add_entries(
    tx: &Connection,
    batch: &Batch,
    fresh: &[(i64, &RequestRecord)],
) -> Result<(), StoreError> {
    let ids = |has: fn(&RequestRecord) -> bool| {
        fresh.iter().filter(move |(_, record)| has(record)).map(|(_, record)| record.id)
    };
    let mut unpaid: HashSet<_, RandomState> = ids(|_| true).collect();
    let mut overrun: HashSet<_, RandomState> =
        ids(|record| record.overrun != Nanos::ZERO).collect();
    let mut changes = HashMap::<AccountId, Nanos, RandomState>::default();
    let mut accepted = Vec::with_capacity(batch.entries.len());
    for entry in &batch.entries {
        let expected = match &entry.kind {
            EntryKind::Charge(request) => Some((request, &mut unpaid)),
            EntryKind::Overrun(request) => Some((request, &mut overrun)),
            EntryKind::Trial | EntryKind::Credit(_) | EntryKind::Correction(_) => None,
        };
        if let Some((request, expected)) = expected
            && !expected.remove(request)
        {
            // Only a request that was there before this batch, or is there twice, may be left out.
            if batch.records.iter().any(|record| record.id == *request) {
                continue;
            }
            let text = format!("the charge for request `{request}` has no record in its batch");
            return Err(StoreError::Conflict(text));
        }
        accepted.push(entry);
        let change = changes.entry(entry.account).or_default();
        *change = change.saturating_add(entry.amount);
    }
    insert_entries(tx, &accepted)?;
    changes.into_iter().try_for_each(|(account, change)| add_to_balance(tx, account, change))
}

fn insert_entries(tx: &Connection, entries: &[&Entry]) -> rusqlite::Result<()> {
    ENTRIES.run(tx, entries, |entry, values| bind_entry(entry, values), |_, _| Ok(()))
}

fn bind_entry(entry: &Entry, values: &mut Values<'_>) -> rusqlite::Result<()> {
    let (kind, request, note) = match &entry.kind {
        EntryKind::Trial => (1, None, None),
        EntryKind::Credit(note) => (2, None, Some(note)),
        EntryKind::Charge(request) => (3, Some(request), None),
        EntryKind::Correction(note) => (4, None, Some(note)),
        EntryKind::Overrun(request) => (5, Some(request), None),
    };
    values.bind(params![entry.account, entry.amount, kind, request, note, At(entry.at)])
}

fn add_to_balance(tx: &Connection, account: AccountId, change: Nanos) -> Result<(), StoreError> {
    // A sum beyond 64 bits becomes a float, and the cast takes it back to the end of the range.
    let sql = "INSERT INTO balances VALUES (?, ?) ON CONFLICT DO UPDATE \
        SET amount = CAST(amount + excluded.amount AS INTEGER)";
    tx.prepare_cached(sql)?.execute(params![account, change])?;
    Ok(())
}
