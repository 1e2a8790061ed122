//! Tests of relays without an upstream.

use std::future::pending;
use std::sync::Arc;

use translate::answer::{Envelope, KeepAlive, ResponseStream};
use translate::plan::{ReasoningSealer, ResponsePlan};

use super::*;
use crate::clock::SystemClock;
use crate::pipeline::outcome::{DropOutcome, HeadSent};
use crate::pipeline::responses_adapter::ResponsesAdapter;
use domain::record::RequestStatus;
use domain::refusal::Refusal;

struct NoSealer;

impl ReasoningSealer for NoSealer {
    fn seal(&self, text: &str) -> String {
        text.to_owned()
    }

    fn open(&self, sealed: &str) -> Option<String> {
        Some(sealed.to_owned())
    }
}

/// Returns the relay of a Responses stream whose upstream never answers, and the outcome of its request.
fn waiting() -> (Box<Relay>, DropOutcome) {
    let envelope = Envelope {
        id: "resp_1".to_owned(),
        created_at: 0,
        seed: 0,
        done_marker: false,
        sealer: Arc::new(NoSealer),
    };
    let stream = ResponseStream::new(&envelope, ResponsePlan::default().into());
    let clock = Arc::new(SystemClock::new());
    let stream = ResponsesAdapter::new(stream, KeepAlive::Comment, None, clock);
    let drop_outcome = DropOutcome::default();
    let answer = PendingAnswer {
        forwarding: Box::pin(pending()),
        id: RequestId(uuid::Uuid::nil()),
        head_sent: HeadSent::default(),
        drop_outcome: drop_outcome.clone(),
        syncing: None,
    };
    let adapter = StreamAdapter::Responses(Box::new(stream));
    (Relay::waiting(answer, adapter, HeaderMap::new()), drop_outcome)
}

/// Polls the relay once.
async fn poll(relay: &mut Relay) -> Poll<Option<Result<Bytes, Box<BrokenStream>>>> {
    poll_fn(|context| Poll::Ready(relay.poll_bytes(context))).await
}

/// Regression test: the relay passed for ended, so that the error was not sent.
#[tokio::test]
async fn an_interrupted_stream_has_not_ended_before_the_error_is_reported() {
    let (mut relay, drop_outcome) = waiting();
    assert!(poll(&mut relay).await.is_pending() && !relay.is_ended());
    relay.interrupt(Refusal::ShuttingDown.into());
    assert!(!relay.is_ended());
    let Poll::Ready(Some(Err(broken))) = poll(&mut relay).await else { panic!("no error") };
    assert!(relay.is_ended());
    assert!(matches!(broken.fault, Fault::Refused(Refusal::ShuttingDown)));
    let outcome = RequestOutcome::completed();
    broken.request.fail(&broken.fault, outcome.clone());
    assert_eq!(drop_outcome.get(), Some(&outcome));
}

/// Regression test: the events that waited for coverage were dropped, and the final events repeated their
/// text.
#[tokio::test]
async fn an_interrupted_responses_stream_includes_the_events_that_waited_for_coverage() {
    let (mut relay, _) = waiting();
    relay.out = BytesMut::from("first ");
    relay.uncovered = Some(BytesMut::from("second"));
    relay.interrupt(Refusal::ShuttingDown.into());
    let Poll::Ready(Some(Ok(bytes))) = poll(&mut relay).await else { panic!("no bytes") };
    assert_eq!(bytes, "first second");
    assert!(matches!(poll(&mut relay).await, Poll::Ready(Some(Err(_)))));
}

/// Regression test: such a request was recorded as cancelled, and the failure was missing in the statistics of its
/// upstream.
#[tokio::test]
async fn a_failure_of_the_upstream_counts_although_the_client_leaves_before_the_error() {
    let (mut relay, drop_outcome) = waiting();
    relay.failure = Some(UpstreamError::CutOff.into());
    drop(relay);
    assert_eq!(drop_outcome.get(), Some(&RequestOutcome::unseen(RequestStatus::Failed)));
}

/// Regression test: the stream ended at its first keep-alive, because that was empty.
#[tokio::test(start_paused = true)]
async fn a_stream_without_anything_to_keep_alive_does_not_end() {
    let (mut relay, _) = waiting();
    // No event was sent, so there is no keep-alive either.
    let wait = poll_fn(|context| relay.poll_bytes(context).map(|_| ()));
    assert!(tokio::time::timeout(3 * KEEP_ALIVE_INTERVAL, wait).await.is_err());
    relay.adapter.commit(&mut relay.out);
    assert!(matches!(poll(&mut relay).await, Poll::Ready(Some(Ok(_)))));
    let Some(Ok(bytes)) = poll_fn(|context| relay.poll_bytes(context)).await else { panic!() };
    assert_eq!(bytes, ": keepalive\n\n");
}
