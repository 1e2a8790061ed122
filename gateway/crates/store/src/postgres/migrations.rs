//! The schema, as an append-only list of migrations.
//!
//! Gateways of two versions use a database while the newer one is rolled out. A migration therefore
//! adds tables, and columns that are nullable or have a default; it renames nothing. What a version
//! does not use any more is dropped by a later version, which then increases `OLDEST_SUPPORTED`.
//! Statements therefore name the columns that they read: a prepared `SELECT *` fails once there is
//! another column.

use super::codec::{ReadColumn, parameters};
use super::error::NewerSchemaError;
use super::transaction::Connection;
use crate::StoreError;

const STEPS: &[&str] = &[
    include_str!("migrations/0001_init.sql"),
    include_str!("migrations/0002_nodes.sql"),
    include_str!("migrations/0003_allocations.sql"),
    include_str!("migrations/0004_idempotency_claims.sql"),
    include_str!("migrations/0005_oldest_supported.sql"),
    include_str!("migrations/0007_operators.sql"),
];

/// The oldest schema version whose gateways may use the present schema. A migration that removes or
/// changes what they use must increase it to the version since which gateways do not use it.
const OLDEST_SUPPORTED: i64 = 5;

/// The advisory lock of a running migration. `transaction.rs` has another one.
const LOCK: i64 = 0x746f_6c6c_0000_0001;

/// Migrates the database, in one transaction for all missing migrations. A newer schema is left as
/// it is, and refused unless it supports this version.
pub(super) async fn run(connection: &mut Connection) -> Result<(), StoreError> {
    let tx = connection.begin_unfenced().await?;
    // Held until the transaction ends. Concurrent creations of the table would fail.
    tx.execute("SELECT pg_advisory_xact_lock($1)", parameters![LOCK]).await?;
    tx.execute_batch("CREATE TABLE IF NOT EXISTS schema_version (version bigint NOT NULL)").await?;
    let found = tx.query_opt("SELECT version FROM schema_version", &[]).await?;
    let found: i64 = found.map_or(Ok(0), |row| row.column(0))?;
    let known = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
    if found > known {
        let sql = "SELECT oldest_supported FROM schema_version";
        let oldest: Option<i64> = tx.query_one("schema_version", sql, &[]).await?.column(0)?;
        return match oldest {
            Some(oldest) if oldest <= known => Ok(()),
            _ => Err(StoreError::Unavailable(NewerSchemaError { found, known, oldest }.into())),
        };
    }
    if found == known {
        return Ok(());
    }
    for step in &STEPS[usize::try_from(found).unwrap_or_default()..] {
        tx.execute_batch(step).await?;
    }
    tx.execute_batch("DELETE FROM schema_version").await?;
    let sql = "INSERT INTO schema_version (version, oldest_supported) VALUES ($1, $2)";
    tx.execute(sql, parameters![known, OLDEST_SUPPORTED]).await?;
    tx.commit().await
}
