//! The fingerprint of the key that seals secrets, so that all gateways of the database have the
//! same one.

use async_trait::async_trait;

use super::PostgresStore;
use super::codec::{ReadColumn, parameters};
use super::transaction::Transaction;
use crate::StoreError;
use crate::fleet::SealKeys;

#[async_trait]
impl SealKeys for PostgresStore {
    async fn seal_fingerprint(&self) -> Result<Option<String>, StoreError> {
        find(&self.connection().await?.view().await?).await
    }

    async fn claim_seal_fingerprint(&self, fingerprint: &str) -> Result<String, StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.begin(self.epoch).await?;
        let sql = "INSERT INTO meta (name, value) VALUES ('seal_key', $1) ON CONFLICT DO NOTHING";
        tx.execute(sql, parameters![fingerprint]).await?;
        // The row of a concurrent insertion is visible to the next statement.
        let stored = find(&tx).await?;
        tx.commit().await?;
        Ok(stored.unwrap_or_else(|| fingerprint.to_owned()))
    }
}

async fn find(tx: &Transaction<'_>) -> Result<Option<String>, StoreError> {
    let row = tx.query_opt("SELECT value FROM meta WHERE name = 'seal_key'", &[]).await?;
    row.map(|row| row.column(0)).transpose()
}
