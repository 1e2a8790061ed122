//! A request from its admission on: it is forwarded and answered. `settle.rs` settles it when it is closed or
//! dropped.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::admit::AdmittedRequest;
use super::count;
use super::coverage::Coverage;
use super::meter::Meter;
use super::open_request::OpenRequest;
use super::passthrough::ChatPassthrough;
use super::plausible_usage::PlausibleUsage;
use crate::ledger::journal::JournaledRequest;
use crate::ledger::{DiskSync, UsageBound};
use crate::upstream::{InFlight, SendStatus, UpstreamClient, UpstreamError};
use domain::id::RequestId;
use domain::limit::LimitStatus;
use domain::model::Deployment;
use domain::price::Price;
use domain::record::{RequestStatus, ServedBy};
use domain::refusal::Refusal;
use domain::usage::{Usage, UsageBasis};
use domain::wire::usage::AnswerUsage;

/// The text after which the journal is updated, in bytes. A crash leaves at most that much of a stream uncharged.
const JOURNAL_INTERVAL_BYTES: u64 = 2 * 1024;
/// The time after which the journal is updated if there is any more text. The list of requests in flight shows what the
/// journal knows.
const JOURNAL_INTERVAL: Duration = Duration::from_secs(2);
/// The error of a transmission that an idle connection lost.
const CONNECTION_LOST: &str = "connection_lost";

/// A request that is forwarded. It exists before the first attempt, and possibly no upstream can be tried. If
/// it is dropped, it is charged only if it has left the gateway, for the input and what was received.
pub struct ForwardedRequest {
    pub(super) open: Box<OpenRequest>,
    pub(super) coverage: Coverage,
    pub(super) price: Price,
    usage_bound: UsageBound,
    /// The gateway's own count, if the answer needed it.
    pub(super) counted: Option<(Usage, UsageBasis)>,
    /// The text sent upstream, in bytes.
    pub(super) input_bytes: u64,
    /// The part of the answer's text that the journal knows of, in bytes.
    journalled_bytes: u64,
    /// The monotonic time of the last update of the journal.
    journalled_at: Duration,
    /// Whether the request has left the gateway in the attempt that the record names, or in any before.
    pub(super) send_status: SendStatus,
    /// The other attempt of a hedged request; `None` until a second one begins. The record and `send_status` describe
    /// the current one.
    other_attempt: Option<Box<OtherAttempt>>,
    /// Whether an upstream has begun to answer.
    pub(super) answer_begun: bool,
    /// The client of the upstream that answers; `None` before an upstream has answered.
    pub(super) upstream_client: Option<Arc<UpstreamClient>>,
    /// Counts the request at the upstream that answers.
    pub(super) in_flight: Option<InFlight>,
}

/// The attempt of a hedged request that the record does not describe.
struct OtherAttempt {
    target: ServedBy,
    credential: Option<u32>,
    send_status: SendStatus,
}

impl ForwardedRequest {
    /// Begins to forward an admitted request. It is boxed because it is large and is moved often.
    pub(super) fn new(admitted: AdmittedRequest) -> Box<Self> {
        let AdmittedRequest { open, permit, hold, price, usage_bound, media_tokens, choices } =
            admitted;
        let mut coverage = Coverage::new(open.app.clone(), permit, hold, media_tokens);
        coverage.meter.set_requested_choices(choices);
        Box::new(Self {
            open,
            coverage,
            price,
            usage_bound,
            counted: None,
            input_bytes: 0,
            journalled_bytes: 0,
            journalled_at: Duration::ZERO,
            send_status: SendStatus::default(),
            other_attempt: None,
            answer_begun: false,
            upstream_client: None,
            in_flight: None,
        })
    }

    /// Returns the request id.
    pub fn id(&self) -> RequestId {
        self.open.id()
    }

    /// Returns the state of the request's limits at admission.
    pub fn limit_status(&self) -> &LimitStatus {
        self.open.limit_status()
    }

