//! How far the shutdown is, for all who have to act on it.

use std::future::pending;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::sync::watch;

/// How far the shutdown is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// There is none.
    Serving,
    /// Requests under way go on; connections end with them.
    Draining,
    /// Requests under way end now, each with an error that its client can read.
    Ending,
}

/// The state of the shutdown. One for the whole gateway.
#[derive(Debug)]
pub(super) struct Shutdown {
    /// Whether requests should be sent here.
    is_ready: AtomicBool,
    /// Whether the phase is [`Phase::Ending`]: asked for with every frame of a stream.
    is_ending: AtomicBool,
    phase: watch::Sender<Phase>,
}

/// Wakes a task when the phase changes.
pub(super) struct PhaseWatch(Pin<Box<dyn Future<Output = (Phase, watch::Receiver<Phase>)> + Send>>);

// === impl Shutdown ===

impl Shutdown {
    pub(super) fn new() -> Self {
        let (is_ready, is_ending) = (AtomicBool::new(true), AtomicBool::new(false));
        Self { is_ready, is_ending, phase: watch::Sender::new(Phase::Serving) }
    }

    /// Whether requests should be sent here.
    pub(super) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed)
    }

    /// Notes that no requests should be sent here any more.
    pub(super) fn set_unready(&self) {
        self.is_ready.store(false, Ordering::Relaxed);
    }

    /// Whether requests under way have to end now.
    pub(super) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    /// Goes on to `phase`, and wakes those who watch.
    pub(super) fn enter(&self, phase: Phase) {
        self.is_ending.store(phase == Phase::Ending, Ordering::Release);
        self.phase.send_replace(phase);
    }

    /// Watches for the next phase.
    pub(super) fn watch(&self) -> PhaseWatch {
        let mut phase = self.phase.subscribe();
        // a task that begins after the change has to see it, too
        if *phase.borrow() != Phase::Serving {
            phase.mark_changed();
        }
        PhaseWatch(Box::pin(changed(phase)))
    }
}

impl PhaseWatch {
    /// Ready with each phase that is entered.
    pub(super) fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<Phase> {
        let (entered, phase) = ready!(self.0.as_mut().poll(context));
        self.0 = Box::pin(changed(phase));
        Poll::Ready(entered)
    }
}

async fn changed(mut phase: watch::Receiver<Phase>) -> (Phase, watch::Receiver<Phase>) {
    if phase.changed().await.is_err() {
        // nobody is left who could enter another one
        return pending().await;
    }
    let entered = *phase.borrow_and_update();
    (entered, phase)
}
