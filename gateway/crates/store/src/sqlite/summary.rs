//! Sums over requests, from the sums by hour and, for partial hours at the ends, from the log.
//!
//! Sums by key over all accounts come from the sums by day and, for partial days, by hour: a month
//! of hours has too many groups of all keys.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;
use jiff::Timestamp;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};

use super::codec::{Count, Parameter, ReadColumn, parameters};
use super::condition::Condition;
use super::filter::{DAY, HOUR, Selection};
use super::predicates;
use super::spans::EVERYTHING;
use super::sums::accumulate;
use crate::{KeySum, MAX_LISTED_KEYS, StoreError, Summary, Totals};
use domain::id::{AccountId, KeyId, ModelId};
use domain::money::Nanos;
use domain::record::RequestStatus;

/// Sums by model and day, and by key.
#[derive(Default)]
struct GroupedTotals {
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
pub(super) fn summarize(tx: &Connection, selection: &Selection) -> Result<Summary, StoreError> {
    let mut sums = GroupedTotals::default();
    let is_empty =
        selection.since.zip(selection.until).is_some_and(|(since, until)| since >= until);
    if is_empty || selection.matches_nothing() {
        return finish(tx, sums);
    }
    if !selection.terms.iter().all(predicates::is_summed) {
        add_log(tx, selection, &mut sums)?;
        return finish(tx, sums);
    }
    let mut first = selection.since.map(|time| -(-time).div_euclid(HOUR));
    let mut end = selection.until.map(|time| time.div_euclid(HOUR));
    // The log no longer has all requests of an hour from which records were deleted, so a part of
    // that hour counts as the whole.
    if let Some(hour) = partial_hour(selection.since)
        && has_deleted_records(tx, hour)?
    {
        first = Some(hour);
    }
    if let Some(hour) = partial_hour(selection.until)
        && has_deleted_records(tx, hour)?
    {
        end = Some(hour + 1);
    }
    if first.zip(end).is_some_and(|(first, end)| first >= end) {
        // There is no whole hour.
        add_log(tx, selection, &mut sums)?;
        return finish(tx, sums);
    }
    if let Some(first) = first.filter(|first| selection.since < Some(first * HOUR)) {
        add_log(tx, &Selection { until: Some(first * HOUR), ..selection.clone() }, &mut sums)?;
    }
    add_hours(tx, selection, TimeRange { first, end }, &mut sums)?;
    if let Some(end) = end.filter(|end| selection.until > Some(end * HOUR)) {
        add_log(tx, &Selection { since: Some(end * HOUR), ..selection.clone() }, &mut sums)?;
    }
    finish(tx, sums)
}

/// Returns the hour that contains `time`, unless `time` is its start.
fn partial_hour(time: Option<i64>) -> Option<i64> {
    time.filter(|time| time.rem_euclid(HOUR) != 0).map(|time| time.div_euclid(HOUR))
}

/// Returns whether records of that hour were deleted from the log.
fn has_deleted_records(tx: &Connection, hour: i64) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM forgotten_sums WHERE account = x'' AND hour = ?)";
    Ok(tx.prepare_cached(sql)?.query_row(parameters![hour], |row| row.column(0))?)
}

fn add_log(
    tx: &Connection,
    selection: &Selection,
    sums: &mut GroupedTotals,
) -> Result<(), StoreError> {
    let condition = selection.condition(tx, EVERYTHING)?;
    let select = format!(
        "SELECT model, started_at, status, ifnull(count, 1), input, cached, output, reasoning, cost, \
            account, key \
            FROM {}",
        selection.source()
    );
    add_rows(tx, &select, &condition, Grouping::All, sums)
}

fn add_hours(
    tx: &Connection,
    selection: &Selection,
    hours: TimeRange,
    sums: &mut GroupedTotals,
) -> Result<(), StoreError> {
    match selection.account {
        Some(account) => {
            add_hours_of(tx, selection, AccountScope::One(account), hours, Grouping::All, sums)
        }
        None if predicates::concern_owner(&selection.terms) => {
            add_keys(tx, selection, hours, Grouping::All, sums)
        }
        None => {
            add_hours_of(tx, selection, AccountScope::All, hours, Grouping::Group, sums)?;
            add_keys(tx, selection, hours, Grouping::Key, sums)
        }
    }
}

