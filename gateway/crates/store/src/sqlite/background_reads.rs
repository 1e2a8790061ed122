//! Long reads, one at a time, each on a new connection, so that the pooled readers stay free.
//!
//! During a long read, the write-ahead log cannot be checkpointed completely and grows with each
//! write. Requests do not wait for it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, InterruptHandle};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::connect_reader;
use super::error::ClosedError;
use crate::StoreError;

/// Runs long reads.
pub(super) struct BackgroundReads {
    path: PathBuf,
    permit: Arc<Semaphore>,
}

/// Tells the work that its caller dropped the future.
#[derive(Default)]
pub(super) struct CancelHandle {
    is_cancelled: AtomicBool,
    connections: Mutex<Vec<InterruptHandle>>,
}

/// Cancels the work on drop.
struct CancelOnDrop(Arc<CancelHandle>);

impl BackgroundReads {
    /// Creates a runner for the database at `path`.
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), permit: Arc::new(Semaphore::new(1)) }
    }

    /// Runs `work`, which must call [`CancelHandle::check`] regularly.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the work.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection, &CancelHandle) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = Arc::clone(&self.permit).acquire_owned().await;
        let permit = permit.map_err(|_| StoreError::Unavailable(ClosedError.into()))?;
        let path = self.path.clone();
        let opening = spawn_blocking(move || connect_reader(&path));
        let mut connection =
            opening.await.map_err(|panic| StoreError::Unavailable(panic.into()))??;
        let cancel = Arc::new(CancelHandle::default());
        cancel.add_connection(&connection);
        let _guard = CancelOnDrop(cancel.clone());
        let working = spawn_blocking(move || {
            // Held until the work ends, even if the caller stops waiting.
            let _permit = permit;
            work(&mut connection, &cancel)
        });
        working.await.map_err(|panic| StoreError::Unavailable(panic.into()))?
    }

    /// Returns the path of the database.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Rejects all further work.
    pub(super) fn close(&self) {
        self.permit.close();
    }
}

impl CancelHandle {
    /// Returns an error if the work is cancelled.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        if self.is_cancelled.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable(ClosedError.into()));
        }
        Ok(())
    }

    /// Also interrupts running statements of `connection` on cancellation.
    pub(super) fn add_connection(&self, connection: &Connection) {
        let handle = connection.get_interrupt_handle();
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.is_cancelled.store(true, Ordering::Relaxed);
        let connections = self.0.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.iter().for_each(InterruptHandle::interrupt);
    }
}
