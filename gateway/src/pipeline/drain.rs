//! Requests that continue without their client because their key says so: the answer is read to its end, up
//! to a limit, to get the upstream's own usage.
//!
//! The request keeps its permit and hold meanwhile. It runs among the tasks of the gateway until it ends, its
//! time limit passes, it is cancelled, or a shutdown stops waiting for requests.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::poll_fn;

use super::AppState;
use super::answer::Answer;
use super::failed_request::FailedRequest;
use super::outcome::{ClientDisconnected, RequestOutcome};
use super::relay::{BrokenStream, Relay};
use domain::id::RequestId;

type WorkResult = Result<Answer, Box<FailedRequest>>;
/// A request in progress.
pub(super) type Work = Pin<Box<dyn Future<Output = WorkResult> + Send>>;

/// How a request continues without its client.
pub(super) struct Drain {
    app: Arc<AppState>,
    id: RequestId,
    client_disconnected: ClientDisconnected,
    /// The time limit, from the client's disconnect.
    limit: Duration,
}

/// Work that a client waits for. If dropped before its end, the work continues in a task.
struct AttendedWork(Option<(Work, Drain)>);

// === impl Drain ===

impl Drain {
    /// Creates the drain of the request `id`, which continues for up to `limit`; `client_disconnected` is its own.
    pub(super) fn new(
        app: Arc<AppState>,
        id: RequestId,
        client_disconnected: ClientDisconnected,
        limit: Duration,
    ) -> Self {
        Self { app, id, client_disconnected, limit }
    }

    /// Runs `work` to its end even if the client disconnects. If the answer is a stream, its rest is read
    /// after a later disconnect.
    pub(super) async fn serve(self, work: Work) -> WorkResult {
        let mut attended = AttendedWork(Some((work, self)));
        let served = poll_fn(|context| attended.poll(context)).await;
        let drain = attended.0.take().map(|(_, drain)| drain);
        let mut answer = served?;
        if let (Answer::Stream { relay, .. }, Some(drain)) = (&mut answer, drain) {
            relay.set_on_disconnect(Box::new(move |relay| drain.spawn(read_rest(relay))));
        }
        Ok(answer)
    }

    fn spawn(self, rest: impl Future<Output = ()> + Send + 'static) {
        let Self { app, id, client_disconnected, limit } = self;
        let cut_off = app.cut_off.clone();
        if cut_off.is_cancelled() || app.cancellations.is_cancelled(id) {
            // The shutdown or a cancellation ended the request, not the client.
            return;
        }
        client_disconnected.set();
        let cancellations = app.cancellations.clone();
        // On timeout, and if the request is cancelled, it ends as by a client disconnect.
        let rest = async move {
            tokio::select! {
                () = rest => {}
                () = cancellations.cancelled(id) => {}
                () = tokio::time::sleep(limit) => {}
            }
        };
        let rest = cut_off.run_until_cancelled_owned(rest);
        app.tasks.spawn(rest);
    }
}

/// Runs a request to its end without a client.
async fn finish(work: Work) {
    match work.await {
        Ok(Answer::Stream { relay, .. }) => read_rest(relay).await,
        Ok(Answer::Whole { .. } | Answer::Replayed(_)) => {}
        Err(failed) => {
            let outcome = RequestOutcome::unseen(failed.fault.status());
            failed.close(outcome);
        }
    }
}

/// Reads the rest of a stream whose client has disconnected.
async fn read_rest(mut relay: Box<Relay>) {
    while let Some(read) = poll_fn(|context| relay.poll_bytes(context)).await {
        if let Err(broken) = read {
            let BrokenStream { fault, request, .. } = *broken;
            request.fail(&fault, RequestOutcome::unseen(fault.status_of_stream()));
        }
    }
}

// === impl AttendedWork ===

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
