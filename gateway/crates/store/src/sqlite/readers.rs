//! A pool of read-only connections; each call runs on the blocking pool.
//!
//! Reads that may go through much of the log never use all connections, so that a page of requests or
//! a stored response does not wait for totals.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, Transaction};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::cancel::CancelHandle;
use super::error::ClosedError;
use crate::StoreError;

/// The pool.
pub(super) struct Readers {
    free: Arc<Mutex<Vec<Connection>>>,
    // One permit per connection: the holder of a permit finds a connection.
    permits: Arc<Semaphore>,
    // One permit less than there are connections.
    long_reads: Arc<Semaphore>,
}

/// A connection that returns to the pool on drop, even after a panic.
struct ReaderGuard {
    connection: Option<Connection>,
    free: Arc<Mutex<Vec<Connection>>>,
    permits: Arc<Semaphore>,
}

// === impl Readers ===

impl Readers {
    /// Creates the pool.
    pub(super) fn new(connections: Vec<Connection>) -> Self {
        let permits = Arc::new(Semaphore::new(connections.len()));
        let long_reads = Arc::new(Semaphore::new(connections.len().saturating_sub(1).max(1)));
        Self { free: Arc::new(Mutex::new(connections)), permits, long_reads }
    }

    /// Like [`read`](Self::read), for work that may take long. One connection stays free for other
    /// reads.
    ///
    /// # Cancel safety
    /// Like that of [`read`](Self::read).
    pub(super) async fn read_long<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let closed = |_| StoreError::Unavailable(ClosedError.into());
        let permit = Arc::clone(&self.long_reads).acquire_owned().await.map_err(closed)?;
        self.read(move |tx| {
            // Held until the work ends, like the connection, even if the caller stops waiting.
            let _permit = permit;
            work(tx)
        })
        .await
    }

    /// Runs `work` in a read transaction, that is, on a consistent view of the database.
    ///
    /// # Cancel safety
    /// Dropping the future interrupts the work and frees the connection.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let closed = || StoreError::Unavailable(ClosedError.into());
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| closed())?;
        let (free, permits) = (Arc::clone(&self.free), Arc::clone(&self.permits));
        let cancel = CancelHandle::default();
        let _guard = cancel.cancel_on_drop();
        let reading = spawn_blocking(move || {
            // Held until the work ends, even if the caller stops waiting, and released after the
            // connection.
            let _permit = permit;
            cancel.check()?;
            let mut reader = ReaderGuard::take(free, permits);
            let connection = reader.connection.as_mut().ok_or_else(closed)?;
            // Replaces the handle of the connection's last read.
            cancel.add_connection(connection)?;
            work(&connection.transaction()?)
        });
        reading.await.map_err(|panicked| StoreError::Unavailable(panicked.into()))?
    }

    /// Closes idle connections; those in use are closed when they are returned.
    pub(super) fn close(&self) {
        self.permits.close();
        self.long_reads.close();
        self.free.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

// === impl ReaderGuard ===

impl ReaderGuard {
    fn take(free: Arc<Mutex<Vec<Connection>>>, permits: Arc<Semaphore>) -> Self {
        let connection = free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Self { connection, free, permits }
    }
}

impl Drop for ReaderGuard {
    fn drop(&mut self) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.extend(self.connection.take().filter(|_| !self.permits.is_closed()));
    }
}
