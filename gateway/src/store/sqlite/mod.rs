//! The store on an embedded SQLite file.
//!
//! One thread writes (`writer`), a few connections read beside it (`readers`), and a write-ahead
//! log keeps them out of each other's way. What is answered `Ok` survives the end of the process;
//! a power cut may take the last moments, never the order, unless [`Durability::Power`] is asked
//! for. Start with [`SqliteStore::open`], then `commit.rs`, the one hot path. Only this folder names
//! rusqlite.

mod audit;
mod background_reads;
mod blank;
mod books;
mod calls;
mod catalogue;
mod checkpoint;
mod codec;
mod commit;
mod condition;
mod consumption;
mod copy;
mod error;
mod examine;
mod filter;
mod fingerprint;
mod forget;
mod identities;
mod keys;
mod migrations;
mod models;
mod prove;
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
mod writer;

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, Transaction};

use self::background_reads::BackgroundReads;
use self::migrations::Ran;
use self::readers::Readers;
use self::writer::Writer;
use super::StoreError;
use domain::audit::AuditEntry;
use domain::durability::Durability;

const READERS: usize = 3;

/// A store in one file. Dropping it waits until all that was sent to it is written.
pub struct SqliteStore {
    // Before the writer, so that the last connection to go folds the write-ahead log into the file.
    readers: Readers,
    background_reads: BackgroundReads,
    writer: Arc<Writer>,
}

impl SqliteStore {
    /// Opens the database at `path`, made and brought up to date as needed; a new file is for its
    /// owner only. Blocks.
    ///
    /// # Errors
    /// [`StoreError::Unopened`] if it cannot be read and written, or a newer version wrote it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_for(path, Durability::Process)
    }

    /// Opens it like [`open`](Self::open), so that what is written outlives what `durability` says.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn open_for(path: &Path, durability: Durability) -> Result<Self, StoreError> {
        Self::try_open(path, durability)
            .map_err(|source| StoreError::Unopened { path: path.to_path_buf(), source })
    }

    /// Returns whether nothing was ever stored at `path`: there is no file, an empty one, or one without a
    /// schema. Blocks.
    ///
    /// # Errors
    /// [`StoreError::Unopened`] if it cannot be read, or is no database.
    pub fn is_blank(path: &Path) -> Result<bool, StoreError> {
        blank::is_blank(path)
            .map_err(|source| StoreError::Unopened { path: path.to_path_buf(), source })
    }

    fn try_open(
        path: &Path,
        durability: Durability,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        // An end in the middle of a copy leaves it behind.
        copy::remove(path)?;
        // SQLite gives its side files the mode of the main one.
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
        if migrations::run(&mut connection)? == Ran::OnBlank {
            // The files that are made beside it next say that it is there: see `data_dir`.
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

    /// Waits until all that was sent is written, and closes the file; later calls are
    /// [`StoreError::Unavailable`].
    pub async fn close(&self) {
        self.readers.close();
        self.background_reads.close();
        let writer = Arc::clone(&self.writer);
        // Fails only if the runtime is going down; then dropping the store does the same.
        let _ = tokio::task::spawn_blocking(move || writer.end()).await;
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.readers.read(work).await
    }

    /// Like [`Self::write`], with an entry of the audit log in the same transaction.
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
