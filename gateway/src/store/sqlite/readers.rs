//! A few connections that only read, each call on a thread of the blocking pool.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, Transaction};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::error::Closed;
use crate::store::StoreError;

/// The readers.
pub(super) struct Readers {
    free: Arc<Mutex<Vec<Connection>>>,
    // As many permits as connections: who holds one finds a connection.
    permits: Arc<Semaphore>,
}

/// A connection that goes back when it is no longer used, even by a panic.
struct Loan {
    connection: Option<Connection>,
    free: Arc<Mutex<Vec<Connection>>>,
    permits: Arc<Semaphore>,
}

// === impl Readers ===

impl Readers {
    /// Takes the connections to read from.
    pub(super) fn new(connections: Vec<Connection>) -> Self {
        let permits = Arc::new(Semaphore::new(connections.len()));
        Self { free: Arc::new(Mutex::new(connections)), permits }
    }

    /// Runs `work` on one consistent view of the database.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let closed = || StoreError::Unavailable(Closed.into());
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| closed())?;
        let (free, permits) = (Arc::clone(&self.free), Arc::clone(&self.permits));
        let reading = spawn_blocking(move || {
            // Held to the end of the work, not of the wait for it, and given back after the loan.
            let _permit = permit;
            let mut loan = Loan::take(free, permits);
            let connection = loan.connection.as_mut().ok_or_else(closed)?;
            work(&connection.transaction()?)
        });
        reading.await.map_err(|panicked| StoreError::Unavailable(panicked.into()))?
    }

    /// Closes every connection that is not in use; those in use follow when they are done.
    pub(super) fn close(&self) {
        self.permits.close();
        self.free.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

// === impl Loan ===

impl Loan {
    fn take(free: Arc<Mutex<Vec<Connection>>>, permits: Arc<Semaphore>) -> Self {
        let connection = free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Self { connection, free, permits }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.extend(self.connection.take().filter(|_| !self.permits.is_closed()));
    }
}
