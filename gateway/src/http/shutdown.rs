//! The phases of the shutdown.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll};

use crate::broadcast::{Broadcast, BroadcastWatch};

/// A phase of the shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum ShutdownPhase {
    /// There is no shutdown.
    Serving,
    /// No more connections are accepted. Those that have had a request end with it. Those that have not may send one: their
    /// clients connected before the shutdown, and would lose the request that they are sending.
    Grace,
    /// Requests in progress continue; connections end with them, and those without a request end now.
    Draining,
    /// Requests in progress end now, each with an error that its client can read.
    Ending,
}

/// The state of the shutdown. One for the whole gateway.
#[derive(Debug)]
pub(super) struct Shutdown {
    /// Whether requests should be sent here.
    is_ready: AtomicBool,
    phase: Arc<CurrentPhase>,
    /// Wakes the tasks of connections and streams.
    broadcast: Arc<Broadcast>,
}

/// The current phase as a number; checked with each frame of a stream and each poll of a connection.
#[derive(Debug)]
struct CurrentPhase(AtomicU8);

/// The phases, by their numbers.
const PHASES: [ShutdownPhase; 4] =
    [ShutdownPhase::Serving, ShutdownPhase::Grace, ShutdownPhase::Draining, ShutdownPhase::Ending];

/// Wakes a task when the phase changes; see [`BroadcastWatch`].
pub(super) struct PhaseWatch {
    phase: Arc<CurrentPhase>,
    woken: BroadcastWatch,
}

// === impl Shutdown ===

impl Shutdown {
    /// Creates the state of a gateway that serves, whose tasks are woken by `broadcast`.
    pub(super) fn new(broadcast: Arc<Broadcast>) -> Self {
        let phase = Arc::new(CurrentPhase(AtomicU8::new(ShutdownPhase::Serving as u8)));
        Self { is_ready: AtomicBool::new(true), phase, broadcast }
    }

    /// Returns whether requests should be sent here.
    pub(super) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed)
    }

    /// Records that no requests should be sent here any more.
    pub(super) fn set_unready(&self) {
        self.is_ready.store(false, Ordering::Relaxed);
    }

    /// Returns whether requests in progress must end now.
    pub(super) fn is_ending(&self) -> bool {
        self.phase.get() == ShutdownPhase::Ending
    }

    /// Returns whether connections end with their requests in progress.
    pub(super) fn is_draining(&self) -> bool {
        self.phase.get() != ShutdownPhase::Serving
    }

    /// Returns whether connections end that have not had a request.
    pub(super) fn ends_unused(&self) -> bool {
        self.phase.get() >= ShutdownPhase::Draining
    }

    /// Returns the output of `work`, or `None` if connections without a request end before.
    pub(super) async fn unless_draining<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut phase = self.watch();
        let draining = async {
            while poll_fn(|context| phase.poll_woken(context)).await < ShutdownPhase::Draining {}
        };
        tokio::select! {
            biased;
            output = work => Some(output),
            () = draining => None,
        }
    }

    /// Enters `phase`, and wakes the watchers.
    pub(super) fn enter(&self, phase: ShutdownPhase) {
        self.phase.0.store(phase as u8, Ordering::Release);
        self.broadcast.wake();
    }

    /// Watches for the phases after the first. A task that begins later sees the current one.
    pub(super) fn watch(&self) -> PhaseWatch {
        PhaseWatch { phase: self.phase.clone(), woken: self.broadcast.watch() }
    }
}

// === impl CurrentPhase ===

impl CurrentPhase {
    fn get(&self) -> ShutdownPhase {
        PHASES[usize::from(self.0.load(Ordering::Acquire))]
    }
}

// === impl PhaseWatch ===

impl PhaseWatch {
    /// Ready with the current phase after each wake-up, which may be for another reason than a new phase. A phase that
    /// follows immediately replaces the one before it.
    pub(super) fn poll_woken(&mut self, context: &mut Context<'_>) -> Poll<ShutdownPhase> {
        self.woken.poll_woken(context).map(|()| self.phase.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: a task that registered for the next phase while the current one was still being announced was
    /// woken for the current one, and lost its registration.
    #[test]
    fn no_task_misses_a_phase_whatever_the_threads_do() {
        const TASKS: usize = 64;
        const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);
        for _ in 0..200 {
            let shutdown = Arc::new(Shutdown::new(Arc::default()));
            let watched = shutdown.clone();
            let (registered, ready) = std::sync::mpsc::channel();
            let worker = std::thread::spawn(move || {
                let mut runtime = tokio::runtime::Builder::new_current_thread();
                let runtime = runtime.enable_time().build().unwrap();
                runtime.block_on(async {
                    let mut tasks = tokio::task::JoinSet::new();
                    for _ in 0..TASKS {
                        let mut phase = watched.watch();
                        tasks.spawn(async move {
                            let mut changed = poll_fn(|context| phase.poll_woken(context));
                            while (&mut changed).await != ShutdownPhase::Ending {}
                        });
                    }
                    tokio::task::yield_now().await;
                    registered.send(()).unwrap();
                    let all = tokio::time::timeout(PATIENCE, tasks.join_all());
                    all.await.expect("a task was not woken").len()
                })
            });
            ready.recv().unwrap();
            for phase in [ShutdownPhase::Grace, ShutdownPhase::Draining, ShutdownPhase::Ending] {
                shutdown.enter(phase);
            }
            assert_eq!(worker.join().unwrap(), TASKS);
        }
    }

    #[tokio::test]
    async fn a_late_watcher_sees_the_current_phase() {
        let shutdown = Shutdown::new(Arc::default());
        shutdown.enter(ShutdownPhase::Draining);
        let mut phase = shutdown.watch();
        assert_eq!(poll_fn(|context| phase.poll_woken(context)).await, ShutdownPhase::Draining);
        shutdown.enter(ShutdownPhase::Ending);
        assert_eq!(poll_fn(|context| phase.poll_woken(context)).await, ShutdownPhase::Ending);
    }
}
