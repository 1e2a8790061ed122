//! The store in an embedded SQLite database.
//!
//! One thread writes (`writer`), and a few connections read concurrently (`readers`), in WAL mode.
//! Every operation that returned `Ok` survives a crash of the process. A power failure may lose the
//! last operations, but does not reorder them; with [`Durability::Power`], it loses none. Start
//! with [`SqliteStore::open`], then `commit.rs`, the hot path. Only this module uses rusqlite.

mod account_lifecycle;
mod alerts;
mod audit;
mod background_reads;
mod calls;
mod cancel;
mod catalogue;
mod checkpoint;
mod codec;
mod commit;
mod consumption;
mod copy;
mod error;
mod export;
mod filter;
mod fingerprint;
mod fleet;
mod identities;
mod integrity;
mod invites;
mod key_use_check;
mod keys;
mod ledger;
mod maintenance;
mod migrations;
mod models;
mod operator_token;
mod password_resets;
mod people;
mod readers;
mod requests;
mod responses;
mod rows;
mod saturated_sums;
mod sessions;
mod spans;
mod summary;
mod sums;
#[cfg(test)]
mod tests;
mod uninitialized;
mod upgrade;
mod upstreams;
mod verify;
mod writer;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, Transaction};

use self::background_reads::BackgroundReads;
use self::codec::ReadColumn;
use self::error::JournalModeError;
use self::readers::Readers;
use self::writer::Writer;
use super::{Schema, StoreError, Upgrade};
use domain::audit::AuditEntry;
use domain::durability::Durability;

const READERS: usize = 3;

/// The schema that a database has once it is open.
pub const SCHEMA: Schema = Schema { backend: "SQLite", version: migrations::VERSION };

/// A store in one file. Dropping it waits for all queued writes, but not for reads in progress.
pub struct SqliteStore {
    // Declared before the writer: without reads in progress, the writer closes last and therefore
    // checkpoints the log.
    readers: Readers,
    background_reads: BackgroundReads,
    writer: Arc<Writer>,
}

