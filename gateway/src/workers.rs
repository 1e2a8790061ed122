//! The runtimes of the workers: a thread each, or the current runtime.

use std::io;
use std::num::NonZeroUsize;
use std::thread::{self, JoinHandle};

use tokio::runtime::Builder;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// Where workers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerRuntime {
    /// Each on its thread, with a single-threaded runtime.
    Threads,
    /// On the runtime that starts them, so that a test controls their time.
    Current,
}

/// The running workers.
pub struct Workers {
    runtime: WorkerRuntime,
    running: TaskTracker,
    /// Ends the threads, and with them everything that still runs there; also when a later worker cannot start.
    stop: CancellationToken,
    stop_on_drop: DropGuard,
    threads: Vec<JoinHandle<()>>,
}

/// Returns the default number of workers: the cores that this process may use.
pub fn default_workers() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

impl Workers {
    /// Creates a set without workers.
    pub fn new(runtime: WorkerRuntime) -> Self {
        let (running, stop) = (TaskTracker::new(), CancellationToken::new());
        let stop_on_drop = stop.clone().drop_guard();
        Self { runtime, running, stop, stop_on_drop, threads: Vec::new() }
    }

    /// Returns the tracker of the workers that have not ended.
    pub fn running(&self) -> &TaskTracker {
        &self.running
    }

    /// Starts a worker. Its thread lives until [`stop`](Self::stop), because tasks that the worker spawned may
    /// outlive its connections.
    ///
    /// # Errors
    /// The system has no resources for a thread.
    pub fn start(&mut self, worker: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
        if self.runtime == WorkerRuntime::Current {
            self.running.spawn(worker);
            return Ok(());
        }
        let worker = self.running.track_future(worker);
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let stop = self.stop.clone();
        let run = move || {
            runtime.block_on(async {
                worker.await;
                stop.cancelled().await;
            });
        };
        let name = format!("worker-{}", self.threads.len());
        self.threads.push(thread::Builder::new().name(name).spawn(run)?);
        Ok(())
    }

    /// Ends the threads. The caller has waited for all tasks that must not be lost.
    pub async fn stop(self) {
        drop(self.stop_on_drop);
        let join = move || self.threads.into_iter().try_for_each(JoinHandle::join);
        if !matches!(tokio::task::spawn_blocking(join).await, Ok(Ok(()))) {
            tracing::error!("a worker panicked");
        }
    }
}
