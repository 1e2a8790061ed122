//! Maintains sums over requests by hour and, for keys, by day, in the transactions of their
//! records.
//!
//! `summary.rs` reads them.

use std::collections::HashMap;
use std::sync::LazyLock;

use rusqlite::Connection;

use super::codec::parameters;
use super::rows::{Insertion, Values};
use crate::codec::{Count, Encode};
use crate::summary::{Day, Group, KeySums, accumulate, by_day, by_key};
use crate::{StoreError, Totals};
use domain::id::{AccountId, KeyId, ModelId};
use domain::record::RequestRecord;

const GROUP: [&str; 5] = ["account", "hour", "key", "model", "status"];
const SUMS: [&str; 6] = ["requests", "input", "cached", "output", "reasoning", "cost"];

static ADD_TO_HOURS: LazyLock<Insertion> =
    LazyLock::new(|| Insertion::adding("request_sums", &GROUP, &SUMS));
/// The sums of the requests whose records were deleted.
static ADD_TO_DELETED_HOURS: LazyLock<Insertion> =
    LazyLock::new(|| Insertion::adding("forgotten_sums", &GROUP, &SUMS));
static ADD_TO_DAYS: LazyLock<Insertion> = LazyLock::new(|| {
    Insertion::adding("key_days", &["day", "account", "key", "model", "status"], &SUMS)
});

/// A row of sums by hour.
struct Hour<'a> {
    /// The account and key; `None` sums over all.
    key: Option<(AccountId, &'a KeyId)>,
    group: Group<'a>,
    totals: &'a Totals,
}

/// Adds records to the sums: one row per group of the batch, not per record.
pub(super) fn add<'a>(
    tx: &Connection,
    records: impl Iterator<Item = &'a RequestRecord>,
) -> Result<(), StoreError> {
    let of_keys = by_key(records);
    add_hours(tx, &ADD_TO_HOURS, &of_keys)?;
    add_days(tx, &of_keys)
}

/// Adds deleted records to the sums of deleted records.
pub(super) fn add_deleted<'a>(
    tx: &Connection,
    records: impl Iterator<Item = &'a RequestRecord>,
) -> Result<(), StoreError> {
    add_hours(tx, &ADD_TO_DELETED_HOURS, &by_key(records))
}

fn add_hours(tx: &Connection, table: &Insertion, of_keys: &KeySums<'_>) -> Result<(), StoreError> {
    let mut of_all = HashMap::<Group<'_>, Totals>::new();
    for ((_, _, group), totals) in of_keys {
        accumulate(of_all.entry(*group).or_default(), totals);
    }
    let of_keys = of_keys.iter().map(|((account, key, group), totals)| Hour {
        key: Some((*account, *key)),
        group: *group,
        totals,
    });
    let of_all = of_all.iter().map(|(&group, totals)| Hour { key: None, group, totals });
    let hours: Vec<_> = of_keys.chain(of_all).collect();
    Ok(table.execute(tx, &hours, bind_hour)?)
}

fn add_days(tx: &Connection, of_keys: &KeySums<'_>) -> Result<(), StoreError> {
    let days: Vec<_> = by_day(of_keys).into_iter().collect();
    Ok(ADD_TO_DAYS.execute(tx, &days, bind_day)?)
}

fn bind_hour(row: &Hour<'_>, values: &mut Values<'_, '_>) -> rusqlite::Result<()> {
    let (hour, model, status) = &row.group;
    let model = model_or_zero(*model);
    match &row.key {
        Some((account, key)) => values.bind(parameters![account, hour, key, model, status])?,
        None => values.bind(parameters![[0_u8; 0].as_slice(), hour, "", model, status])?,
    }
    bind_totals(row.totals, values)
}

fn bind_day(
    ((day, account, key, model, status), totals): &(Day<'_>, Totals),
    values: &mut Values<'_, '_>,
) -> rusqlite::Result<()> {
    values.bind(parameters![day, account, key, model_or_zero(*model), status])?;
    bind_totals(totals, values)
}

/// Returns a model as encoded in sums: 0 without a model, because a column of the primary key
/// cannot be null.
fn model_or_zero(model: Option<&ModelId>) -> &dyn Encode {
    model.map_or(&0_i64, |model| model)
}

fn bind_totals(totals: &Totals, values: &mut Values<'_, '_>) -> rusqlite::Result<()> {
    let Totals { requests, errors: _, input, cached, output, reasoning, cost } = totals;
    let counts = [requests, input, cached, output, reasoning].map(|&count| Count(count));
    let [requests, input, cached, output, reasoning] = &counts;
    values.bind(parameters![requests, input, cached, output, reasoning, cost])
}
