//! Hedging: a second attempt beside one that is slow to answer.
//!
//! The attempt that is answered first serves the client, and the other one is cancelled. An upstream may charge its
//! operator for the work on a cancelled request; the client is charged once, for the answer that it gets. The number of
//! requests that are sent twice is bounded, so that upstreams that are slow because they are overloaded do not get
//! more requests for it; see [`HedgeBudget`](crate::upstream::HedgeBudget).

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};

use super::attempt::{Attempt, Sender, UpstreamAnswer};
use super::{Forwarding, Outgoing};
use crate::pipeline::forwarded_request::failed_attempt_note;
use crate::upstream::UpstreamError;
use domain::record::ServedBy;

/// The label of an attempt that was cancelled because another one was answered.
const CANCELLED: &str = "cancelled";

/// The attempt that decides about a request, and its result.
pub(super) type Ended<'t> = (Attempt<'t>, Result<UpstreamAnswer, UpstreamError>);

impl Forwarding<'_> {
    /// Runs an attempt that has begun, and beside it the one that `next` returns, if the first is not answered within
    /// `after`. If one fails with an error that justifies a failover, the other one decides.
    pub(super) async fn run_hedged<'t>(
        &mut self,
        first: Attempt<'t>,
        outgoing: &Outgoing,
        after: Duration,
        next: impl FnOnce() -> Option<(Attempt<'t>, Outgoing)>,
    ) -> Ended<'t> {
        let sender = self.sender;
        let first_target = first.target;
        let mut first_run = pin!(run(first.clone(), sender, outgoing));
        if let Ok(result) = tokio::time::timeout(after, first_run.as_mut()).await {
            return (first, result);
        }
        let Some((mut second, second_outgoing)) = next() else { return (first, first_run.await) };
        self.hedge_after = None;
        self.request.open.add_notes([format!("hedged_after={}ms", after.as_millis())]);
        self.request.begin_second_attempt(second.send_status.clone());
        let number = second.credential_number();
        // While the journal cannot be written, nothing more may be sent.
        let begun = self.begin_attempt(second.target, number, &second_outgoing).await;
        let ended = if let Ok(context) = begun {
            second.context = context;
            let second_run = pin!(run(second.clone(), sender, &second_outgoing));
            match select(first_run, second_run).await {
                Either::Left((result, run)) => self.finish(first, result, second, run).await,
                Either::Right((result, run)) => self.finish(second, result, first, run).await,
            }
        } else {
            (first, first_run.await)
        };
        if std::ptr::eq(ended.0.target, first_target) {
            self.request.resume_first_attempt(first_target, &outgoing.body);
        }
        ended
    }

    /// Continues once one of two attempts has ended: with its result, or by waiting for the other one.
    async fn finish<'t>(
        &mut self,
        ended: Attempt<'t>,
        result: Result<UpstreamAnswer, UpstreamError>,
        other: Attempt<'t>,
        other_run: impl Future<Output = Result<UpstreamAnswer, UpstreamError>>,
    ) -> Ended<'t> {
        match result {
            Err(error) if error.is_retryable() => {
                let took = ended.elapsed(self.sender.app);
                self.end_attempt(ended.target, ended.credential_number(), &error, took);
                let label = error.label();
                self.end_traced_attempt(ended.context(), Some(&ended.send_status), label);
                self.request.open.add_notes(self.failed.take());
                let result = other_run.await;
                (other, result)
            }
            result => {
                let took = other.elapsed(self.sender.app);
                other.upstream_client.record_cancelled(took, self.sender.app.clock.monotonic());
                let (target, number) = (ServedBy::from(other.target), other.credential_number());
                let note = failed_attempt_note(&target, number, CANCELLED, took);
                self.request.open.add_notes([note]);
                let label = CANCELLED.into();
                self.end_traced_attempt(other.context(), Some(&other.send_status), label);
                (ended, result)
            }
        }
    }
}

/// Runs an attempt that the future owns.
async fn run(
    attempt: Attempt<'_>,
    sender: &Sender<'_>,
    outgoing: &Outgoing,
) -> Result<UpstreamAnswer, UpstreamError> {
    attempt.run(sender, outgoing).await
}