    /// Records an attempt at a deployment with this chat request, and the number of the credential if its upstream has
    /// several; the journal has it before it is sent.
    ///
    /// The journal does not know whether the request has left afterwards. After a crash between here and the
    /// write to the upstream, the request is charged as if it had.
    ///
    /// # Errors
    /// [`Refusal::RecorderBehind`] if the journal cannot be written; the request must not be sent.
    pub(super) fn record_attempt(
        &mut self,
        target: &Deployment,
        credential: Option<u32>,
        chat_body: &Bytes,
    ) -> Result<(), Refusal> {
        self.coverage.set_request_body(chat_body.clone());
        self.input_bytes = count::text_bytes(chat_body);
        let open = JournaledRequest {
            record: self.open.set_deployment(target, credential),
            price: self.price,
            input_bytes: self.input_bytes,
            output_bytes: self.output_bytes(),
        };
        self.open.app.ledger.begin(open).map_err(|_| Refusal::RecorderBehind)
    }

    /// Makes the current attempt the other one, because a second one is about to begin beside it.
    pub(super) fn start_hedge(&mut self) {
        let Some(target) = self.open.deployment().cloned() else { return };
        let send_status = std::mem::take(&mut self.send_status);
        let other = OtherAttempt { target, credential: self.open.credential(), send_status };
        self.other_attempt = Some(Box::new(other));
    }

    /// Makes the first attempt of a hedged request, at `target`, the current one again.
    pub(super) fn make_first_current(&mut self, target: &Deployment, chat_body: &Bytes) {
        let Some(mut other) = self.other_attempt.take() else { return };
        let second = self.open.deployment().cloned().zip(Some(self.open.credential()));
        // If the journal cannot be written, it names the other attempt, whose price is the same.
        _ = self.record_attempt(target, other.credential, chat_body);
        if let Some((target, credential)) = second {
            std::mem::swap(&mut self.send_status, &mut other.send_status);
            (other.target, other.credential) = (target, credential);
        }
        self.other_attempt = Some(other);
    }

    /// Adds a note about each attempt that was sent twice, because its connection was lost after having been idle. The
    /// upstream may have received the request both times.
    pub(super) fn note_lost_attempts(&mut self) {
        if let (Some(took), Some(target)) = (self.send_status.take_lost(), self.open.deployment()) {
            let credential = self.open.credential();
            let note = failed_attempt_note(target, credential, CONNECTION_LOST, took);
            self.open.add_notes([note]);
        }
        let Some(other) = &self.other_attempt else { return };
        if let Some(took) = other.send_status.take_lost() {
            let note = failed_attempt_note(&other.target, other.credential, CONNECTION_LOST, took);
            self.open.add_notes([note]);
        }
    }

    /// Prevents the request from leaving from now on, and returns whether it has left before, in any attempt.
    pub(super) fn stop_sending(&self) -> bool {
        let other = self.other_attempt.as_ref().is_some_and(|other| other.send_status.stop());
        self.send_status.stop() || other
    }

    /// Ready with the usage: the upstream's, as far as it is plausible, or else the gateway's own count. An
    /// answer must not end before: its record is written first.
    pub(super) fn poll_usage(&mut self, context: &mut Context<'_>) -> Poll<AnswerUsage> {
        let plausible_usage = self.plausible_usage();
        if let Some(usage) = plausible_usage.complete() {
            return Poll::Ready(usage);
        }
        if let Some((counted, _)) = self.counted {
            return Poll::Ready(plausible_usage.or_counted(&counted));
        }
        let mut counting = self.coverage.count_rest();
        let Poll::Ready(counted) = Pin::new(&mut counting).poll(context) else {
            self.coverage.keep_count(counting);
            return Poll::Pending;
        };
        let (usage, basis) = if let Some(usage) = counted.ok().flatten() {
            (usage, UsageBasis::Counted)
        } else {
            tracing::error!(request_id = %self.id(), "a request could not be counted");
            (self.max_usage(), UsageBasis::Bounded)
        };
        self.counted = Some((usage, basis));
        Poll::Ready(plausible_usage.or_counted(&usage))
    }

    /// Returns the usage known so far of a request that ends with `status`: the upstream's, the count if there was one, or
    /// none if the request is not charged. A cancelled or interrupted request is not sent after this call.
    pub fn known_usage(&self, status: RequestStatus) -> Option<AnswerUsage> {
        let plausible_usage = self.plausible_usage();
        let counted = || self.counted.map(|(counted, _)| plausible_usage.or_counted(&counted));
        let uncharged = || (!self.stop_and_check_charge(status)).then(|| Usage::default().into());
        plausible_usage.complete().or_else(counted).or_else(uncharged)
    }

