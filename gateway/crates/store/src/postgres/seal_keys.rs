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
        // The row of a concurrent insertion is visible to the next statement. The lock waits for a rotation, which
        // either sees this node or is seen by it.
        let row = tx.query_opt("SELECT value FROM meta WHERE name = 'seal_key' FOR SHARE", &[]);
        let stored = row.await?.map(|row| row.column(0)).transpose()?;
        tx.commit().await?;
        Ok(stored.unwrap_or_else(|| fingerprint.to_owned()))
    }

    async fn replace_seal_fingerprint(&self, former: &str, new: &str) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let tx = connection.begin(self.epoch).await?;
        let sql = "UPDATE meta SET value = $2 WHERE name = 'seal_key' AND value IN ($1, $2)";
        if tx.execute(sql, parameters![former, new]).await? == 0 {
            let text =
                "another gateway has replaced the key of stored secrets; restart with its key";
            return Err(StoreError::Conflict(text.to_owned()));
        }
        // A node that joins later waits for this transaction before it compares its key.
        let sql =
            "SELECT name FROM nodes WHERE id <> $1 AND removed_at IS NULL ORDER BY name LIMIT 1";
        if let Some(row) = tx.query_opt(sql, parameters![self.epoch.id]).await? {
            let name: String = row.column(0)?;
            let text =
                format!("gateway `{name}` uses the database, too, and has only the former key");
            return Err(StoreError::Conflict(text));
        }
        tx.commit().await
    }
}

pub(super) async fn find(tx: &Transaction<'_>) -> Result<Option<String>, StoreError> {
    let row = tx.query_opt("SELECT value FROM meta WHERE name = 'seal_key'", &[]).await?;
    row.map(|row| row.column(0)).transpose()
}
