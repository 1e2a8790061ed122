//! The schema, as an append-only list of migrations.

use super::codec::{ReadColumn, parameters};
use super::error::NewerSchemaError;
use super::transaction::Connection;
use crate::StoreError;

const STEPS: &[&str] = &[
    include_str!("migrations/0001_init.sql"),
    include_str!("migrations/0002_nodes.sql"),
    include_str!("migrations/0003_allocations.sql"),
    include_str!("migrations/0004_idempotency_claims.sql"),
];

/// The advisory lock of a running migration. `transaction.rs` has another one.
const LOCK: i64 = 0x746f_6c6c_0000_0001;

/// Migrates the database, in one transaction for all missing migrations. Refuses one with a newer
/// schema.
pub(super) async fn run(connection: &mut Connection) -> Result<(), StoreError> {
    let tx = connection.begin_unfenced().await?;
    // Held until the transaction ends. Concurrent creations of the table would fail.
    tx.execute("SELECT pg_advisory_xact_lock($1)", parameters![LOCK]).await?;
    tx.execute_batch("CREATE TABLE IF NOT EXISTS schema_version (version bigint NOT NULL)").await?;
    let found = tx.query_opt("SELECT version FROM schema_version", &[]).await?;
    let found: i64 = found.map_or(Ok(0), |row| row.column(0))?;
    let known = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
    if found > known {
        return Err(StoreError::Unavailable(NewerSchemaError { found, known }.into()));
    }
    if found == known {
        return Ok(());
    }
    for step in &STEPS[usize::try_from(found).unwrap_or_default()..] {
        tx.execute_batch(step).await?;
    }
    tx.execute_batch("DELETE FROM schema_version").await?;
    tx.execute("INSERT INTO schema_version VALUES ($1)", parameters![known]).await?;
    tx.commit().await
}
