//! What was consumed so far of what is limited, from the sums by hour.

use std::collections::HashMap;
use std::hash::Hash;

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::SqliteStore;
use super::codec::Count;
use super::filter::HOUR;
use crate::domain::consumption::Consumption;
use crate::domain::id::{AccountId, KeyId, ModelId};
use crate::domain::money::Nanos;
use crate::store::{Consumed, StoreError};

#[async_trait]
impl Consumed for SqliteStore {
    async fn consumption(&self, since: Timestamp) -> Result<Consumption, StoreError> {
        let hour = since.as_microsecond().div_euclid(HOUR);
        self.read(move |tx| {
            let mut consumption = tokens(tx, hour)?;
            consumption.spent = spent(tx)?;
            Ok(consumption)
        })
        .await
    }
}

/// The tokens since `hour`. Account by account, because hours are in order only within one.
fn tokens(tx: &Connection, hour: i64) -> Result<Consumption, StoreError> {
    let origins = origins(tx, "monthly_tokens IS NOT NULL")?;
    let mut select = tx.prepare(
        "SELECT sums.account, sums.key, sums.model, sums.input, sums.output FROM accounts \
            CROSS JOIN request_sums AS sums ON sums.account = accounts.id AND sums.hour >= ?",
    )?;
    let mut rows = select.query([hour])?;
    let (mut accounts, mut models, mut keys) = (HashMap::new(), HashMap::new(), HashMap::new());
    while let Some(row) = rows.next()? {
        // Summed here and not in SQL, where a sum beyond 64 bits is an error.
        let tokens = row.get::<_, Count>(3)?.0.saturating_add(row.get::<_, Count>(4)?.0);
        add(&mut accounts, row.get::<_, AccountId>(0)?, tokens);
        if !origins.is_empty()
            && let Some(origin) = origins.get(&row.get::<_, KeyId>(1)?)
        {
            add(&mut keys, origin.clone(), tokens);
        }
        if !matches!(row.get_ref(2)?, ValueRef::Integer(_)) {
            add(&mut models, row.get::<_, ModelId>(2)?, tokens);
        }
    }
    Ok(Consumption {
        accounts: accounts.into_iter().collect(),
        models: models.into_iter().collect(),
        keys: keys.into_iter().collect(),
        spent: Vec::new(),
    })
}

/// What keys with a cap were charged.
fn spent(tx: &Connection) -> Result<Vec<(KeyId, Nanos)>, StoreError> {
    let origins = origins(tx, "spend_cap IS NOT NULL")?;
    let mut select = tx.prepare(
        "SELECT key, cost FROM request_sums \
            WHERE account IN (SELECT account FROM keys WHERE spend_cap IS NOT NULL)",
    )?;
    let mut rows = select.query([])?;
    let mut spent = HashMap::<_, Nanos>::new();
    while let Some(row) = rows.next()? {
        if let Some(origin) = origins.get(&row.get::<_, KeyId>(0)?) {
            let sum = spent.entry(origin.clone()).or_default();
            *sum = sum.saturating_add(row.get(1)?);
        }
    }
    Ok(spent.into_iter().collect())
}

/// The origins of the keys for which `condition` holds.
fn origins(tx: &Connection, condition: &str) -> Result<HashMap<KeyId, KeyId>, StoreError> {
    let mut select = tx.prepare(&format!("SELECT id, origin FROM keys WHERE {condition}"))?;
    let origins = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(origins.collect::<Result<_, _>>()?)
}

fn add<K: Eq + Hash>(sums: &mut HashMap<K, u64>, id: K, tokens: u64) {
    let sum = sums.entry(id).or_default();
    *sum = sum.saturating_add(tokens);
}
