//! The schema, as an append-only list of migrations.
//!
//! Gateways of two versions use a database while the newer one is rolled out. A migration therefore
//! adds tables, and columns that are nullable or have a default; it renames nothing. What a version
//! does not use any more is dropped by a later version, which then increases `OLDEST_SUPPORTED`.
//! Statements therefore name the columns that they read: a prepared `SELECT *` fails once there is
//! another column.

use std::time::Duration;

use tokio::time::sleep;

use super::codec::{ReadColumn, parameters};
use super::error::{LockedSchemaError, NewerSchemaError, is_lock_timeout};
use super::transaction::Connection;
use crate::{StoreError, Upgrade};

/// The migrations and their names, from the names of their files.
macro_rules! steps {
    ($($name:literal),* $(,)?) => {
        pub(super) const STEPS: &[&str] = &[$(include_str!(concat!("migrations/", $name, ".sql"))),*];
        const NAMES: &[&str] = &[$($name),*];
    };
}

steps![
    "0001_init",
    "0002_nodes",
    "0003_allocations",
    "0004_idempotency_claims",
    "0005_oldest_supported",
    "0006_hedging",
    "0007_account_lifecycle",
    "0008_operators",
    "0009_password_resets",
    "0010_people",
    "0011_alerts",
    "0012_fleet",
    "0013_trace_content",
    "0014_requests_by_day",
];

/// The newest schema version.
#[expect(clippy::cast_possible_truncation, reason = "there are few migrations")]
pub(super) const VERSION: u32 = STEPS.len() as u32;

/// The oldest schema version whose gateways may use the present schema. A migration that removes or
/// changes what they use must increase it to the version since which gateways do not use it.
const OLDEST_SUPPORTED: i64 = 5;

/// The advisory lock of a running migration. `transaction.rs` has another one.
const LOCK: i64 = 0x746f_6c6c_0000_0001;

/// How long a migration waits for the locks of other transactions. While it does, all statements wait that use the
/// same tables, also those of other gateways; the pause between two attempts lets them proceed.
#[derive(Clone, Copy, Debug)]
pub(super) struct LockPatience {
    /// The longest wait for a lock, which fails an attempt.
    pub(super) timeout: Duration,
    /// The pause between two attempts.
    pub(super) pause: Duration,
    /// The number of attempts.
    pub(super) attempts: u32,
}

impl LockPatience {
    /// About a minute.
    pub(super) const DEFAULT: Self =
        Self { timeout: Duration::from_secs(2), pause: Duration::from_secs(1), attempts: 20 };
}

/// Migrates the database, in one transaction for all missing migrations. A newer schema is left as
/// it is, and refused unless it supports this version.
pub(super) async fn run(
    connection: &mut Connection,
    patience: LockPatience,
) -> Result<(), StoreError> {
    for _ in 1..patience.attempts {
        match attempt(connection, patience.timeout).await {
            Err(error) if is_lock_timeout(&error) => sleep(patience.pause).await,
            outcome => return outcome,
        }
    }
    attempt(connection, patience.timeout).await.map_err(|error| {
        if !is_lock_timeout(&error) {
            return error;
        }
        StoreError::Unavailable(LockedSchemaError(patience.attempts).into())
    })
}

async fn attempt(connection: &mut Connection, lock_timeout: Duration) -> Result<(), StoreError> {
    let tx = connection.begin_unfenced().await?;
    // Held until the transaction ends. Concurrent creations of the table would fail.
    tx.execute("SELECT pg_advisory_xact_lock($1)", parameters![LOCK]).await?;
    // After that lock, because the migration of another gateway may take long.
    let lock_timeout = lock_timeout.as_millis();
    tx.execute_batch(&format!("SET LOCAL lock_timeout = {lock_timeout}")).await?;
    tx.execute_batch("CREATE TABLE IF NOT EXISTS schema_version (version bigint NOT NULL)").await?;
    let found = tx.query_opt("SELECT version FROM schema_version", &[]).await?;
    let found: i64 = found.map_or(Ok(0), |row| row.column(0))?;
    let known = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
    if found > known {
        let sql = "SELECT oldest_supported FROM schema_version";
        let oldest: Option<i64> = tx.query_one("schema_version", sql, &[]).await?.column(0)?;
        return match oldest {
            Some(oldest) if oldest <= known => Ok(()),
            _ => {
                let sql = "SELECT value FROM meta WHERE name = 'written_by'";
                let writer = tx.query_opt(sql, &[]).await?;
                let writer = writer.map(|row| row.column(0)).transpose()?;
                Err(StoreError::Unavailable(
                    NewerSchemaError { found, known, oldest, writer }.into(),
                ))
            }
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
    let sql = "INSERT INTO meta (name, value) VALUES ('written_by', $1) \
        ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    tx.execute(sql, parameters![version::LONG]).await?;
    tx.commit().await
}

/// Returns what [`run`] would do; `None` if the database has no schema. A schema that is newer and
/// supports this version needs nothing.
pub(super) async fn find_upgrade(
    connection: &mut Connection,
) -> Result<Option<Upgrade>, StoreError> {
    let tx = connection.view().await?;
    let exists = "SELECT to_regclass('schema_version') IS NOT NULL";
    if !tx.query_one("pg_class", exists, &[]).await?.column(0)? {
        return Ok(None);
    }
    let found = tx.query_opt("SELECT version FROM schema_version", &[]).await?;
    let from: i64 = found.map_or(Ok(0), |row| row.column(0))?;
    let size = "SELECT pg_database_size(current_database())";
    let bytes: i64 = tx.query_one("pg_database", size, &[]).await?.column(0)?;
    let from = u32::try_from(from).unwrap_or(u32::MAX);
    let applied = usize::try_from(from).unwrap_or(usize::MAX).min(NAMES.len());
    Ok(Some(Upgrade {
        from,
        to: VERSION.max(from),
        migrations: &NAMES[applied..],
        bytes: u64::try_from(bytes).unwrap_or_default(),
    }))
}
