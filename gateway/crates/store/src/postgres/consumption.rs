//! Computes consumption from the sums by day.

use async_trait::async_trait;
use jiff::Timestamp;

use super::PostgresStore;
use super::codec::{ReadColumn, parameters};
use super::transaction::Transaction;
use crate::codec::{Count, Decode};
use crate::summary::day_of;
use crate::{ConsumptionTotals, StoreError};
use domain::consumption::Consumption;
use domain::month::month_start;

#[async_trait]
impl ConsumptionTotals for PostgresStore {
    async fn consumption(&self, at: Timestamp) -> Result<Consumption, StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.view().await?;
        let accounts = "SELECT account, saturated(sum(input::numeric + output)) \
            FROM key_days WHERE day >= $1 GROUP BY account";
        let models = "SELECT model, saturated(sum(input::numeric + output)) \
            FROM key_days WHERE day >= $1 AND model IS NOT NULL GROUP BY model";
        let keys = "SELECT keys.origin, saturated(sum(input::numeric + output)) \
            FROM key_days JOIN keys ON keys.id = key_days.key \
            WHERE day >= $1 GROUP BY keys.origin";
        let day = day_of(month_start(at));
        let spent = "SELECT keys.origin, saturated(sum(cost)) \
            FROM key_days JOIN keys ON keys.id = key_days.key GROUP BY keys.origin";
        let spent = tx.query(spent, &[]).await?;
        Ok(Consumption {
            accounts: tokens(&tx, accounts, day).await?,
            models: tokens(&tx, models, day).await?,
            keys: tokens(&tx, keys, day).await?,
            spent: spent
                .iter()
                .map(|row| Ok((row.column(0)?, row.column(1)?)))
                .collect::<Result<_, StoreError>>()?,
        })
    }
}

/// Returns the tokens since `day` by the first column of `sql`.
async fn tokens<K: Decode>(
    tx: &Transaction<'_>,
    sql: &str,
    day: i64,
) -> Result<Vec<(K, u64)>, StoreError> {
    let rows = tx.query(sql, parameters![day]).await?;
    rows.iter().map(|row| Ok((row.column(0)?, row.column::<Count>(1)?.0))).collect()
}
