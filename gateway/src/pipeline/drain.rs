//! Requests that continue without their client because their key says so: the answer is read to its end, up
//! to a limit, to get the upstream's own usage.
//!
//! The request keeps its permit and hold meanwhile. A shutdown does not wait for it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::poll_fn;

use super::outcome::{ClientPresence, RequestOutcome};
use super::relay::{Answer, Relay};
use super::request_guard::RequestGuard;
use super::{AppState, Fault};

/// The result of a request, and its guard if it is still open.
type WorkResult = (Result<Answer, Fault>, Option<RequestGuard>);
/// A request in progress.
pub(super) type Work = Pin<Box<dyn Future<Output = WorkResult> + Send>>;

/// How a request continues without its client.
pub(super) struct Drain {
    app: Arc<AppState>,
    presence: ClientPresence,
    /// The time limit, from the client's disconnect.
    limit: Duration,
}

/// Work that a client waits for. If dropped before its end, the work continues in a task.
struct AttendedWork(Option<(Work, Drain)>);

// === impl Drain ===

impl Drain {
    /// Creates the drain of a request that continues for up to `limit`; `presence` is the one of its guard.
    pub(super) fn new(app: Arc<AppState>, presence: ClientPresence, limit: Duration) -> Self {
        Self { app, presence, limit }
    }

    /// Runs `work` to its end even if the client disconnects. If the answer is a stream, its rest is read
    /// after a later disconnect.
    pub(super) async fn serve(
        self,
        work: Work,
        guard: &mut Option<RequestGuard>,
    ) -> Result<Answer, Fault> {
        let mut attended = AttendedWork(Some((work, self)));
        let (outcome, open) = poll_fn(|context| attended.poll(context)).await;
        let drain = attended.0.take().map(|(_, drain)| Box::new(drain));
        *guard = open;
        let mut answer = outcome?;
        if let Answer::Stream { relay, .. } = &mut answer {
            relay.drained_by(drain);
        }
        Ok(answer)
    }

    /// Reads the rest of a stream whose client has disconnected.
    pub(super) fn read_rest(self, relay: Box<Relay>) {
        self.spawn(read(relay));
    }

    fn spawn(self, rest: impl Future<Output = ()> + Send + 'static) {
        let Self { app, presence, limit } = self;
        let cut_off = app.cut_off.clone();
        if cut_off.is_cancelled() {
            // The shutdown ended the request, not the client.
            return;
        }
        presence.end();
        // On timeout, cancels as for a client disconnect.
        let rest = cut_off.run_until_cancelled_owned(tokio::time::timeout(limit, rest));
        app.tasks.spawn(rest);
    }
}

/// Runs a request to its end without a client.
async fn finish(work: Work) {
    let (outcome, guard) = work.await;
    match outcome {
        Ok(Answer::Stream { relay, .. }) => read(relay).await,
        Ok(Answer::Whole { .. } | Answer::Replayed(_)) => {}
        Err(fault) => guard.into_iter().for_each(|guard| close(guard, &fault)),
    }
}

async fn read(mut relay: Box<Relay>) {
    while let Some(read) = poll_fn(|context| relay.poll_bytes(context)).await {
        if let Err(broken) = read {
            broken.guard.into_iter().for_each(|guard| close(guard, &broken.fault));
        }
    }
}

fn close(guard: RequestGuard, fault: &Fault) {
    guard.fail(
        fault,
        RequestOutcome { status: fault.status(), http_status: None, error_code: None },
    );
}

// === impl Attended ===

impl AttendedWork {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<WorkResult> {
        let (work, _) = self.0.as_mut().expect("it is not polled after its end");
        work.as_mut().poll(context)
    }
}

impl Drop for AttendedWork {
    fn drop(&mut self) {
        if let Some((work, drain)) = self.0.take().filter(|_| !std::thread::panicking()) {
            drain.spawn(finish(work));
        }
    }
}
