//! Long reads, one at a time, each on a new connection, so that the pooled readers stay free.
//!
//! During a long read, the write-ahead log cannot be checkpointed and grows by what is written. Requests do
//! not wait for it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, InterruptHandle};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::connect;
use super::error::Closed;
use crate::StoreError;

/// Runs long reads.
pub(super) struct BackgroundReads {
    path: PathBuf,
    turn: Arc<Semaphore>,
}

/// Whether the caller still waits for the work.
#[derive(Default)]
pub(super) struct CancelHandle {
    gone: AtomicBool,
    at_work: Mutex<Vec<InterruptHandle>>,
}

/// Cancels the work when it is dropped.
struct CancelOnDrop(Arc<CancelHandle>);

impl BackgroundReads {
    /// Creates a runner for the database at `path`.
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), turn: Arc::new(Semaphore::new(1)) }
    }

    /// Runs `work`, which must check its handle from time to time.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection, &CancelHandle) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let turn = Arc::clone(&self.turn).acquire_owned().await;
        let turn = turn.map_err(|_| StoreError::Unavailable(Closed.into()))?;
        let path = self.path.clone();
        let opening = spawn_blocking(move || {
            let connection = connect(&path)?;
            connection.pragma_update(None, "query_only", true)?;
            connection.pragma_update(None, "cache_size", -16_384)?;
            Ok::<_, rusqlite::Error>(connection)
        });
        let mut connection =
            opening.await.map_err(|panic| StoreError::Unavailable(panic.into()))??;
        let wanted = Arc::new(CancelHandle::default());
        wanted.interrupts(&connection);
        let _waiting = CancelOnDrop(wanted.clone());
        let working = spawn_blocking(move || {
            // Held until the work ends, even if the caller stops waiting.
            let _turn = turn;
            work(&mut connection, &wanted)
        });
        working.await.map_err(|panic| StoreError::Unavailable(panic.into()))?
    }

    /// Returns the path of the database.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Rejects all further work.
    pub(super) fn close(&self) {
        self.turn.close();
    }
}

impl CancelHandle {
    /// Returns an error if the caller does not wait any more.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        if self.gone.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable(Closed.into()));
        }
        Ok(())
    }

    /// Interrupts a long statement on `connection` as well when the caller stops waiting.
    pub(super) fn interrupts(&self, connection: &Connection) {
        let handle = connection.get_interrupt_handle();
        self.at_work.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.gone.store(true, Ordering::Relaxed);
        let at_work = self.0.at_work.lock().unwrap_or_else(PoisonError::into_inner);
        at_work.iter().for_each(InterruptHandle::interrupt);
    }
}
