//! Receives a copy of a SQLite database.
//!
//! The row `migration` of `meta` marks an incomplete copy: it is written before all other rows and
//! removed last. [`nodes::join`](super::nodes::join) and [`Import::begin`] refuse a database that
//! has it.

use std::collections::BTreeSet;

use deadpool_postgres::Pool;

use super::codec::{AnyParameter, Parameter, ReadColumn, parameters};
use super::error::{IncompleteMigrationError, NotEmptyError};
use super::migrations::LockPatience;
use super::transaction::{Connection, Transaction};
use super::{
    PostgresAddress, cause, create_pool, migrations, partitions, refuse_asynchronous_commits,
    verify,
};
use crate::StoreError;
use crate::migration::{
    AccountEntries, Batch, FIGURES, Figure, Figures, LEDGER_BY_ACCOUNT, TABLES, Table, joined,
};
use domain::verification::VerificationReport;

/// What an empty database has no rows of.
const EMPTY: [&str; 7] =
    ["accounts", "nodes", "requests", "ledger_entries", "responses", "audit", "meta"];

/// A database that receives a copy.
pub(crate) struct Import {
    pool: Pool,
}

impl Import {
    /// Connects to an empty database, creates its schema if necessary, and marks it. `days` are those of the request
    /// log, which gets partitions for them.
    ///
    /// # Errors
    /// [`StoreError::Unopened`] if the server cannot be reached or refuses, if the database is not
    /// empty, or if an earlier migration into it is incomplete.
    pub(crate) async fn begin(
        address: &PostgresAddress,
        days: &BTreeSet<i64>,
    ) -> Result<Self, StoreError> {
        Self::try_begin(address, days)
            .await
            .map_err(|source| StoreError::Unopened { location: address.to_string(), source })
    }

    async fn try_begin(
        address: &PostgresAddress,
        days: &BTreeSet<i64>,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let pool = create_pool(address, 1)?;
        let mut connection = Connection::of(&pool).await.map_err(cause)?;
        refuse_asynchronous_commits(&mut connection).await?;
        migrations::run(&mut connection, LockPatience::DEFAULT).await.map_err(cause)?;
        let tx = connection.begin_unfenced().await?;
        // A gateway that joins now waits until the mark is visible.
        tx.execute_batch("LOCK TABLE nodes IN SHARE MODE").await.map_err(cause)?;
        refuse_incomplete(&tx).await?;
        for table in EMPTY {
            // The migration of the schema has written one row.
            let condition = if table == "meta" { " WHERE name <> 'written_by'" } else { "" };
            let sql = format!("SELECT EXISTS (SELECT FROM {table}{condition})");
            if tx.query_one("EXISTS", &sql, &[]).await?.column(0)? {
                return Err(NotEmptyError(table).into());
            }
        }
        tx.execute_batch(
            "INSERT INTO meta VALUES ('migration', now()::text); \
            ALTER TABLE responses DISABLE TRIGGER responses_are_counted",
        )
        .await
        .map_err(cause)?;
        partitions::create_for_days(&tx, days).await.map_err(cause)?;
        tx.commit().await.map_err(cause)?;
        drop(connection);
        Ok(Self { pool })
    }

    /// Writes a batch, in one transaction.
    pub(crate) async fn write(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut connection = Connection::of(&self.pool).await?;
        let tx = connection.begin_unfenced().await?;
        let columns: Vec<_> = batch.table.columns().collect();
        let mut copy = tx.copy_in(batch.table.name, &columns.join(", ")).await?;
        for row in &batch.rows {
            let values: Vec<_> = row.iter().map(Parameter).collect();
            let values: Vec<_> = values.iter().map(|value| value as AnyParameter<'_>).collect();
            copy.write(&values).await?;
        }
        copy.finish().await?;
        tx.commit().await
    }

    /// Continues the cursors after those of the copied rows, and registers the key of sealed
    /// credentials.
    pub(crate) async fn prepare_use(
        &self,
        seal_fingerprint: Option<&str>,
    ) -> Result<(), StoreError> {
        let mut connection = Connection::of(&self.pool).await?;
        let tx = connection.begin_unfenced().await?;
        tx.execute_batch(
            "UPDATE log_end SET seq = (SELECT coalesce(max(seq), 0) FROM requests); \
            SELECT setval(pg_get_serial_sequence('ledger_entries', 'seq'), max(seq)) \
            FROM ledger_entries HAVING max(seq) > 0; \
            SELECT setval(pg_get_serial_sequence('audit', 'seq'), max(seq)) FROM audit \
            HAVING max(seq) > 0; \
            ALTER TABLE responses ENABLE TRIGGER responses_are_counted; ANALYZE",
        )
        .await?;
        if let Some(fingerprint) = seal_fingerprint {
            let sql = "INSERT INTO meta (name, value) VALUES ('seal_key', $1)";
            tx.execute(sql, parameters![fingerprint]).await?;
        }
        tx.commit().await
    }

    /// Returns the figures by which the copy is compared.
    pub(crate) async fn figures(&self) -> Result<Figures, StoreError> {
        let mut connection = Connection::of(&self.pool).await?;
        let tx = connection.view().await?;
        let count = |table: &Table| format!("SELECT count(*), 0::bigint FROM {}", table.copy());
        let counts = TABLES.iter().map(count);
        let mut numbers = Vec::new();
        for sql in counts.chain(FIGURES.iter().map(Figure::sql)) {
            let row = tx.query_one("a figure", &sql, &[]).await?;
            numbers.push(joined(row.column(0)?, row.column(1)?));
        }
        let mut entries = AccountEntries::new();
        for row in tx.query(LEDGER_BY_ACCOUNT, &[]).await? {
            let sum = joined(row.column(3)?, row.column(2)?);
            entries.insert(row.column(0)?, (row.column(1)?, sum));
        }
        Ok(Figures { numbers, entries })
    }

    /// Verifies the ledger of the copy.
    pub(crate) async fn verify_ledger(&self) -> Result<VerificationReport, StoreError> {
        verify::verify(&Connection::of(&self.pool).await?.view().await?).await
    }

    /// Removes the mark.
    pub(crate) async fn finish(&self) -> Result<(), StoreError> {
        let mut connection = Connection::of(&self.pool).await?;
        let tx = connection.begin_unfenced().await?;
        tx.execute("DELETE FROM meta WHERE name = 'migration'", &[]).await?;
        tx.commit().await
    }
}

/// Returns an error if the database has the mark.
pub(super) async fn refuse_incomplete(tx: &Transaction<'_>) -> Result<(), StoreError> {
    let sql = "SELECT value FROM meta WHERE name = 'migration'";
    match tx.query_opt(sql, &[]).await? {
        Some(row) => Err(StoreError::Unavailable(IncompleteMigrationError(row.column(0)?).into())),
        None => Ok(()),
    }
}
