//! Sums over requests, from sums by hour and, for the parts of hours at the ends, from the log.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;
use jiff::Timestamp;
use rusqlite::types::{ToSql, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use super::codec::Count;
use super::filter::{Choice, Condition, HOUR};
use super::terms;
use crate::domain::id::{AccountId, KeyId, ModelId};
use crate::domain::money::Nanos;
use crate::domain::record::{RequestRecord, RequestStatus};
use crate::domain::usage::Tokens;
use crate::store::{KeySum, MOST_KEYS, StoreError, Summary, Totals};

const DAY: i64 = 24 * HOUR;

/// Sums by model and day, and by key.
#[derive(Default)]
struct Sums {
    groups: HashMap<(Option<ModelId>, i64), Totals>,
    keys: HashMap<(AccountId, KeyId), Totals>,
}

/// What rows are added up to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// By model and day, and by key.
    All,
    /// By model and day.
    Group,
    /// By key.
    Key,
}

/// Which sums.
#[derive(Clone, Copy)]
pub(super) enum Table {
    /// Those of all requests.
    All,
    /// Those of requests whose records were removed.
    Forgotten,
}

/// Adds records to the sums by hour: one row per group of the batch, not per record.
pub(super) fn add<'a>(
    tx: &Connection,
    table: Table,
    records: impl Iterator<Item = &'a RequestRecord>,
) -> Result<(), StoreError> {
    type Group<'a> = (i64, Option<&'a ModelId>, RequestStatus);
    let mut of_keys = HashMap::<(AccountId, &KeyId, Group<'_>), Totals, RandomState>::default();
    for record in records {
        let hour = record.started_at.as_microsecond().div_euclid(HOUR);
        let group = (hour, record.model.as_ref(), record.status);
        let totals = of_keys.entry((record.account, &record.key, group)).or_default();
        accumulate(totals, &totals_of(record));
    }
    let mut of_all = HashMap::<Group<'_>, Totals>::new();
    for ((account, key, group), totals) in &of_keys {
        upsert(tx, table, account, key, *group, totals)?;
        accumulate(of_all.entry(*group).or_default(), totals);
    }
    of_all.iter().try_for_each(|(group, totals)| upsert(tx, table, &[0; 0], &"", *group, totals))
}

/// Returns the sums over the chosen requests.
pub(super) fn summarize(tx: &Connection, choice: &Choice) -> Result<Summary, StoreError> {
    let mut sums = Sums::default();
    let mut first = choice.since.map(|time| -(-time).div_euclid(HOUR));
    let end = choice.until.map(|time| time.div_euclid(HOUR));
    let within_an_hour = first.zip(end).is_some_and(|(first, end)| first >= end);
    // A key that we do not know has no account, and only the log can find it.
    let unknown_key = choice.key.is_some() && choice.account.is_none();
    if within_an_hour || unknown_key || !choice.terms.iter().all(terms::is_summed) {
        add_log(tx, choice, &mut sums)?;
        return finish(tx, sums);
    }
    if let Some(begun) = first.map(|first| first - 1)
        && choice.since > Some(begun * HOUR)
        && is_forgotten(tx, begun)?
    {
        // What is left of it in the log is not its part after `since`: it counts whole.
        first = Some(begun);
    }
    if let Some(first) = first.filter(|first| choice.since < Some(first * HOUR)) {
        add_log(tx, &Choice { until: Some(first * HOUR), ..choice.clone() }, &mut sums)?;
    }
    add_hours(tx, choice, first, end, &mut sums)?;
    if let Some(end) = end.filter(|end| choice.until > Some(end * HOUR)) {
        add_log(tx, &Choice { since: Some(end * HOUR), ..choice.clone() }, &mut sums)?;
    }
    finish(tx, sums)
}

/// Whether records of that hour were removed from the log.
fn is_forgotten(tx: &Connection, hour: i64) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM forgotten_sums WHERE account = x'' AND hour = ?)";
    Ok(tx.prepare_cached(sql)?.query_row([hour], |row| row.get(0))?)
}

fn add_log(tx: &Connection, choice: &Choice, sums: &mut Sums) -> Result<(), StoreError> {
    let condition = choice.condition(tx)?;
    let select = "SELECT model, started_at, status, 1, input, cached, output, reasoning, cost, \
        account, key FROM requests";
    add_rows(tx, select, &condition, By::All, sums)
}

fn add_hours(
    tx: &Connection,
    choice: &Choice,
    first: Option<i64>,
    end: Option<i64>,
    sums: &mut Sums,
) -> Result<(), StoreError> {
    let mut add = |whose: &dyn Fn(&mut Condition), by| {
        let mut condition = Condition::default();
        whose(&mut condition);
        condition.and("hour >= ?", first);
        condition.and("hour < ?", end);
        condition.and("key = ?", choice.key.clone());
        condition.and("model = ?", choice.model.clone());
        condition.and("status = ?", choice.status);
        terms::narrow(&mut condition, &choice.terms);
        let select = "SELECT model, hour * 3600000000, status, requests, input, cached, output, \
            reasoning, cost, account, key FROM request_sums";
        add_rows(tx, select, &condition, by, sums)
    };
    // one after another, so that the hours of each are found by the table's key
    let each =
        |condition: &mut Condition| condition.and_always("account IN (SELECT id FROM accounts)");
    match choice.account {
        Some(account) => add(&|condition| condition.and("account = ?", Some(account)), By::All),
        None if terms::ask_whose(&choice.terms) => add(&each, By::All),
        None => {
            add(&|condition| condition.and("account = ?", Some([0; 0])), By::Group)?;
            add(&each, By::Key)
        }
    }
}