    /// Returns the plausible part of what the upstream reports; empty if it reports nothing.
    pub(super) fn plausible_usage(&self) -> PlausibleUsage {
        PlausibleUsage::new(&self.coverage, self.usage_bound, self.input_bytes)
    }

    /// Records that an upstream has begun to answer.
    pub(super) fn set_answer_begun(&mut self) {
        self.answer_begun = true;
    }

    /// Sets the client of the upstream that answers, where the request is in flight until it is settled.
    pub(super) fn answered_by(&mut self, client: Arc<UpstreamClient>, in_flight: InFlight) {
        (self.upstream_client, self.in_flight) = (Some(client), Some(in_flight));
    }

    /// Removes the credential of the upstream that answers from an error.
    pub(super) fn redact(&self, error: UpstreamError) -> UpstreamError {
        match &self.upstream_client {
            Some(client) => client.redact(error),
            None => error,
        }
    }

    /// Ready once there is room for more text of the answer.
    pub(super) fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let client = self.upstream_client.as_ref();
        let expects_usage = client.is_some_and(|client| client.reports_usage());
        self.coverage.poll_room(expects_usage, context)
    }

    /// Records that the head of a stream was sent to the client.
    pub(super) fn set_head_sent(&mut self) {
        self.open.set_head_sent();
        self.journal_progress();
    }

    /// Updates the progress of a stream in the journal, once enough text has arrived, or some text after enough time.
    pub(super) fn update_progress(&mut self) {
        let more = self.output_bytes().saturating_sub(self.journalled_bytes);
        let is_late = || self.open.app.clock.monotonic() >= self.journalled_at + JOURNAL_INTERVAL;
        if more >= JOURNAL_INTERVAL_BYTES || (more > 0 && is_late()) {
            self.journal_progress();
        }
    }

    /// Writes the progress of a stream to the journal.
    fn journal_progress(&mut self) {
        let output_bytes = self.output_bytes();
        self.journalled_bytes = output_bytes;
        self.journalled_at = self.open.app.clock.monotonic();
        let (http_status, ttft) = (self.open.http_status(), self.open.time_to_first_token());
        self.open.app.ledger.update(self.open.id(), |open| {
            open.record.http_status = http_status;
            open.record.ttft = ttft;
            open.output_bytes = output_bytes;
        });
    }

    /// Records that the client does not get these events of its chat stream, so that their text is not
    /// charged.
    pub(super) fn withhold(&mut self, events: &[u8]) {
        let mut meter = Meter::default();
        // The events are valid up to here; errors in the rest do not matter.
        _ = ChatPassthrough::new(String::new(), true).push(
            events,
            &mut meter,
            &mut BytesMut::new(),
        );
        self.coverage.withhold(meter.take_uncounted());
    }

    /// Spawns `work` that continues after the request; a shutdown waits for it.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.open.app.tasks.spawn(work);
    }

    /// Returns the wait between settlement and the end of the answer.
    pub fn syncing(&self) -> Option<DiskSync> {
        self.open.app.ledger.syncing()
    }

    /// Returns the usage that is charged if nothing can be counted.
    pub(super) fn max_usage(&self) -> Usage {
        Usage::bounded(self.input_bytes, self.output_bytes())
    }

    /// Returns the text of the answer so far, in bytes.
    pub(super) fn output_bytes(&self) -> u64 {
        self.coverage.meter.produced_bytes() as u64
    }
}

/// Returns the note about a failed attempt: the deployment, the error, the time that it took, and the number of the
/// credential if the upstream has several.
pub(super) fn failed_attempt_note(
    target: &ServedBy,
    credential: Option<u32>,
    label: &str,
    took: Duration,
) -> String {
    let ServedBy { upstream, upstream_model } = target;
    let took = took.as_millis();
    let credential = credential.map(|number| format!(":credential={number}")).unwrap_or_default();
    format!("failed_attempt={upstream}/{upstream_model}:{label}:{took}ms{credential}")
}
