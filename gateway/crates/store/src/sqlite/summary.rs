//! Sums over requests, from the sums by hour and, for partial hours at the ends, from the log.
//!
//! Sums by key over all accounts come from the sums by day and, for partial days, by hour: a month of hours
//! has too many groups of all keys.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;
use jiff::Timestamp;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};

use super::codec::{Count, Parameter, ReadColumn, parameters};
use super::condition::Condition;
use super::filter::{Choice, DAY, HOUR};
use super::runs::EVERYTHING;
use super::sums::accumulate;
use super::terms;
use crate::{KeySum, MAX_LISTED_KEYS, StoreError, Summary, Totals};
use domain::id::{AccountId, KeyId, ModelId};
use domain::money::Nanos;
use domain::record::RequestStatus;

/// Sums by model and day, and by key.
#[derive(Default)]
struct Sums {
    groups: HashMap<(Option<ModelId>, i64), Totals, RandomState>,
    keys: HashMap<(AccountId, KeyId), Totals, RandomState>,
}

/// A range of hours or days; `None` for an open end.
#[derive(Clone, Copy)]
struct TimeRange {
    first: Option<i64>,
    end: Option<i64>,
}

/// The accounts whose sums by hour are read.
#[derive(Clone, Copy)]
enum AccountScope {
    /// One account.
    One(AccountId),
    /// The sums over all accounts.
    All,
    /// Each account.
    Each,
}

/// The grouping of the result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Grouping {
    /// By model and day, and by key.
    All,
    /// By model and day.
    Group,
    /// By key.
    Key,
}

/// Returns the sums over the selected requests.
pub(super) fn summarize(tx: &Connection, choice: &Choice) -> Result<Summary, StoreError> {
    let mut sums = Sums::default();
    if choice.matches_nothing() {
        return finish(tx, sums);
    }
    let mut first = choice.since.map(|time| -(-time).div_euclid(HOUR));
    let end = choice.until.map(|time| time.div_euclid(HOUR));
    let within_an_hour = first.zip(end).is_some_and(|(first, end)| first >= end);
    if within_an_hour || !choice.terms.iter().all(terms::is_summed) {
        add_log(tx, choice, &mut sums)?;
        return finish(tx, sums);
    }
    if let Some(begun) = first.map(|first| first - 1)
        && choice.since > Some(begun * HOUR)
        && is_forgotten(tx, begun)?
    {
        // The rest of that hour in the log is not its part after `since`, so the hour counts whole.
        first = Some(begun);
    }
    if let Some(first) = first.filter(|first| choice.since < Some(first * HOUR)) {
        add_log(tx, &Choice { until: Some(first * HOUR), ..choice.clone() }, &mut sums)?;
    }
    add_hours(tx, choice, TimeRange { first, end }, &mut sums)?;
    if let Some(end) = end.filter(|end| choice.until > Some(end * HOUR)) {
        add_log(tx, &Choice { since: Some(end * HOUR), ..choice.clone() }, &mut sums)?;
    }
    finish(tx, sums)
}

/// Returns whether records of that hour were deleted from the log.
fn is_forgotten(tx: &Connection, hour: i64) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM forgotten_sums WHERE account = x'' AND hour = ?)";
    Ok(tx.prepare_cached(sql)?.query_row(parameters![hour], |row| row.column(0))?)
}

fn add_log(tx: &Connection, choice: &Choice, sums: &mut Sums) -> Result<(), StoreError> {
    let condition = choice.condition(tx, EVERYTHING)?;
    let select = format!(
        "SELECT model, started_at, status, ifnull(count, 1), input, cached, output, reasoning, cost, \
            account, key \
            FROM {}",
        choice.source()
    );
    add_rows(tx, &select, &condition, Grouping::All, sums)
}

fn add_hours(
    tx: &Connection,
    choice: &Choice,
    hours: TimeRange,
    sums: &mut Sums,
) -> Result<(), StoreError> {
    match choice.account {
        Some(account) => {
            add_hours_of(tx, choice, AccountScope::One(account), hours, Grouping::All, sums)
        }
        None if terms::ask_whose(&choice.terms) => add_keys(tx, choice, hours, Grouping::All, sums),
        None => {
            add_hours_of(tx, choice, AccountScope::All, hours, Grouping::Group, sums)?;
            add_keys(tx, choice, hours, Grouping::Key, sums)
        }
    }
}

/// Adds up the sums of the keys of all accounts.
fn add_keys(
    tx: &Connection,
    choice: &Choice,
    hours: TimeRange,
    by: Grouping,
    sums: &mut Sums,
) -> Result<(), StoreError> {
    let mut add = |hours| add_hours_of(tx, choice, AccountScope::Each, hours, by, sums);
    let Some((before, days, after)) = hours.split_days() else { return add(hours) };
    before.map_or(Ok(()), &mut add)?;
    after.map_or(Ok(()), &mut add)?;
    let mut condition = Condition::default();
    condition.and("day >= ?", days.first);
    condition.and("day < ?", days.end);
    condition.and("model = ?", choice.model.clone());
    condition.and("status = ?", choice.status);
    terms::narrow(&mut condition, &choice.terms);
    let select = "SELECT model, day * 86400000000, status, requests, input, cached, output, \
        reasoning, cost, account, key FROM key_days";
    add_rows(tx, select, &condition, by, sums)
}

