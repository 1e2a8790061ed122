//! Computes consumption: that of accounts and keys from what each key has used, that of models from
//! the sums by hour over all accounts.

use std::collections::HashMap;
use std::hash::Hash;

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use super::SqliteStore;
use super::codec::{ReadColumn, parameters};
use crate::codec::Count;
use crate::summary::day_of;
use crate::{ConsumptionTotals, StoreError};
use domain::consumption::Consumption;
use domain::id::{AccountId, KeyId, ModelId};
use domain::money::Nanos;
use domain::month::month_start;

#[async_trait]
impl ConsumptionTotals for SqliteStore {
    async fn consumption(&self, at: Timestamp) -> Result<Consumption, StoreError> {
        let month = day_of(month_start(at));
        self.read(move |tx| {
            let mut consumption = of_keys(tx, month)?;
            consumption.models = tokens_of_models(tx, month)?;
            Ok(consumption)
        })
        .await
    }
}

/// Returns the tokens of accounts and keys since `month`, and the charges of keys.
fn of_keys(tx: &Connection, month: i64) -> Result<Consumption, StoreError> {
    let sql = "SELECT account, origin, used_tokens, used_month, id FROM keys \
        WHERE used_month >= ?";
    let mut select = tx.prepare(sql)?;
    let mut rows = select.query(parameters![month])?;
    let (mut accounts, mut keys) = (HashMap::new(), HashMap::new());
    while let Some(row) = rows.next()? {
        // The row of the key has only the tokens of the last month, which a clock that was ahead for a
        // moment began too early.
        let tokens = if row.column::<i64>(3)? > month {
            tokens_by_day(tx, &row.column(4)?, month)?
        } else {
            row.column::<Count>(2)?.0
        };
        add(&mut accounts, row.column::<AccountId>(0)?, tokens);
        add(&mut keys, row.column::<KeyId>(1)?, tokens);
    }
    let mut select = tx.prepare("SELECT origin, spent FROM keys WHERE spent <> 0")?;
    let mut rows = select.query([])?;
    let mut spent = HashMap::<_, Nanos>::new();
    while let Some(row) = rows.next()? {
        let sum = spent.entry(row.column::<KeyId>(0)?).or_default();
        *sum = sum.saturating_add(row.column(1)?);
    }
    Ok(Consumption {
        accounts: accounts.into_iter().collect(),
        keys: keys.into_iter().collect(),
        spent: spent.into_iter().collect(),
        models: Vec::new(),
    })
}

/// Returns the tokens of a key since `day`, from its sums by day.
fn tokens_by_day(tx: &Connection, key: &KeyId, day: i64) -> Result<u64, StoreError> {
    let sql = "SELECT input, output FROM key_days WHERE key = ? AND day >= ?";
    let mut select = tx.prepare_cached(sql)?;
    let mut rows = select.query(parameters![key, day])?;
    let mut sum = 0_u64;
    while let Some(row) = rows.next()? {
        sum = sum.saturating_add(tokens(row, 0)?);
    }
    Ok(sum)
}

/// Returns the tokens of models since `day`, from the sums over all accounts.
fn tokens_of_models(tx: &Connection, day: i64) -> Result<Vec<(ModelId, u64)>, StoreError> {
    let mut select = tx.prepare(
        "SELECT model, input, output FROM request_sums WHERE account = x'' AND hour >= ? * 24",
    )?;
    let mut rows = select.query(parameters![day])?;
    let mut models = HashMap::new();
    while let Some(row) = rows.next()? {
        if !matches!(row.get_ref(0)?, ValueRef::Integer(_)) {
            add(&mut models, row.column::<ModelId>(0)?, tokens(row, 1)?);
        }
    }
    Ok(models.into_iter().collect())
}

/// Returns the tokens of a row whose input and output begin at `column`. They are added here and
/// not in SQL, where an overflow is an error.
fn tokens(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let count = |column| row.column::<Count>(column);
    Ok(count(column)?.0.saturating_add(count(column + 1)?.0))
}

fn add<K: Eq + Hash>(sums: &mut HashMap<K, u64>, id: K, tokens: u64) {
    let sum = sums.entry(id).or_default();
    *sum = sum.saturating_add(tokens);
}
