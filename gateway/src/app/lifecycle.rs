//! The signals that end a gateway, and the groups of tasks that its shutdown waits for.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The signals and the tasks of a gateway. [`run`](super::run) ends them in order.
#[derive(Clone)]
pub(super) struct Lifecycle {
    /// Begins the shutdown: no connection is accepted after it and the delay that is set.
    pub(super) shutdown: CancellationToken,
    /// Ends the requests that are still in progress when the shutdown stops waiting for them.
    pub(super) cut_off: CancellationToken,
    /// Cancelled during the shutdown when only requests in progress are left.
    pub(super) draining: CancellationToken,
    /// Drops the connections that are left after requests have had time to end.
    pub(super) abort: CancellationToken,
    /// The work of requests that may continue after their connections have ended.
    pub(super) request_tasks: TaskTracker,
    /// Changes by the admin plane.
    pub(super) change_tasks: TaskTracker,
    /// The tasks that requests need until the last one has ended and its record is written.
    pub(super) background: BackgroundTasks,
}

/// Tasks that run in the background of the requests, such as the recorder.
#[derive(Clone, Default)]
pub(super) struct BackgroundTasks {
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl Lifecycle {
    /// Creates the lifecycle of a gateway that `shutdown` ends.
    pub(super) fn new(shutdown: CancellationToken) -> Self {
        Self {
            shutdown,
            cut_off: CancellationToken::new(),
            draining: CancellationToken::new(),
            abort: CancellationToken::new(),
            request_tasks: TaskTracker::new(),
            change_tasks: TaskTracker::new(),
            background: BackgroundTasks::default(),
        }
    }
}

// === impl BackgroundTasks ===

impl BackgroundTasks {
    /// Runs `task` until the stop, which drops it.
    pub(super) fn spawn_until_stop(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tracker.spawn(self.stop.clone().run_until_cancelled_owned(task));
    }

    /// Runs the future that `task` makes of the token of the stop, which waits until the future has ended.
    pub(super) fn spawn<F>(&self, task: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.tracker.spawn(task(self.stop.clone()));
    }

    /// Stops all tasks and waits until they have ended.
    pub(super) async fn stop(&self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}
