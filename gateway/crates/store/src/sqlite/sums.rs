//! Maintains sums over requests by hour and, for keys, by day, in the transactions of their
//! records.
//!
//! `summary.rs` reads them.

use std::collections::HashMap;
use std::sync::LazyLock;

use foldhash::fast::RandomState;
use rusqlite::Connection;

use super::codec::{Count, ToColumn, parameters};
use super::filter::HOUR;
use super::rows::{Insertion, Values};
use crate::{StoreError, Totals};
use domain::id::{AccountId, KeyId, ModelId};
use domain::record::{RequestRecord, RequestStatus};
use domain::usage::Tokens;

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

/// Requests of one hour and model with the same status.
type Group<'a> = (i64, Option<&'a ModelId>, RequestStatus);

/// Sums by account, key and group.
type KeySums<'a> = HashMap<(AccountId, &'a KeyId, Group<'a>), Totals, RandomState>;

/// Requests of one day, key and model with the same status.
type Day<'a> = (i64, AccountId, &'a KeyId, Option<&'a ModelId>, RequestStatus);

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
    let mut days = HashMap::<Day<'_>, Totals, RandomState>::default();
    for ((account, key, (hour, model, status)), totals) in of_keys {
        let day = (hour.div_euclid(24), *account, *key, *model, *status);
        accumulate(days.entry(day).or_default(), totals);
    }
    let days: Vec<_> = days.into_iter().collect();
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
fn model_or_zero(model: Option<&ModelId>) -> &dyn ToColumn {
    model.map_or(&0_i64, |model| model)
}

fn bind_totals(totals: &Totals, values: &mut Values<'_, '_>) -> rusqlite::Result<()> {
    let Totals { requests, errors: _, input, cached, output, reasoning, cost } = totals;
    let counts = [requests, input, cached, output, reasoning].map(|&count| Count(count));
    let [requests, input, cached, output, reasoning] = &counts;
    values.bind(parameters![requests, input, cached, output, reasoning, cost])
}

fn totals_of(record: &RequestRecord) -> Totals {
    let usage = record.usage.unwrap_or_default();
    let requests = u64::from(record.count.get());
    let known = |tokens: Option<Tokens>| tokens.map_or(0, |tokens| tokens.0);
    Totals {
        requests,
        errors: if record.status.is_error() { requests } else { 0 },
        input: usage.input.0,
        cached: known(usage.cached),
        output: usage.output.0,
        reasoning: known(usage.reasoning),
        cost: record.cost.unwrap_or_default(),
    }
}
