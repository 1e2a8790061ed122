//! The phases of the shutdown.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tokio::task::coop::{Unconstrained, unconstrained};

/// A phase of the shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Phase {
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
    phases: Arc<Phases>,
}

/// The current phase, and who waits for later ones.
#[derive(Debug)]
struct Phases {
    /// The current phase as a number; checked with each frame of a stream and each poll of a connection.
    entered: AtomicU8,
    /// For each phase after the first, notified once it or a later one is entered, and never before: a waiter that is
    /// woken needs not register again.
    entries: [Arc<Notify>; PHASES.len() - 1],
}

/// The phases, by their numbers.
const PHASES: [Phase; 4] = [Phase::Serving, Phase::Grace, Phase::Draining, Phase::Ending];

/// Wakes a task when the phase changes. It must always be polled with the same waker, which is registered once for each
/// phase: registering takes a lock that all workers share. It has no cooperative budget, because the waker of a task whose
/// budget is used up would not be registered.
pub(super) struct PhaseWatch {
    phases: Arc<Phases>,
    /// The last phase that was returned.
    seen: Phase,
    /// The registration for the phase after `seen`.
    next: Option<Pin<Box<Unconstrained<OwnedNotified>>>>,
}

// === impl Shutdown ===

impl Shutdown {
    pub(super) fn new() -> Self {
        let entered = AtomicU8::new(Phase::Serving as u8);
        let phases = Arc::new(Phases { entered, entries: Default::default() });
        Self { is_ready: AtomicBool::new(true), phases }
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
        self.phases.entered() == Phase::Ending
    }

    /// Returns whether connections end with their requests in progress.
    pub(super) fn is_draining(&self) -> bool {
        self.phases.entered() != Phase::Serving
    }

    /// Returns whether connections end that have not had a request.
    pub(super) fn ends_unused(&self) -> bool {
        self.phases.entered() >= Phase::Draining
    }

    /// Returns the output of `work`, or `None` if connections without a request end before.
    pub(super) async fn unless_draining<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut phase = self.watch();
        let draining = async {
            while poll_fn(|context| phase.poll_changed(context)).await < Phase::Draining {}
        };
        tokio::select! {
            biased;
            output = work => Some(output),
            () = draining => None,
        }
    }

    /// Enters `phase`, and wakes the watchers.
    pub(super) fn enter(&self, phase: Phase) {
        self.phases.entered.store(phase as u8, Ordering::Release);
        for entry in &self.phases.entries[..phase as usize] {
            entry.notify_waiters();
        }
    }

    /// Watches for the phases after the first. A task that begins later sees the current one.
    pub(super) fn watch(&self) -> PhaseWatch {
        PhaseWatch { phases: self.phases.clone(), seen: Phase::Serving, next: None }
    }
}

// === impl Phases ===

impl Phases {
    fn entered(&self) -> Phase {
        PHASES[usize::from(self.entered.load(Ordering::Acquire))]
    }
}

// === impl PhaseWatch ===

impl PhaseWatch {
    /// Ready with each phase that is entered. A phase that follows immediately replaces the one before it.
    pub(super) fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<Phase> {
        loop {
            let entered = self.phases.entered();
            if entered != self.seen {
                self.seen = entered;
                self.next = None;
                return Poll::Ready(entered);
            }
            if self.next.is_some() {
                return Poll::Pending;
            }
            let Some(entry) = self.phases.entries.get(entered as usize) else {
                return Poll::Pending;
            };
            let mut next = Box::pin(unconstrained(entry.clone().notified_owned()));
            // The phase is read again, because it may have been entered before the registration.
            _ = next.as_mut().poll(context);
            self.next = Some(next);
            if self.phases.entered() == self.seen {
                return Poll::Pending;
            }
        }
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
            let shutdown = Arc::new(Shutdown::new());
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
                            let mut changed = poll_fn(|context| phase.poll_changed(context));
                            while (&mut changed).await != Phase::Ending {}
                        });
                    }
                    tokio::task::yield_now().await;
                    registered.send(()).unwrap();
                    let all = tokio::time::timeout(PATIENCE, tasks.join_all());
                    all.await.expect("a task was not woken").len()
                })
            });
            ready.recv().unwrap();
            for phase in [Phase::Grace, Phase::Draining, Phase::Ending] {
                shutdown.enter(phase);
            }
            assert_eq!(worker.join().unwrap(), TASKS);
        }
    }

    #[tokio::test]
    async fn a_late_watcher_sees_the_current_phase() {
        let shutdown = Shutdown::new();
        shutdown.enter(Phase::Draining);
        let mut phase = shutdown.watch();
        assert_eq!(poll_fn(|context| phase.poll_changed(context)).await, Phase::Draining);
        shutdown.enter(Phase::Ending);
        assert_eq!(poll_fn(|context| phase.poll_changed(context)).await, Phase::Ending);
    }
}
