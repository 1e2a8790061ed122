//! The early end of a stream: its upstream failed, its client has left, or the gateway ends it.

use std::task::{Context, Poll};
use std::time::Duration;

use super::Relay;
use super::broken::BrokenRequest;
use super::source::Source;
use crate::pipeline::Fault;
use crate::pipeline::outcome::RequestOutcome;
use crate::pipeline::stream_adapter::StreamAdapter;
use domain::refusal::Refusal;

impl Relay {
    /// Ends the stream early because of `fault`: the bytes so far are returned first. Nothing more is read,
    /// but a forwarding in progress is kept until its request is settled with the outcome of `fault`.
    pub fn interrupt(&mut self, fault: Fault) {
        if self.is_settled() || self.failure.is_some() || self.adapter.is_done() {
            return;
        }
        self.release_uncovered();
        if let Source::Reading(_) = self.source {
            self.source = Source::Ended;
        }
        self.failure = Some(fault);
    }

    /// Decides on the bytes that wait for coverage when the stream ends early, as
    /// [`StreamAdapter::cut_short`] does: a chat client does not get them, a Responses client does.
    fn release_uncovered(&mut self) {
        let Some(uncovered) = self.uncovered.take() else { return };
        match &self.adapter {
            StreamAdapter::Chat(_) => {
                if let Some(request) = &mut self.request {
                    request.withhold(&uncovered);
                }
            }
            StreamAdapter::Responses(_) => self.out.unsplit(uncovered),
            StreamAdapter::Taken => {}
        }
    }

    /// Returns the reason why the stream broke, and its request; `None` if it has ended without one.
    pub(super) fn take_broken(&mut self) -> Option<(Fault, BrokenRequest)> {
        let source = std::mem::replace(&mut self.source, Source::Ended);
        self.answer_recorder = None;
        // A failure without a request does not occur: it is only set while the request is not settled.
        let request = match (self.request.take(), source) {
            (Some(request), _) => Some(BrokenRequest::Forwarded(request)),
            (None, Source::Waiting(pending)) => Some(BrokenRequest::Pending(pending)),
            (None, Source::Reading(_) | Source::Ended) => None,
        };
        self.failure.take().zip(request)
    }

    /// Ready once the usage is known that a request is charged for whose stream broke, if its last event reports it.
    pub(super) fn poll_charged_usage(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(fault) = &self.failure else { return Poll::Ready(()) };
        if !matches!(self.adapter, StreamAdapter::Responses(_)) {
            return Poll::Ready(());
        }
        let status = fault.status_of_stream();
        if let Fault::Refused(Refusal::RequestCancelled | Refusal::ShuttingDown) = fault
            && let Source::Waiting(pending) = &mut self.source
            // `forward` ends for the same reason, and returns the request.
            && let Poll::Ready(forwarded) = pending.forwarding.as_mut().poll(context)
        {
            let fault = self.failure.take();
            self.forwarded(forwarded);
            self.failure = fault;
        }
        match &mut self.request {
            Some(request) if request.stop_and_check_charge(status) => {
                request.poll_usage(context).map(|_| ())
            }
            _ => Poll::Ready(()),
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let on_disconnect = self.on_disconnect.take().filter(|_| !self.is_settled());
        if let Some(on_disconnect) = on_disconnect {
            let ended = Self::new(Source::Ended, StreamAdapter::Taken, None, Duration::MAX);
            on_disconnect(Box::new(std::mem::replace(self, *ended)));
            return;
        }
        self.release_uncovered();
        // The upstream failed before the client left, which has not got the error yet.
        if matches!(self.failure, Some(Fault::Upstream(_)))
            && let Some((fault, request)) = self.take_broken()
        {
            request.fail(&fault, RequestOutcome::unseen(fault.status_of_stream()));
        }
    }
}
