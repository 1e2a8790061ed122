//! Hedging: a second attempt beside one that is slow to answer.
//!
//! The attempt that is answered first serves the client, and the other one is cancelled. An upstream may charge its
//! operator for the work on a cancelled request; the client is charged once, for the answer that it gets. The number of
//! requests that are sent twice is bounded, so that upstreams that are slow because they are overloaded do not get
//! more requests for it; see [`HedgeBudget`](crate::upstream::HedgeBudget).

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};

use super::attempt::{Attempt, NextAttempt, Sender, UpstreamAnswer};
use super::{Fault, Forwarding, Outgoing};
use crate::pipeline::forwarded_request::failed_attempt_note;
use crate::upstream::{TriedCredentials, UpstreamError};
use domain::record::ServedBy;

/// The label of an attempt that was cancelled because another one was answered.
const CANCELLED: &str = "cancelled";

/// How an attempt has ended, beside which another one may have begun.
pub(super) enum HedgedEnd<'t> {
    /// One of them decides about the request.
    Decided(Attempt<'t>, Box<Result<UpstreamAnswer, UpstreamError>>),
    /// Both have failed, and other credentials of their upstreams may be tried.
    BothFailed(Box<BothFailed<'t>>),
}

/// Two attempts that failed with errors that justify a failover.
pub(super) struct BothFailed<'t> {
    pub(super) first: (Attempt<'t>, UpstreamError),
    pub(super) second: (Attempt<'t>, UpstreamError),
    /// The request of the second.
    pub(super) second_outgoing: Outgoing,
}

/// The attempt that ended last, its result, and the other one if it failed before.
type Finished<'t> =
    (Attempt<'t>, Result<UpstreamAnswer, UpstreamError>, Option<(Attempt<'t>, UpstreamError)>);

impl Forwarding<'_> {
    /// Runs an attempt that has begun, and beside it the one that `next` returns, if the first is not answered within
    /// `after`. If one fails with an error that justifies a failover, the other one decides.
    pub(super) async fn run_hedged<'t>(
        &mut self,
        first: Attempt<'t>,
        outgoing: &Outgoing,
        after: Duration,
        next: impl FnOnce() -> Option<(NextAttempt<'t>, Outgoing)>,
    ) -> HedgedEnd<'t> {
        let sender = self.sender;
        let first_target = first.target;
        let mut first_run = pin!(run(first.clone(), sender, outgoing));
        if let Ok(result) = tokio::time::timeout(after, first_run.as_mut()).await {
            return HedgedEnd::Decided(first, Box::new(result));
        }
        let Some((second, second_outgoing)) = next() else {
            return HedgedEnd::Decided(first, Box::new(first_run.await));
        };
        self.hedge_after = None;
        self.request.open.add_notes([format!("hedged_after={}ms", after.as_millis())]);
        self.request.start_hedge();
        // While the journal cannot be written, nothing more may be sent.
        let begun = self.begin_attempt(second, &second_outgoing).await;
        let (last, result, failed) = if let Ok(second) = begun {
            let second_run = pin!(run(second.clone(), sender, &second_outgoing));
            match select(first_run, second_run).await {
                Either::Left((result, run)) => self.finish(first, result, second, run).await,
                Either::Right((result, run)) => self.finish(second, result, first, run).await,
            }
        } else {
            (first, first_run.await, None)
        };
        let is_first = std::ptr::eq(last.target, first_target);
        if is_first {
            self.request.make_first_current(first_target, &outgoing.body);
        }
        match (result, failed) {
            (Err(error), Some(failed)) if error.is_retryable() => {
                self.fail_attempt(&last, &error);
                let last = (last, error);
                let (first, second) = if is_first { (last, failed) } else { (failed, last) };
                HedgedEnd::BothFailed(Box::new(BothFailed { first, second, second_outgoing }))
            }
            (result, _) => HedgedEnd::Decided(last, Box::new(result)),
        }
    }

    /// Tries the other credentials of the upstreams of two attempts, of which `tried` were before the first.
    ///
    /// # Errors
    /// As [`try_target`](Self::try_target).
    pub(super) async fn retry_both(
        &mut self,
        both: BothFailed<'_>,
        tried: TriedCredentials,
        outgoing: &Outgoing,
    ) -> Result<UpstreamAnswer, Fault> {
        let BothFailed { first, second, second_outgoing } = both;
        match self.retry(first, tried, outgoing).await {
            Err(Fault::Upstream(error)) if error.is_retryable() => {
                self.retry(second, TriedCredentials::default(), &second_outgoing).await
            }
            decided => decided,
        }
    }

    /// Tries again after an attempt that failed, with the credentials that are left.
    ///
    /// # Errors
    /// As [`try_target`](Self::try_target).
    async fn retry(
        &mut self,
        (mut attempt, mut error): (Attempt<'_>, UpstreamError),
        mut tried: TriedCredentials,
        outgoing: &Outgoing,
    ) -> Result<UpstreamAnswer, Fault> {
        self.request.note_lost_attempts();
        loop {
            tried.insert(attempt.credential);
            let Attempt { target, upstream_client, .. } = attempt;
            let now = self.sender.app.clock.monotonic();
            let next = upstream_client.choose_next_credential(tried, &error, now);
            let Some(credential) = next else { return Err(error.into()) };
            let next = NextAttempt { target, upstream_client, credential };
            attempt = self.begin_attempt(next, outgoing).await?;
            let answer = attempt.run(self.sender, outgoing).await;
            self.end_attempt(&attempt, &answer);
            error = match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
        }
    }

    /// Continues once one of two attempts has ended: with its result, or by waiting for the other one.
    async fn finish<'t>(
        &mut self,
        ended: Attempt<'t>,
        result: Result<UpstreamAnswer, UpstreamError>,
        other: Attempt<'t>,
        other_run: impl Future<Output = Result<UpstreamAnswer, UpstreamError>>,
    ) -> Finished<'t> {
        match result {
            Err(error) if error.is_retryable() => {
                self.fail_attempt(&ended, &error);
                self.request.open.add_notes(self.failed.take());
                let result = other_run.await;
                (other, result, Some((ended, error)))
            }
            result => {
                let took = other.elapsed(self.sender.app);
                other.upstream_client.record_cancelled(took, self.sender.app.clock.monotonic());
                let (target, number) = (ServedBy::from(other.target), other.credential_number());
                let note = failed_attempt_note(&target, number, CANCELLED, took);
                self.request.open.add_notes([note]);
                let label = CANCELLED.into();
                self.end_traced_attempt(other.context(), Some(&other.send_status), label);
                (ended, result, None)
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
