//! The store on an embedded SQLite file.
//!
//! One thread writes (`writer`), a few connections read beside it (`readers`); the write-ahead log lets them
//! work at the same time. Everything answered with `Ok` survives the end of the process. A power cut may lose
//! the last moments, but never reorders, unless [`Durability::Power`] is configured. Start with
//! [`SqliteStore::open`], then `commit.rs`, the hot path. Only this module names rusqlite.

mod audit;
mod background_reads;
mod blank;
mod calls;
mod catalogue;
mod checkpoint;
mod codec;
mod commit;
mod condition;
mod consumption;
mod copy;
mod error;
mod filter;
mod fingerprint;
mod identities;
mod integrity;
mod keys;
mod ledger;
mod maintenance;
mod migrations;
mod models;
mod readers;
mod requests;
mod responses;
mod rows;
mod runs;
mod saturated;
mod sessions;
mod summary;
mod sums;
mod terms;
#[cfg(test)]
mod tests;
mod verify;
mod writer;

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, Transaction};

use self::background_reads::BackgroundReads;
use self::migrations::SchemaState;
use self::readers::Readers;
use self::writer::Writer;
use super::StoreError;
use domain::audit::AuditEntry;
use domain::durability::Durability;

const READERS: usize = 3;

/// A store in one file. Dropping it waits until all queued writes are done.
pub struct SqliteStore {
    // Declared before the writer, so that the writer closes last and checkpoints the log.
    readers: Readers,
    background_reads: BackgroundReads,
    writer: Arc<Writer>,
}

impl SqliteStore {
    /// Opens the database at `path`, created and migrated if necessary; a new file is only accessible to its
    /// owner. Blocks on IO.
    ///
    /// # Errors
    /// [`StoreError::Unopened`] if it cannot be read and written, or a newer version wrote it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_for(path, Durability::Process)
    }

    /// Opens it like [`open`](Self::open), with the given durability of writes.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn open_for(path: &Path, durability: Durability) -> Result<Self, StoreError> {
        Self::try_open(path, durability)
            .map_err(|source| StoreError::Unopened { path: path.to_path_buf(), source })
    }

    /// Returns whether nothing was ever stored at `path`: there is no file, an empty one, or one without a
    /// schema. Blocks on IO.
    ///
    /// # Errors
    /// [`StoreError::Unopened`] if it cannot be read, or is not a database.
    pub fn is_blank(path: &Path) -> Result<bool, StoreError> {
        blank::is_blank(path)
            .map_err(|source| StoreError::Unopened { path: path.to_path_buf(), source })
    }

    fn try_open(
        path: &Path,
        durability: Durability,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        // A crash during a copy leaves it behind.
        copy::remove(path)?;
        // SQLite gives its side files the mode of the main file.
        OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
        let mut connection = connect(path)?;
        let synchronous = match durability {
            Durability::Process => "normal",
            Durability::Power => "full",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "cache_size", -65_536)?;
        connection.pragma_update(None, "journal_size_limit", 67_108_864)?;
        if migrations::run(&mut connection)? == SchemaState::Blank {
            // Files that are created next rely on the database being on disk: see `data_dir`.
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            if let Some(dir) = path.parent() {
                std::fs::File::open(dir)?.sync_all()?;
            }
        }

        let readers = (0..READERS).map(|_| {
            let connection = connect(path)?;
            connection.pragma_update(None, "query_only", true)?;
            connection.pragma_update(None, "cache_size", -16_384)?;
            connection.pragma_update(None, "mmap_size", 268_435_456)?;
            Ok(connection)
        });
        let readers = Readers::new(readers.collect::<rusqlite::Result<_>>()?);
        let background_reads = BackgroundReads::new(path);
        Ok(Self { readers, background_reads, writer: Arc::new(Writer::start(connection)?) })
    }

    /// Waits until all queued writes are done, and closes the file; later calls return
    /// [`StoreError::Unavailable`].
    pub async fn close(&self) {
        self.readers.close();
        self.background_reads.close();
        let writer = Arc::clone(&self.writer);
        // This fails only if the runtime is shutting down; dropping the store then does the same.
        let _ = tokio::task::spawn_blocking(move || writer.end()).await;
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.readers.read(work).await
    }

    /// Like [`Self::write`], with an audit entry in the same transaction.
    async fn write_audited<T: Send + 'static>(
        &self,
        entry: &AuditEntry,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let entry = entry.clone();
        self.write(move |tx| {
            let answer = work(tx)?;
            audit::insert(tx, &entry)?;
            Ok(answer)
        })
        .await
    }

    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.writer.write(work).await
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}
