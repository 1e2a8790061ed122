//! Sums over requests, kept by hour and, for keys, by day, in the transactions of their records.
//!
//! `summary.rs` reads them.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use rusqlite::types::ToSql;
use rusqlite::{Connection, params};

use super::codec::Count;
use super::filter::HOUR;
use crate::domain::id::{AccountId, KeyId, ModelId};
use crate::domain::record::{RequestRecord, RequestStatus};
use crate::domain::usage::Tokens;
use crate::store::{StoreError, Totals};

/// The statement that adds a row to a table of sums. A sum beyond 64 bits becomes a float, and the cast
/// takes it back to the end of the range.
macro_rules! add_to {
    ($table:literal, $group:literal) => {
        concat!(
            "INSERT INTO ",
            $table,
            " VALUES (",
            $group,
            ", ?, ?, ?, ?, ?, ?) \
            ON CONFLICT DO UPDATE SET requests = requests + excluded.requests, \
            input = CAST(input + excluded.input AS INTEGER), \
            cached = CAST(cached + excluded.cached AS INTEGER), \
            output = CAST(output + excluded.output AS INTEGER), \
            reasoning = CAST(reasoning + excluded.reasoning AS INTEGER), \
            cost = CAST(cost + excluded.cost AS INTEGER)"
        )
    };
}

/// Which sums by hour.
#[derive(Clone, Copy)]
enum Table {
    /// Those of all requests.
    All,
    /// Those of requests whose records were removed.
    Forgotten,
}

/// Requests of one hour and model that ended alike.
type Group<'a> = (i64, Option<&'a ModelId>, RequestStatus);

/// Sums by account, key and group.
type KeySums<'a> = HashMap<(AccountId, &'a KeyId, Group<'a>), Totals, RandomState>;

/// Adds records to the sums: one row per group of the batch, not per record.
pub(super) fn add<'a>(
    tx: &Connection,
    records: impl Iterator<Item = &'a RequestRecord>,
) -> Result<(), StoreError> {
    let of_keys = by_key(records);
    add_hours(tx, Table::All, &of_keys)?;
    add_days(tx, &of_keys)
}

/// Notes that records were removed that are in the sums.
pub(super) fn add_forgotten<'a>(
    tx: &Connection,
    records: impl Iterator<Item = &'a RequestRecord>,
) -> Result<(), StoreError> {
    add_hours(tx, Table::Forgotten, &by_key(records))
}

/// Adds a sum to another.
pub(super) fn accumulate(sum: &mut Totals, part: &Totals) {
    sum.requests = sum.requests.saturating_add(part.requests);
    sum.errors = sum.errors.saturating_add(part.errors);
    sum.input = sum.input.saturating_add(part.input);
    sum.cached = sum.cached.saturating_add(part.cached);
    sum.output = sum.output.saturating_add(part.output);
    sum.reasoning = sum.reasoning.saturating_add(part.reasoning);
    sum.cost = sum.cost.saturating_add(part.cost);
}

fn by_key<'a>(records: impl Iterator<Item = &'a RequestRecord>) -> KeySums<'a> {
    let mut sums = KeySums::default();
    for record in records {
        let hour = record.started_at.as_microsecond().div_euclid(HOUR);
        let group = (hour, record.model.as_ref(), record.status);
        let totals = sums.entry((record.account, &record.key, group)).or_default();
        accumulate(totals, &totals_of(record));
    }
    sums
}

fn add_hours(tx: &Connection, table: Table, of_keys: &KeySums<'_>) -> Result<(), StoreError> {
    let mut of_all = HashMap::<Group<'_>, Totals>::new();
    for ((account, key, group), totals) in of_keys {
        add_hour(tx, table, account, key, *group, totals)?;
        accumulate(of_all.entry(*group).or_default(), totals);
    }
    of_all.iter().try_for_each(|(group, totals)| add_hour(tx, table, &[0; 0], &"", *group, totals))
}

fn add_days(tx: &Connection, of_keys: &KeySums<'_>) -> Result<(), StoreError> {
    type Day<'a> = (i64, AccountId, &'a KeyId, RequestStatus);
    let mut days = HashMap::<Day<'_>, Totals, RandomState>::default();
    for ((account, key, (hour, _, status)), totals) in of_keys {
        let day = (hour.div_euclid(24), *account, *key, *status);
        accumulate(days.entry(day).or_default(), totals);
    }
    let mut add = tx.prepare_cached(add_to!("key_days", "?, ?, ?, ?"))?;
    for ((day, account, key, status), totals) in days {
        add.execute(params![
            day,
            account,
            key,
            status,
            Count(totals.requests),
            Count(totals.input),
            Count(totals.cached),
            Count(totals.output),
            Count(totals.reasoning),
            totals.cost
        ])?;
    }
    Ok(())
}

fn add_hour(
    tx: &Connection,
    table: Table,
    account: &dyn ToSql,
    key: &dyn ToSql,
    (hour, model, status): Group<'_>,
    totals: &Totals,
) -> Result<(), StoreError> {
    let sql = match table {
        Table::All => add_to!("request_sums", "?, ?, ?, ifnull(?, 0), ?"),
        Table::Forgotten => add_to!("forgotten_sums", "?, ?, ?, ifnull(?, 0), ?"),
    };
    tx.prepare_cached(sql)?.execute(params![
        account,
        hour,
        key,
        model,
        status,
        Count(totals.requests),
        Count(totals.input),
        Count(totals.cached),
        Count(totals.output),
        Count(totals.reasoning),
        totals.cost
    ])?;
    Ok(())
}

fn totals_of(record: &RequestRecord) -> Totals {
    let usage = record.usage.unwrap_or_default();
    let known = |tokens: Option<Tokens>| tokens.map_or(0, |tokens| tokens.0);
    Totals {
        requests: 1,
        errors: u64::from(record.status.is_error()),
        input: usage.input.0,
        cached: known(usage.cached),
        output: usage.output.0,
        reasoning: known(usage.reasoning),
        cost: record.cost.unwrap_or_default(),
    }
}
