//! Computes consumption from the sums by hour and day.

use std::collections::HashMap;
use std::hash::Hash;

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use super::SqliteStore;
use super::codec::{ReadColumn, parameters};
use crate::codec::Count;
use crate::summary::DAY;
use crate::{ConsumptionTotals, StoreError};
use domain::consumption::Consumption;
use domain::id::{AccountId, KeyId, ModelId};
use domain::money::Nanos;

#[async_trait]
impl ConsumptionTotals for SqliteStore {
    async fn consumption(&self, since: Timestamp) -> Result<Consumption, StoreError> {
        let day = since.as_microsecond().div_euclid(DAY);
        self.read(move |tx| {
            let mut consumption = tokens_of_keys(tx, day)?;
            consumption.models = tokens_of_models(tx, day)?;
            consumption.spent = spent(tx)?;
            Ok(consumption)
        })
        .await
    }
}

/// Returns the tokens of accounts and keys since `day`.
fn tokens_of_keys(tx: &Connection, day: i64) -> Result<Consumption, StoreError> {
    let origins = origins(tx, "monthly_tokens IS NOT NULL")?;
    let mut select =
        tx.prepare("SELECT account, key, input, output FROM key_days WHERE day >= ?")?;
    let mut rows = select.query(parameters![day])?;
    let (mut accounts, mut keys) = (HashMap::new(), HashMap::new());
    while let Some(row) = rows.next()? {
        let tokens = tokens(row, 2)?;
        add(&mut accounts, row.column::<AccountId>(0)?, tokens);
        if !origins.is_empty()
            && let Some(origin) = origins.get(&row.column::<KeyId>(1)?)
        {
            add(&mut keys, origin.clone(), tokens);
        }
    }
    Ok(Consumption {
        accounts: accounts.into_iter().collect(),
        keys: keys.into_iter().collect(),
        ..Consumption::default()
    })
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

/// Returns the charges of keys with a cap.
fn spent(tx: &Connection) -> Result<Vec<(KeyId, Nanos)>, StoreError> {
    let origins = origins(tx, "spend_cap IS NOT NULL")?;
    if origins.is_empty() {
        return Ok(Vec::new());
    }
    let mut select = tx.prepare("SELECT key, cost FROM key_days")?;
    let mut rows = select.query([])?;
    let mut spent = HashMap::<_, Nanos>::new();
    while let Some(row) = rows.next()? {
        if let Some(origin) = origins.get(&row.column::<KeyId>(0)?) {
            let sum = spent.entry(origin.clone()).or_default();
            *sum = sum.saturating_add(row.column(1)?);
        }
    }
    Ok(spent.into_iter().collect())
}

/// Returns the tokens of a row whose input and output begin at `column`. They are added here and
/// not in SQL, where an overflow is an error.
fn tokens(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let count = |column| row.column::<Count>(column);
    Ok(count(column)?.0.saturating_add(count(column + 1)?.0))
}

/// Returns the origins of the keys that satisfy `condition`.
fn origins(tx: &Connection, condition: &str) -> Result<HashMap<KeyId, KeyId>, StoreError> {
    let mut select = tx.prepare(&format!("SELECT id, origin FROM keys WHERE {condition}"))?;
    let origins = select.query_map([], |row| Ok((row.column(0)?, row.column(1)?)))?;
    Ok(origins.collect::<Result<_, _>>()?)
}

fn add<K: Eq + Hash>(sums: &mut HashMap<K, u64>, id: K, tokens: u64) {
    let sum = sums.entry(id).or_default();
    *sum = sum.saturating_add(tokens);
}