fn add_hours_of(
    tx: &Connection,
    choice: &Choice,
    whose: AccountScope,
    hours: TimeRange,
    by: Grouping,
    sums: &mut Sums,
) -> Result<(), StoreError> {
    let mut condition = Condition::default();
    match whose {
        AccountScope::One(account) => condition.and("account = ?", Some(account)),
        AccountScope::All => condition.and_always("account = x''"),
        // One account after another, so that the table's key finds the hours of each.
        AccountScope::Each => condition.and_always("account IN (SELECT id FROM accounts)"),
    }
    condition.and("hour >= ?", hours.first);
    condition.and("hour < ?", hours.end);
    condition.and("key = ?", choice.key.clone());
    condition.and("model = ?", choice.model.clone());
    condition.and("status = ?", choice.status);
    terms::narrow(&mut condition, &choice.terms);
    let select = "SELECT model, hour * 3600000000, status, requests, input, cached, output, \
        reasoning, cost, account, key FROM request_sums";
    add_rows(tx, select, &condition, by, sums)
}

fn add_rows(
    tx: &Connection,
    select: &str,
    condition: &Condition,
    by: Grouping,
    sums: &mut Sums,
) -> Result<(), StoreError> {
    let mut select = tx.prepare_cached(&format!("{select} {}", condition.sql()))?;
    let mut rows = select.query(params_from_iter(condition.values().map(Parameter)))?;
    while let Some(row) = rows.next()? {
        let totals = read(row)?;
        // Added here and not in SQL, where an overflow is an error.
        if by != Grouping::Key {
            let model = match row.get_ref(0)? {
                ValueRef::Integer(_) => None,
                _ => row.column(0)?,
            };
            let day = row.column::<i64>(1)?.div_euclid(DAY);
            accumulate(sums.groups.entry((model, day)).or_default(), &totals);
        }
        if by != Grouping::Group {
            accumulate(sums.keys.entry((row.column(9)?, row.column(10)?)).or_default(), &totals);
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
    by_key.truncate(MAX_LISTED_KEYS);
    let mut label = tx.prepare_cached("SELECT label FROM keys WHERE id = ?")?;
    let by_key = by_key.into_iter().map(|((account, key), totals)| {
        let label = label.query_row(parameters![&key], |row| row.column(0)).optional()?;
        Ok(KeySum { key, label, account, totals })
    });
    Ok(Summary {
        totals,
        by_model: dearest_first(by_model),
        by_day: by_day.collect::<Result<_, StoreError>>()?,
        by_key: by_key.collect::<Result<_, StoreError>>()?,
    })
}

fn dearest_first<K: Ord, S>(sums: HashMap<K, Totals, S>) -> Vec<(K, Totals)> {
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by(|(a, x), (b, y)| {
        (y.cost, y.requests).cmp(&(x.cost, x.requests)).then_with(|| a.cmp(b))
    });
    sums
}

fn read(row: &Row<'_>) -> rusqlite::Result<Totals> {
    let status: RequestStatus = row.column(2)?;
    let requests = row.column::<Count>(3)?.0;
    let count =
        |column| Ok::<_, rusqlite::Error>(row.column::<Option<Count>>(column)?.map_or(0, |n| n.0));
    Ok(Totals {
        requests,
        errors: if status.is_error() { requests } else { 0 },
        input: count(4)?,
        cached: count(5)?,
        output: count(6)?,
        reasoning: count(7)?,
        cost: row.column::<Option<Nanos>>(8)?.unwrap_or_default(),
    })
}

fn day_text(day: i64) -> Result<String, StoreError> {
    let start = Timestamp::from_microsecond(day.saturating_mul(DAY))
        .map_err(|error| StoreError::Unavailable(error.into()))?;
    Ok(start.strftime("%F").to_string())
}

// === impl Stretch ===

impl TimeRange {
    /// Splits a range of hours into those before the first whole day, the whole days, and the rest; `None`
    /// without a whole day.
    fn split_days(self) -> Option<(Option<Self>, Self, Option<Self>)> {
        let first = self.first.map(|hour| -(-hour).div_euclid(24));
        let end = self.end.map(|hour| hour.div_euclid(24));
        if first.zip(end).is_some_and(|(first, end)| first >= end) {
            return None;
        }
        let (begun, ended) = (first.map(|day| day * 24), end.map(|day| day * 24));
        let before = (self.first < begun).then_some(Self { first: self.first, end: begun });
        let after = (ended < self.end).then_some(Self { first: ended, end: self.end });
        Some((before, Self { first, end }, after))
    }
}
