//! Verification of saturated sums.
//!
//! A stored sum saturates at 2⁶³ − 1, because older versions stored any count that an upstream
//! reported. A saturated sum does not equal the sum of its parts, so their fingerprints differ. It
//! is correct if its parts add up to at least 2⁶³ − 1, which is computed exactly in 128 bits.

use std::collections::HashMap;

use rusqlite::Connection;

use super::codec::{ReadColumn, parameters};
use super::fingerprint::{NUMBERS, Scope, group, number};
use crate::StoreError;

/// A sum: its hour or day, the hash of its group, and its column.
type Key = (i64, u64, usize);

/// The saturated sums of a database, each with the total of its parts so far.
#[derive(Default)]
pub(super) struct SaturatedSums {
    hours: HashMap<Key, i128>,
    days: HashMap<Key, i128>,
}

impl SaturatedSums {
    /// Finds the saturated sums.
    pub(super) fn find(tx: &Connection) -> Result<Self, StoreError> {
        let columns = "status, requests, input, cached, output, reasoning, cost";
        let hours = format!("SELECT account, hour, key, model, {columns} FROM request_sums");
        let days = format!("SELECT account, day, key, model, {columns} FROM key_days");
        Ok(Self { hours: select(tx, &hours)?, days: select(tx, &days)? })
    }

    /// Adds a part of an hour's sum. Returns `false` if that sum is not saturated.
    pub(super) fn add_to_hour(&mut self, key: Key, part: i64) -> bool {
        add(&mut self.hours, key, part)
    }

    /// Adds a part of a day's sum. Returns `false` if that sum is not saturated.
    pub(super) fn add_to_day(&mut self, key: Key, part: i64) -> bool {
        add(&mut self.days, key, part)
    }

    /// Returns whether an hour's sum is saturated.
    pub(super) fn has_hour(&self, key: Key) -> bool {
        self.hours.contains_key(&key)
    }

    /// Returns whether a day's sum is saturated.
    pub(super) fn has_day(&self, key: Key) -> bool {
        self.days.contains_key(&key)
    }

    /// Returns the hours whose sums exceed their parts.
    pub(super) fn wrong_hours(&self) -> impl Iterator<Item = i64> {
        wrong(&self.hours)
    }

    /// Returns the days whose sums exceed their parts.
    pub(super) fn wrong_days(&self) -> impl Iterator<Item = i64> {
        wrong(&self.days)
    }
}

fn select(tx: &Connection, rows: &str) -> Result<HashMap<Key, i128>, StoreError> {
    let sql = format!("{rows} WHERE ?1 IN (requests, input, cached, output, reasoning, cost)");
    let mut select = tx.prepare(&sql)?;
    let mut rows = select.query(parameters![i64::MAX])?;
    let mut found = HashMap::new();
    while let Some(row) = rows.next()? {
        let (unit, group) = (row.column(1)?, group(row, Scope::Key)?);
        for column in NUMBERS {
            if number(row, column)? == i64::MAX {
                found.insert((unit, group, column), 0);
            }
        }
    }
    Ok(found)
}

fn add(sums: &mut HashMap<Key, i128>, key: Key, part: i64) -> bool {
    let Some(sum) = sums.get_mut(&key) else { return false };
    *sum = sum.saturating_add(part.into());
    true
}

fn wrong(sums: &HashMap<Key, i128>) -> impl Iterator<Item = i64> {
    let wrong = sums.iter().filter(|(_, sum)| **sum < i128::from(i64::MAX));
    wrong.map(|((unit, ..), _)| *unit)
}
