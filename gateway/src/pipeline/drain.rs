//! Requests that go on without their client, because its key says so: the answer is read to its end,
//! for a while, so that what it used is the upstream's own word.
//!
//! Permit and hold stay with the request until then. A shutdown does not wait for it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::poll_fn;

use super::outcome::{Presence, RequestOutcome};
use super::relay::{Answer, Relay};
use super::request_guard::RequestGuard;
use super::{AppState, Fault};

/// What a request comes to, and its guard if that is open still.
type Outcome = (Result<Answer, Fault>, Option<RequestGuard>);
/// A request on its way.
pub(super) type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// How a request goes on without its client.
pub(super) struct Drain {
    app: Arc<AppState>,
    presence: Presence,
    /// For how long, from when the client has gone.
    limit: Duration,
}

/// Work that its client waits for. Dropped before its end, it goes on by itself.
struct Attended(Option<(Work, Drain)>);

// === impl Drain ===

impl Drain {
    /// A request that goes on for up to `limit`; `presence` is its guard's.
    pub(super) fn new(app: Arc<AppState>, presence: Presence, limit: Duration) -> Self {
        Self { app, presence, limit }
    }

    /// Does `work`, to its end even if its client goes away. The answer may be a stream, whose rest is
    /// read if that happens later.
    pub(super) async fn serve(
        self,
        work: Work,
        guard: &mut Option<RequestGuard>,
    ) -> Result<Answer, Fault> {
        let mut attended = Attended(Some((work, self)));
        let (outcome, open) = poll_fn(|context| attended.poll(context)).await;
        let drain = attended.0.take().map(|(_, drain)| Box::new(drain));
        *guard = open;
        let mut answer = outcome?;
        if let Answer::Stream { relay, .. } = &mut answer {
            relay.drained_by(drain);
        }
        Ok(answer)
    }

    /// Reads a stream that lost its client.
    pub(super) fn read_out(self, relay: Box<Relay>) {
        self.spawn(read(relay));
    }

    fn spawn(self, rest: impl Future<Output = ()> + Send + 'static) {
        let Self { app, presence, limit } = self;
        let cut_off = app.cut_off.clone();
        if cut_off.is_cancelled() {
            // it was not the client that went away
            return;
        }
        presence.end();
        // who is late is cancelled like anybody whose client has gone
        let rest = cut_off.run_until_cancelled_owned(tokio::time::timeout(limit, rest));
        app.tasks.spawn(rest);
    }
}

/// Waits for the end of a request that nobody else waits for.
async fn finish(work: Work) {
    let (outcome, guard) = work.await;
    match outcome {
        Ok(Answer::Stream { relay, .. }) => read(relay).await,
        Ok(Answer::Whole { .. } | Answer::Again(_)) => {}
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

impl Attended {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Outcome> {
        let (work, _) = self.0.as_mut().expect("it is not polled after its end");
        work.as_mut().poll(context)
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        if let Some((work, drain)) = self.0.take().filter(|_| !std::thread::panicking()) {
            drain.spawn(finish(work));
        }
    }
}