/// Adds up the sums of the keys of all accounts.
fn add_keys(
    tx: &Connection,
    selection: &Selection,
    hours: TimeRange,
    by: Grouping,
    sums: &mut GroupedTotals,
) -> Result<(), StoreError> {
    let mut add = |hours| add_hours_of(tx, selection, AccountScope::Each, hours, by, sums);
    let Some((before, days, after)) = hours.split_days() else { return add(hours) };
    before.map_or(Ok(()), &mut add)?;
    after.map_or(Ok(()), &mut add)?;
    let mut condition = Condition::default();
    condition.and_if_some("day >= ?", days.first);
    condition.and_if_some("day < ?", days.end);
    condition.and_if_some("model = ?", selection.model.clone());
    condition.and_if_some("status = ?", selection.status);
    predicates::narrow(&mut condition, &selection.terms);
    let select = "SELECT model, day * 86400000000, status, requests, input, cached, output, \
        reasoning, cost, account, key FROM key_days";
    add_rows(tx, select, &condition, by, sums)
}

fn add_hours_of(
    tx: &Connection,
    selection: &Selection,
    scope: AccountScope,
    hours: TimeRange,
    by: Grouping,
    sums: &mut GroupedTotals,
) -> Result<(), StoreError> {
    let mut condition = Condition::default();
    match scope {
        AccountScope::One(account) => condition.and_if_some("account = ?", Some(account)),
        AccountScope::All => condition.and("account = x''"),
        // One account after another, so that the table's key finds the hours of each.
        AccountScope::Each => condition.and("account IN (SELECT id FROM accounts)"),
    }
    condition.and_if_some("hour >= ?", hours.first);
    condition.and_if_some("hour < ?", hours.end);
    condition.and_if_some("key = ?", selection.key.clone());
    condition.and_if_some("model = ?", selection.model.clone());
    condition.and_if_some("status = ?", selection.status);
    predicates::narrow(&mut condition, &selection.terms);
    let select = "SELECT model, hour * 3600000000, status, requests, input, cached, output, \
        reasoning, cost, account, key FROM request_sums";
    add_rows(tx, select, &condition, by, sums)
}

fn add_rows(
    tx: &Connection,
    select: &str,
    condition: &Condition,
    by: Grouping,
    sums: &mut GroupedTotals,
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

fn finish(tx: &Connection, sums: GroupedTotals) -> Result<Summary, StoreError> {
    let mut totals = Totals::default();
    let mut by_model = HashMap::<_, Totals>::new();
    let mut by_day = BTreeMap::<_, Totals>::new();
    for ((model, day), part) in sums.groups {
        accumulate(&mut totals, &part);
        accumulate(by_model.entry(model).or_default(), &part);
        accumulate(by_day.entry(day).or_default(), &part);
    }
    let by_day = by_day.into_iter().map(|(day, totals)| Ok((day_text(day)?, totals)));
    let mut by_key = most_expensive_first(sums.keys);
    by_key.truncate(MAX_LISTED_KEYS);
    let mut label = tx.prepare_cached("SELECT label FROM keys WHERE id = ?")?;
    let by_key = by_key.into_iter().map(|((account, key), totals)| {
        let label = label.query_row(parameters![&key], |row| row.column(0)).optional()?;
        Ok(KeySum { key, label, account, totals })
    });
    Ok(Summary {
        totals,
        by_model: most_expensive_first(by_model),
        by_day: by_day.collect::<Result<_, StoreError>>()?,
        by_key: by_key.collect::<Result<_, StoreError>>()?,
    })
}

fn most_expensive_first<K: Ord, S>(sums: HashMap<K, Totals, S>) -> Vec<(K, Totals)> {
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

// === impl TimeRange ===

impl TimeRange {
    /// Splits a range of hours into those before the first whole day, the whole days, and the rest;
    /// `None` without a whole day.
    fn split_days(self) -> Option<(Option<Self>, Self, Option<Self>)> {
        let first = self.first.map(|hour| -(-hour).div_euclid(24));
        let end = self.end.map(|hour| hour.div_euclid(24));
        if first.zip(end).is_some_and(|(first, end)| first >= end) {
            return None;
        }
        let (days_start, days_end) = (first.map(|day| day * 24), end.map(|day| day * 24));
        let before =
            (self.first < days_start).then_some(Self { first: self.first, end: days_start });
        let after = (days_end < self.end).then_some(Self { first: days_end, end: self.end });
        Some((before, Self { first, end }, after))
    }
}
