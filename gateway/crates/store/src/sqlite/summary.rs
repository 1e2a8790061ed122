//! Sums over requests, from the sums by hour and, for partial hours at the ends, from the log.
//!
//! Sums by key over all accounts come from the sums by day and, for partial days, by hour: a month
//! of hours has too many groups of all keys.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};

use super::codec::{Parameter, ReadColumn, parameters};
use super::filter::Selection;
use super::spans::EVERYTHING;
use crate::codec::Count;
use crate::condition::Condition;
use crate::predicates;
use crate::summary::{GroupedTotals, SplitRange, TimeRange, accumulate, partial_hour};
use crate::{StoreError, Summary, TimeUnit, Totals};
use domain::id::AccountId;
use domain::money::Nanos;
use domain::record::RequestStatus;

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
    /// By model and unit of time, and by key.
    All,
    /// By model and unit of time.
    Group,
    /// By key.
    Key,
}

/// Returns the sums over the selected requests.
pub(super) fn summarize(
    tx: &Connection,
    selection: &Selection,
    by: TimeUnit,
) -> Result<Summary, StoreError> {
    let mut sums = GroupedTotals::new(by);
    let is_empty =
        selection.since.zip(selection.until).is_some_and(|(since, until)| since >= until);
    if is_empty || selection.matches_nothing() {
        return finish(tx, sums);
    }
    if by == TimeUnit::Minute || !selection.terms.iter().all(predicates::is_summed) {
        add_log(tx, selection, &mut sums)?;
        return finish(tx, sums);
    }
    let has_deleted =
        |time| partial_hour(time).map_or(Ok(false), |hour| has_deleted_records(tx, hour));
    let has_deleted = [has_deleted(selection.since)?, has_deleted(selection.until)?];
    let split = SplitRange::new(selection.since, selection.until, has_deleted);
    for (since, until) in split.log {
        add_log(tx, &Selection { since, until, ..selection.clone() }, &mut sums)?;
    }
    if let Some(hours) = split.hours {
        add_hours(tx, selection, hours, &mut sums)?;
    }
    finish(tx, sums)
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
    // The sums by day cannot be divided into hours.
    let can_use_days = by == Grouping::Key || sums.by == TimeUnit::Day;
    let parts = hours.split_days().filter(|_| can_use_days);
    let mut add = |hours| add_hours_of(tx, selection, AccountScope::Each, hours, by, sums);
    let Some((before, days, after)) = parts else { return add(hours) };
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
            let time = row.column::<i64>(1)?.div_euclid(sums.by.length());
            accumulate(sums.groups.entry((model, time)).or_default(), &totals);
        }
        if by != Grouping::Group {
            accumulate(sums.keys.entry((row.column(9)?, row.column(10)?)).or_default(), &totals);
        }
    }
    Ok(())
}

fn finish(tx: &Connection, sums: GroupedTotals) -> Result<Summary, StoreError> {
    let mut summary = sums.into_summary()?;
    let mut label = tx.prepare_cached("SELECT label FROM keys WHERE id = ?")?;
    for sum in &mut summary.by_key {
        sum.label = label.query_row(parameters![sum.key], |row| row.column(0)).optional()?;
    }
    Ok(summary)
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
