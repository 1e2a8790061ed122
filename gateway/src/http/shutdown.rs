//! The phases of the shutdown.

use std::future::pending;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::sync::watch;

/// A phase of the shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// There is no shutdown.
    Serving,
    /// Requests in progress continue; connections end with them.
    Draining,
    /// Requests in progress end now, each with an error that its client can read.
    Ending,
}

/// The state of the shutdown. One for the whole gateway.
#[derive(Debug)]
pub(super) struct Shutdown {
    /// Whether requests should be sent here.
    is_ready: AtomicBool,
    /// Whether the phase is [`Phase::Ending`]; checked with each frame of a stream.
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
        self.is_ending.load(Ordering::Acquire)
    }

    /// Enters `phase`, and wakes the watchers.
    pub(super) fn enter(&self, phase: Phase) {
        self.is_ending.store(phase == Phase::Ending, Ordering::Release);
        self.phase.send_replace(phase);
    }

    /// Watches for the next phase.
    pub(super) fn watch(&self) -> PhaseWatch {
        let mut phase = self.phase.subscribe();
        // A task that begins after the change must see it as well.
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
        // The sender is gone, so no phase follows.
        return pending().await;
    }
    let entered = *phase.borrow_and_update();
    (entered, phase)
}