fn add_rows(
    tx: &Connection,
    select: &str,
    condition: &Condition,
    by: By,
    sums: &mut Sums,
) -> Result<(), StoreError> {
    let mut select = tx.prepare_cached(&format!("{select} {}", condition.sql()))?;
    let mut rows = select.query(params_from_iter(condition.values()))?;
    while let Some(row) = rows.next()? {
        let totals = read(row)?;
        // Summed here and not in SQL, where a sum beyond 64 bits is an error.
        if by != By::Key {
            let model = match row.get_ref(0)? {
                ValueRef::Integer(_) => None,
                _ => row.get(0)?,
            };
            let day = row.get::<_, i64>(1)?.div_euclid(DAY);
            accumulate(sums.groups.entry((model, day)).or_default(), &totals);
        }
        if by != By::Group {
            accumulate(sums.keys.entry((row.get(9)?, row.get(10)?)).or_default(), &totals);
        }
    }
    Ok(())
}

fn finish(tx: &Connection, sums: Sums) -> Result<Summary, StoreError> {
    let mut totals = Totals::default();
    let mut by_model = HashMap::<_, Totals>::new();
    let mut by_day = BTreeMap::<_, Totals>::new();
    for ((model, day), part) in sums.groups {
        accumulate(&mut totals, &part);
        accumulate(by_model.entry(model).or_default(), &part);
        accumulate(by_day.entry(day).or_default(), &part);
    }
    let by_day = by_day.into_iter().map(|(day, totals)| Ok((day_text(day)?, totals)));
    let mut by_key = dearest_first(sums.keys);
    by_key.truncate(MOST_KEYS);
    let mut label = tx.prepare_cached("SELECT label FROM keys WHERE id = ?")?;
    let by_key = by_key.into_iter().map(|((account, key), totals)| {
        let label = label.query_row([&key], |row| row.get(0)).optional()?;
        Ok(KeySum { key, label, account, totals })
    });
    Ok(Summary {
        totals,
        by_model: dearest_first(by_model),
        by_day: by_day.collect::<Result<_, StoreError>>()?,
        by_key: by_key.collect::<Result<_, StoreError>>()?,
    })
}

fn dearest_first<K: Ord>(sums: HashMap<K, Totals>) -> Vec<(K, Totals)> {
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by(|(a, x), (b, y)| {
        (y.cost, y.requests).cmp(&(x.cost, x.requests)).then_with(|| a.cmp(b))
    });
    sums
}

fn upsert(
    tx: &Connection,
    table: Table,
    account: &dyn ToSql,
    key: &dyn ToSql,
    (hour, model, status): (i64, Option<&ModelId>, RequestStatus),
    totals: &Totals,
) -> Result<(), StoreError> {
    // A sum beyond 64 bits becomes a float, and the cast takes it back to the end of the range.
    macro_rules! add_to {
        ($table:literal) => {
            concat!(
                "INSERT INTO ",
                $table,
                " VALUES (?, ?, ?, ifnull(?, 0), ?, ?, ?, ?, ?, ?, ?) \
                ON CONFLICT DO UPDATE SET requests = requests + excluded.requests, \
                input = CAST(input + excluded.input AS INTEGER), \
                cached = CAST(cached + excluded.cached AS INTEGER), \
                output = CAST(output + excluded.output AS INTEGER), \
                reasoning = CAST(reasoning + excluded.reasoning AS INTEGER), \
                cost = CAST(cost + excluded.cost AS INTEGER)"
            )
        };
    }
    let sql = match table {
        Table::All => add_to!("request_sums"),
        Table::Forgotten => add_to!("forgotten_sums"),
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

fn read(row: &Row<'_>) -> rusqlite::Result<Totals> {
    let status: RequestStatus = row.get(2)?;
    let requests = row.get::<_, Count>(3)?.0;
    let count =
        |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<Count>>(column)?.map_or(0, |n| n.0));
    Ok(Totals {
        requests,
        errors: if status.is_error() { requests } else { 0 },
        input: count(4)?,
        cached: count(5)?,
        output: count(6)?,
        reasoning: count(7)?,
        cost: row.get::<_, Option<Nanos>>(8)?.unwrap_or_default(),
    })
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

fn accumulate(sum: &mut Totals, part: &Totals) {
    sum.requests = sum.requests.saturating_add(part.requests);
    sum.errors = sum.errors.saturating_add(part.errors);
    sum.input = sum.input.saturating_add(part.input);
    sum.cached = sum.cached.saturating_add(part.cached);
    sum.output = sum.output.saturating_add(part.output);
    sum.reasoning = sum.reasoning.saturating_add(part.reasoning);
    sum.cost = sum.cost.saturating_add(part.cost);
}

fn day_text(day: i64) -> Result<String, StoreError> {
    let start = Timestamp::from_microsecond(day.saturating_mul(DAY))
        .map_err(|error| StoreError::Unavailable(error.into()))?;
    Ok(start.strftime("%F").to_string())
}
