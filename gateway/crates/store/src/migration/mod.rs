//! Copies the store of a stopped gateway from SQLite into an empty PostgreSQL database.
//!
//! `tables.rs` maps the columns of both schemas, `sqlite/export.rs` reads rows in one transaction,
//! and `postgres/import.rs` writes them in batches. Invariant: while the copy is incomplete or
//! differs, the database has a mark with which it is refused by [`PostgresStore::open`] and by a
//! second migration. Memory is bounded by two batches of rows, whatever the size of the tables.
//!
//! [`PostgresStore::open`]: crate::postgres::PostgresStore::open

mod comparison;
mod figures;
mod rows;
mod tables;

use tokio::sync::mpsc;

use crate::postgres::{Import, PostgresAddress};
use crate::sqlite::SqliteStore;
use crate::{LedgerEntries, StoreError};

pub use self::comparison::{ComparedFigure, Comparison};
pub(crate) use self::figures::{
    AccountEntries, FIGURES, Figure, Figures, LEDGER_BY_ACCOUNT, joined,
};
pub(crate) use self::rows::{Batch, StoredValue};
pub(crate) use self::tables::{TABLES, Table};

/// The reason why a store was not copied. Nothing was written before [`Self::Copy`].
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// The ledger of the source has differences, which the copy would have, too.
    #[error(
        "the ledger of the SQLite database has {0} differences (`ctl ledger verify` shows them); nothing was copied"
    )]
    Inconsistent(u64),
    /// The source cannot be read.
    #[error("reading the SQLite database")]
    Source(#[source] StoreError),
    /// The target cannot be reached, is not empty, or is the result of an incomplete migration.
    #[error(transparent)]
    Target(StoreError),
    /// The copy ended early.
    #[error("copying into `{database}`, which is incomplete now")]
    Copy {
        /// The address of the database.
        database: String,
        /// The reason.
        #[source]
        source: StoreError,
    },
}

/// Copies all tables of `source` into the database at `address`, and compares both. The database is
/// usable after this if and only if [`Comparison::is_equal`]. `seal_fingerprint` identifies the key
/// of the sealed credentials; `progress` is called with the name and the number of rows of each
/// batch.
///
/// # Errors
/// See [`MigrationError`].
pub async fn migrate(
    source: &SqliteStore,
    address: &PostgresAddress,
    seal_fingerprint: Option<&str>,
    progress: impl FnMut(&'static str, usize),
) -> Result<Comparison, MigrationError> {
    let report = source.verify_ledger().await.map_err(MigrationError::Source)?;
    if !report.is_consistent() {
        return Err(MigrationError::Inconsistent(report.found));
    }
    let sqlite = (source.figures().await.map_err(MigrationError::Source)?, report);
    let days = source.logged_days().await.map_err(MigrationError::Source)?;
    let mut import = Import::begin(address, &days).await.map_err(MigrationError::Target)?;
    let copying = async {
        copy(source, &mut import, progress).await?;
        import.prepare_use(seal_fingerprint).await?;
        let postgres = (import.figures().await?, import.verify_ledger().await?);
        let comparison = Comparison::new(&sqlite, &postgres);
        if comparison.is_equal() {
            import.finish().await?;
        }
        Ok(comparison)
    };
    let database = || address.to_string();
    copying.await.map_err(|source| MigrationError::Copy { database: database(), source })
}

async fn copy(
    source: &SqliteStore,
    import: &mut Import,
    mut progress: impl FnMut(&'static str, usize),
) -> Result<(), StoreError> {
    let (sender, mut batches) = mpsc::channel::<Batch>(1);
    let writing = async {
        // Moved here, so that the export fails if this does.
        let batches = &mut batches;
        while let Some(batch) = batches.recv().await {
            import.write(&batch).await?;
            progress(batch.table.name, batch.rows.len());
        }
        Ok(())
    };
    futures_util::future::try_join(source.export(sender), writing).await?;
    Ok(())
}
