//! The writing connection, on its own thread.
//!
//! Jobs run in the order in which they were sent, each in one transaction. Start with
//! [`Writer::write`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::oneshot;

use super::checkpoint::CheckpointThreshold;
use super::error::{ClosedError, PanickedError};
use crate::StoreError;

/// The handle of the writer thread. Dropping it waits for all queued jobs.
pub(super) struct Writer {
    // Unbounded. A caller waits for its reply before it sends another job, but the job of a caller
    // that gave up waiting stays in the queue.
    jobs: Sender<Message>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

enum Message {
    Job(Box<dyn FnOnce(&mut Connection) + Send>),
    End,
}

// === impl Writer ===

impl Writer {
    /// Starts the thread, which owns `connection` until [`Self::end`].
    pub(super) fn start(connection: Connection) -> std::io::Result<Self> {
        let (jobs, inbox) = channel();
        let thread = Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || serve(connection, &inbox))?;
        Ok(Self { jobs, thread: Mutex::new(Some(thread)) })
    }

    /// Runs `work` in a transaction that is committed if it returns `Ok`.
    ///
    /// # Cancel safety
    /// Dropping the future does not undo the work.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(move |connection: &mut Connection| {
            // Fails if the caller dropped the future; the work is committed nevertheless.
            let _ = reply.send(transact_or_panic_error(connection, work));
        });
        self.jobs
            .send(Message::Job(job))
            .map_err(|_| StoreError::Unavailable(ClosedError.into()))?;
        answer.await.map_err(|_| StoreError::Unavailable(ClosedError.into()))?
    }

    /// Waits for all queued jobs and ends the thread. Blocks.
    pub(super) fn end(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // Either fails only if the thread has ended.
            let _ = self.jobs.send(Message::End);
            let _ = thread.join();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.end();
    }
}

fn serve(mut connection: Connection, inbox: &Receiver<Message>) {
    let mut threshold = CheckpointThreshold::of(&connection);
    while let Ok(Message::Job(job)) = inbox.recv() {
        job(&mut connection);
        threshold.update(&connection);
    }
}

/// Like [`transact`], with an error if `work` panics: later jobs must not be affected.
fn transact_or_panic_error<T>(
    connection: &mut Connection,
    work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    // The transaction is rolled back while unwinding.
    catch_unwind(AssertUnwindSafe(|| transact(connection, work)))
        .unwrap_or_else(|_| Err(StoreError::Unavailable(PanickedError.into())))
}

fn transact<T>(
    connection: &mut Connection,
    work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let answer = work(&transaction)?;
    transaction.commit()?;
    Ok(answer)
}