impl SqliteStore {
    /// Opens the database at `path`. Creates and migrates it if necessary; a new file is only
    /// accessible to its owner. Blocks on IO.
    ///
    /// # Errors
    /// [`StoreError::Unopened`] if the file cannot be read and written, or has a newer schema.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_for(path, Durability::Process)
    }

    /// Like [`open`](Self::open), with the given durability of writes.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    pub fn open_for(path: &Path, durability: Durability) -> Result<Self, StoreError> {
        Self::try_open(path, durability)
            .map_err(|source| StoreError::Unopened { location: path.display().to_string(), source })
    }

    /// Returns whether the database at `path` is uninitialized: the file is missing, empty or
    /// without a schema. Blocks on IO.
    ///
    /// # Errors
    /// [`StoreError::Unopened`] if the file cannot be read, or is not a database.
    pub fn is_uninitialized(path: &Path) -> Result<bool, StoreError> {
        uninitialized::is_uninitialized(path)
            .map_err(|source| StoreError::Unopened { location: path.display().to_string(), source })
    }

    /// Returns what [`open`](Self::open) would do to the schema of the database at `path`; `None`
    /// if the database is uninitialized. Changes nothing, also while a gateway uses the database.
    /// Blocks on IO.
    ///
    /// # Errors
    /// [`StoreError::Unopened`] if the file cannot be read, is not a database, or has a newer schema.
    pub fn upgrade(path: &Path) -> Result<Option<Upgrade>, StoreError> {
        upgrade::find(path)
            .map_err(|source| StoreError::Unopened { location: path.display().to_string(), source })
    }

    /// Returns the encrypted secrets of the database at `path`; none if it does not exist. Changes nothing, also while
    /// a gateway uses the database. Blocks on IO.
    ///
    /// # Errors
    /// [`StoreError::Unopened`] if the file cannot be read or is not a database.
    pub fn sealed_secrets(path: &Path) -> Result<Vec<Vec<u8>>, StoreError> {
        upgrade::sealed_secrets(path).map_err(|source| StoreError::Unopened {
            location: path.display().to_string(),
            source: source.into(),
        })
    }

    /// Copies the database at `path`, with its write-ahead log, into the new file `target`, checks
    /// the copy and syncs it to the disk. Returns its size in bytes. Blocks on IO.
    ///
    /// # Errors
    /// A file cannot be read or written, or the copy is damaged; there is no `target` then.
    pub fn copy_file(path: &Path, target: &Path) -> Result<u64, StoreError> {
        upgrade::copy_file(path, target)
    }

    fn try_open(
        path: &Path,
        durability: Durability,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        // Left behind by a crash during a copy.
        copy::remove(path)?;
        // A crash may have left an empty file, or the schema in the write-ahead log only.
        let is_new = !uninitialized::has_schema_in_file(path)?;
        // SQLite gives its side files the mode of the main file.
        OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
        let mut connection = connect(path)?;
        let synchronous = match durability {
            Durability::Process => "normal",
            Durability::Power => "full",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        enable_wal(&connection)?;
        connection.pragma_update(None, "cache_size", -65_536)?;
        connection.pragma_update(None, "journal_size_limit", 67_108_864)?;
        // What is deleted must not stay in free pages: stored responses contain prompts.
        connection.pragma_update(None, "secure_delete", true)?;
        migrations::run(&mut connection)?;
        if is_new {
            // The files that the gateway creates next, such as the journal, mean that there was a
            // database. Its directory entry and its schema must therefore be on disk before; the
            // schema last, because it ends this state.
            File::open(directory(path))?.sync_all()?;
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        }
        connection.pragma_update(None, "temp_store", "memory")?;

        let readers = (0..READERS).map(|_| {
            let connection = connect_reader(path)?;
            connection.pragma_update(None, "mmap_size", 268_435_456)?;
            Ok(connection)
        });
        let readers = Readers::new(readers.collect::<rusqlite::Result<_>>()?);
        let background_reads = BackgroundReads::new(path);
        Ok(Self { readers, background_reads, writer: Arc::new(Writer::start(connection)?) })
    }

    /// Waits for all queued writes and closes the connections. Reads in progress continue, and
    /// close their connections when they end; the last connection to close checkpoints the log.
    /// Later calls return [`StoreError::Unavailable`].
    pub async fn close(&self) {
        self.readers.close();
        self.background_reads.close();
        let writer = Arc::clone(&self.writer);
        // This fails only if the runtime is shutting down; dropping the store then does the same.
        let _ = tokio::task::spawn_blocking(move || writer.end()).await;
    }

    /// Changes the database as the store never does.
    #[cfg(test)]
    pub(crate) async fn tamper(&self, sql: &'static str) -> Result<(), StoreError> {
        self.write(|tx| Ok(tx.execute_batch(sql)?)).await
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.readers.read(work).await
    }

    /// Like [`Self::read`], for work that may go through much of the log.
    async fn read_long<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.readers.read_long(work).await
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

/// Opens a connection. It sorts large tables in temporary files, as the migrations need.
fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Opens a connection that only reads, and keeps temporary data in memory.
fn connect_reader(path: &Path) -> rusqlite::Result<Connection> {
    let connection = connect(path)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "cache_size", -16_384)?;
    Ok(connection)
}

/// Switches the database to a write-ahead log.
///
/// # Errors
/// [`JournalModeError`] if SQLite keeps another mode, for example because the file system has no
/// shared memory. Readers would then wait for the writer.
fn enable_wal(connection: &Connection) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mode: String =
        connection.query_row("PRAGMA journal_mode = wal", [], |row| row.column(0))?;
    if mode == "wal" { Ok(()) } else { Err(JournalModeError(mode).into()) }
}

/// Returns the directory of a file.
fn directory(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
