//! Cancellation of reads whose caller dropped the future.

use std::os::raw::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;

use super::error::CancelledError;
use crate::StoreError;

/// The approximate number of instructions of a statement between two checks: a few microseconds.
const INSTRUCTIONS_PER_CHECK: c_int = 1_000;

/// Cancels the work of a future that its caller dropped.
#[derive(Clone, Default)]
pub(super) struct CancelHandle {
    is_cancelled: Arc<AtomicBool>,
}

/// Cancels the work on drop.
pub(super) struct CancelOnDrop(CancelHandle);

impl CancelHandle {
    /// Returns an error if the work is cancelled.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        if self.is_cancelled.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable(CancelledError.into()));
        }
        Ok(())
    }

    /// On cancellation, interrupts the running statement of `connection` and all later ones, until
    /// another handle replaces this one. (`sqlite3_interrupt` would only affect a running
    /// statement, so a cancellation between two statements would be lost.)
    pub(super) fn add_connection(&self, connection: &Connection) -> rusqlite::Result<()> {
        let is_cancelled = Arc::clone(&self.is_cancelled);
        let handler = move || is_cancelled.load(Ordering::Relaxed);
        connection.progress_handler(INSTRUCTIONS_PER_CHECK, Some(handler))
    }

    /// Returns a guard that cancels the work on drop.
    pub(super) fn cancel_on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.is_cancelled.store(true, Ordering::Relaxed);
    }
}
