//! Long reads, one at a time, each on a new connection, so that the pooled readers stay free.
//!
//! During a long read, the write-ahead log cannot be checkpointed completely and grows with each
//! write, beyond the threshold of `checkpoint.rs`. Writes do not wait for the read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::cancel::CancelHandle;
use super::connect_reader;
use super::error::ClosedError;
use crate::StoreError;

/// Runs long reads.
pub(super) struct BackgroundReads {
    path: PathBuf,
    permit: Arc<Semaphore>,
}

impl BackgroundReads {
    /// Creates a runner for the database at `path`.
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), permit: Arc::new(Semaphore::new(1)) }
    }

    /// Runs `work`, which must call [`CancelHandle::check`] between statements.
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
        let cancel = CancelHandle::default();
        cancel.add_connection(&connection)?;
        let _guard = cancel.cancel_on_drop();
        let working = spawn_blocking(move || {
            // Held until the work ends, even if the caller stops waiting.
            let _permit = permit;
            cancel.check()?;
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
