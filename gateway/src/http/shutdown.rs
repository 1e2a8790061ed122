//! The phases of the shutdown.

use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll, ready};

use tokio::sync::watch;
use tokio::task::coop;

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
    /// The phase as a number; checked with each frame of a stream and each poll of a connection.
    entered: Arc<AtomicU8>,
    phase: watch::Sender<Phase>,
}

/// Wakes a task when the phase changes. It must always be polled with the same waker, which is registered once:
/// polling the channel takes a lock that all workers share. The channel is polled without a cooperative budget,
/// because it does not register the waker of a task whose budget is used up.
pub(super) struct PhaseWatch {
    changed: Pin<Box<dyn Future<Output = (Phase, watch::Receiver<Phase>)> + Send>>,
    is_registered: bool,
    entered: Arc<AtomicU8>,
    /// The last phase that was returned.
    seen: Phase,
}

// === impl Shutdown ===

impl Shutdown {
    pub(super) fn new() -> Self {
        let entered = Arc::new(AtomicU8::new(Phase::Serving as u8));
        let phase = watch::Sender::new(Phase::Serving);
        Self { is_ready: AtomicBool::new(true), entered, phase }
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
        self.entered.load(Ordering::Acquire) == Phase::Ending as u8
    }

    /// Returns whether connections end with their requests in progress.
    pub(super) fn is_draining(&self) -> bool {
        self.entered.load(Ordering::Acquire) != Phase::Serving as u8
    }

    /// Returns whether connections end that have not had a request.
    pub(super) fn ends_unused(&self) -> bool {
        self.entered.load(Ordering::Acquire) >= Phase::Draining as u8
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
        self.entered.store(phase as u8, Ordering::Release);
        self.phase.send_replace(phase);
    }

    /// Watches for the next phase.
    pub(super) fn watch(&self) -> PhaseWatch {
        let mut phase = self.phase.subscribe();
        // A task that begins after the change must see it as well.
        if *phase.borrow() != Phase::Serving {
            phase.mark_changed();
        }
        PhaseWatch {
            changed: Box::pin(coop::unconstrained(changed(phase))),
            is_registered: false,
            entered: self.entered.clone(),
            seen: Phase::Serving,
        }
    }
}

impl PhaseWatch {
    /// Ready with each phase that is entered.
    pub(super) fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<Phase> {
        if self.is_registered && self.entered.load(Ordering::Acquire) == self.seen as u8 {
            return Poll::Pending;
        }
        self.is_registered = true;
        let (entered, phase) = ready!(self.changed.as_mut().poll(context));
        self.changed = Box::pin(coop::unconstrained(changed(phase)));
        self.is_registered = false;
        self.seen = entered;
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
