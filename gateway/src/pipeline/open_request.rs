//! A request whose key is known: its record, and how it ends.
//!
//! [`OpenRequest`] is a request before it is admitted, and the core of the types of the later phases,
//! [`AdmittedRequest`](super::admit::AdmittedRequest) and
//! [`ForwardedRequest`](super::forwarded_request::ForwardedRequest), which contain it. Each phase owns the
//! request and passes it on by value. A request that is dropped in any phase is settled.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use jiff::Timestamp;

use super::AppState;
use super::authenticate::Principal;
use super::outcome::{ClientDisconnected, DropOutcome, HeadSent, RequestOutcome};
use super::propagation::{AttemptContext, TraceContext, TraceHeaders};
use crate::capture::CapturedRequest;
use crate::memory_budget::MemoryGuard;
use crate::offload::OffloadEnd;
use domain::endpoint::Endpoint;
use domain::id::{AccountId, ModelId, RequestId};
use domain::idempotency::IdempotencyDigest;
use domain::limit::LimitStatus;
use domain::model::{Deployment, Model};
use domain::money::Nanos;
use domain::record::{RequestRecord, RequestStatus, ServedBy};
use domain::trace::AttemptTrace;
use domain::traced_content::ContentSlot;
use domain::usage::UsageBasis;

/// The part of an unknown model's name that is recorded, in characters.
const MAX_NAME_CHARS: usize = 128;

/// The id and the arrival time of a request.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The request id.
    pub id: RequestId,
    /// The wall-clock time.
    pub at: Timestamp,
    /// The monotonic time.
    pub monotonic: Duration,
}

/// A request of a known key. By itself it costs nothing: if it is closed or dropped, its record has no charge.
/// Within a [`ForwardedRequest`](super::forwarded_request::ForwardedRequest), that type takes the record and
/// settles it with a charge.
pub struct OpenRequest {
    pub(super) app: Arc<AppState>,
    arrival: Arrival,
    /// `None` once the request is settled.
    record: Option<Box<RequestRecord>>,
    limit_status: LimitStatus,
    /// The number of the credential that the last attempt used, if its upstream has several.
    credential: Option<u32>,
    head_sent: Option<HeadSent>,
    /// Set once the client of a drained request has disconnected; `None` if the request is not drained.
    client_disconnected: Option<ClientDisconnected>,
    drop_outcome: DropOutcome,
    trace: TraceContext,
    /// Captures the messages or reads the text of the request; `None` if neither is wanted of its key.
    capture: Option<Arc<CapturedRequest>>,
    /// `None` if the request is not offloaded.
    offload_end: Option<OffloadEnd>,
}

/// The record of a request that has ended, without its usage and cost.
pub(super) struct EndedRecord {
    pub(super) record: Box<RequestRecord>,
    /// Whether the answer was complete.
    pub(super) is_whole: bool,
    /// Whether the request ended after its client had disconnected.
    pub(super) is_drained: bool,
}

// === impl Arrival ===

impl Arrival {
    /// Creates the arrival of a request now.
    pub fn now(app: &AppState) -> Self {
        let at = app.clock.now();
        let id = RequestId(app.entropy.uuid(at));
        Self { id, at, monotonic: app.clock.monotonic() }
    }

    /// Returns the id as a header value.
    pub fn id_header(&self) -> HeaderValue {
        let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
        let text = self.id.0.hyphenated().encode_lower(&mut text);
        HeaderValue::from_str(text).expect("a UUID is a valid header")
    }
}

// === impl OpenRequest ===

impl OpenRequest {
    /// Opens a request of `principal`. It is boxed because each phase is passed it by value: the future of every request
    /// would have to hold it several times.
    pub fn new(
        app: Arc<AppState>,
        arrival: Arrival,
        principal: &Principal,
        endpoint: Endpoint,
    ) -> Box<Self> {
        let record = Box::new(RequestRecord {
            id: arrival.id,
            account: principal.account.id,
            key: principal.key.id.clone(),
            endpoint,
            model: None,
            deployment: None,
            stream: false,
            status: RequestStatus::Cancelled,
            http_status: None,
            error_code: None,
            usage: None,
            basis: UsageBasis::None,
            cost: Some(Nanos::ZERO),
            overrun: Nanos::ZERO,
            price_version: None,
            started_at: arrival.at,
            duration: Duration::ZERO,
            ttft: None,
            notes: Vec::new(),
            idempotency: None,
            count: NonZeroU32::MIN,
            trace: None,
        });
        Box::new(Self {
            app,
            arrival,
            record: Some(record),
            limit_status: LimitStatus::default(),
            credential: None,
            head_sent: None,
            client_disconnected: None,
            drop_outcome: DropOutcome::default(),
            trace: TraceContext::default(),
            capture: None,
            offload_end: None,
        })
    }

    /// Takes the trace context from the headers of the client.
    pub fn set_trace_context(&mut self, headers: &HeaderMap) {
        self.trace = TraceContext::of(self.app.trace_sampler, headers, &self.arrival);
    }

    /// Returns whether the request has spans.
    pub fn is_traced(&self) -> bool {
        self.trace.trace.is_some()
    }

    /// Sets what captures the messages or reads the text of the request; `None` if neither is wanted of its key.
    pub fn set_capture(&mut self, capture: Option<Arc<CapturedRequest>>) {
        self.capture = capture;
    }

    /// Returns what captures the messages or reads the text of the request, if anything does.
    pub fn capture(&self) -> Option<&Arc<CapturedRequest>> {
        self.capture.as_ref()
    }

    /// Marks the request as offloaded. The returned flag ends its offloaded part.
    pub fn begin_offload(&mut self) -> OffloadEnd {
        self.offload_end.get_or_insert_default().clone()
    }

    /// Ends the part of the request that is offloaded, if it is.
    pub(super) fn end_offload(&self) {
        if let Some(end) = &self.offload_end {
            end.set();
        }
    }

    /// Returns the request id.
    pub fn id(&self) -> RequestId {
        self.arrival.id
    }

    /// Returns the arrival time.
    pub fn arrived_at(&self) -> Timestamp {
        self.arrival.at
    }

    /// Returns the request id as a header value.
    pub fn id_header(&self) -> HeaderValue {
        self.arrival.id_header()
    }

    /// Returns a guard of memory for an answer or a text that counts for the account of the request; it holds none yet.
    pub fn memory_guard(&self) -> MemoryGuard {
        self.app.working_memory.guard(self.account())
    }

    /// Returns the account of the request's key.
    pub(super) fn account(&self) -> AccountId {
        self.record.as_ref().expect("only `close` and `drop` take the record").account
    }

    /// Records what the client requested.
    pub fn set_request(&mut self, stream: bool, model: &str) {
        let end = model.char_indices().nth(MAX_NAME_CHARS).map_or(model.len(), |(end, _)| end);
        let record = self.record_mut();
        record.stream = stream;
        record.model = Some(ModelId::new(&model[..end]));
    }

    /// Records the idempotency digest of the request, which counts once it is answered completely.
    pub fn set_idempotency_digest(&mut self, digest: IdempotencyDigest) {
        self.record_mut().idempotency = Some(digest);
    }

    /// Records the state of the request's limits.
    pub fn set_limit_status(&mut self, limit_status: LimitStatus) {
        self.limit_status = limit_status;
    }

    /// Returns the state of the request's limits at admission or refusal.
    pub fn limit_status(&self) -> &LimitStatus {
        &self.limit_status
    }

    /// Adds notes to the record.
    pub fn add_notes(&mut self, notes: impl IntoIterator<Item = String>) {
        self.record_mut().notes.extend(notes);
    }

    /// Records the model that the request was admitted to, and the price of that time.
    pub(super) fn set_model(&mut self, model: &Model) {
        let record = self.record_mut();
        record.model = Some(model.id.clone());
        record.price_version = Some(model.price.version);
    }

    /// Records the deployment that the request is sent to, and the number of the credential if its upstream has several.
    /// Returns the record as a crash should leave it.
    pub(super) fn set_deployment(
        &mut self,
        target: &Deployment,
        credential: Option<u32>,
    ) -> RequestRecord {
        self.credential = credential;
        let record = self.record_mut();
        record.deployment = Some(ServedBy::from(target));
        let mut interrupted = RequestRecord {
            status: RequestStatus::Interrupted,
            idempotency: None,
            ..RequestRecord::clone(record)
        };
        interrupted.notes.extend(credential.map(credential_note));
        interrupted
    }

    /// Returns the deployment of the last attempt.
    pub(super) fn deployment(&self) -> Option<&ServedBy> {
        self.record.as_ref()?.deployment.as_ref()
    }

    /// Returns the number of the credential of the last attempt, if its upstream has several.
    pub(super) fn credential(&self) -> Option<u32> {
        self.credential
    }

    /// Records in the trace that an attempt at the deployment of the record begins. Returns what it carries of the
    /// trace.
    pub(super) fn begin_traced_attempt(&mut self) -> Option<Box<AttemptContext>> {
        let headers = self.trace.headers.as_deref();
        let Some(trace) = self.trace.trace.as_deref_mut() else {
            return headers.map(|headers| Box::new(headers.of_attempt()));
        };
        let served_by = self.record.as_ref()?.deployment.clone()?;
        let number = trace.begin_attempt(served_by, self.credential, self.app.clock.monotonic());
        Some(Box::new(TraceHeaders::of_traced_attempt(headers, trace, number)))
    }

    /// Returns the part of an attempt in the trace; `None` if the request is not sampled.
    pub(super) fn traced_attempt(
        &mut self,
        context: Option<&AttemptContext>,
    ) -> Option<&mut AttemptTrace> {
        let number = context?.number?;
        self.trace.trace.as_deref_mut()?.attempt_mut(number)
    }

    /// Records that the client got status 200 and the head of a stream.
    pub(super) fn set_head_sent(&mut self) {
        self.record_mut().http_status = Some(200);
    }

    /// Records the time of the first output for the client.
    pub(super) fn set_first_output(&mut self) {
        if self.record_mut().ttft.is_none() {
            let elapsed = self.elapsed();
            self.record_mut().ttft = Some(elapsed);
        }
    }

    /// Returns the time to the first output for the client, if there was any.
    pub(super) fn time_to_first_token(&self) -> Option<Duration> {
        self.record.as_ref()?.ttft
    }

    /// Returns the status that the client got, if it is known.
    pub(super) fn http_status(&self) -> Option<u16> {
        let head_sent = self.head_sent.as_ref().is_some_and(HeadSent::is_set).then_some(200);
        self.record.as_ref().and_then(|record| record.http_status).or(head_sent)
    }

    /// Returns a handle that records that the head of a stream was sent to the client.
    pub(super) fn head_sent_handle(&mut self) -> HeadSent {
        self.head_sent.get_or_insert_default().clone()
    }

    /// Returns a handle that records a client disconnect while the request continues.
    pub(super) fn client_disconnected_handle(&mut self) -> ClientDisconnected {
        self.client_disconnected.get_or_insert_default().clone()
    }

    /// Returns a handle that sets the outcome in case the request is dropped.
    pub fn drop_outcome(&self) -> DropOutcome {
        self.drop_outcome.clone()
    }

    /// Settles the request.
    pub fn close(mut self, outcome: RequestOutcome) {
        self.settle(outcome);
    }

    fn settle(&mut self, outcome: RequestOutcome) {
        if let Some(EndedRecord { mut record, is_drained, .. }) = self.take_record(outcome) {
            self.app.set_settled(&mut record);
            self.app.ledger.settle(record, None);
            if is_drained {
                self.app.flush();
            }
        }
    }

    /// Takes the record and completes it, except for its usage and cost. Returns `None` if it was taken before.
    pub(super) fn take_record(&mut self, mut outcome: RequestOutcome) -> Option<EndedRecord> {
        let is_whole =
            matches!(outcome.status, RequestStatus::Completed | RequestStatus::Incomplete);
        let is_drained = self.is_abandoned() && outcome.status != RequestStatus::Cancelled;
        if is_drained {
            outcome = outcome.after_disconnect();
        }
        let http_status = outcome.http_status.or_else(|| self.http_status());
        let mut record = self.record.take()?;
        record.notes.extend(self.credential.map(credential_note));
        record.duration = self.elapsed();
        record.idempotency = record.idempotency.filter(|_| is_whole);
        // Only a client's disconnect cancels without an error code. A request that continued without its client records
        // the disconnect, whatever has ended it.
        let is_cancelled = outcome.status == RequestStatus::Cancelled
            && (outcome.error_code.is_none() || self.is_abandoned());
        if record.deployment.is_some() && (is_drained || is_cancelled) {
            let done = if is_drained { "drained" } else { "cancelled" };
            record.notes.push(format!("client_gone:{done}"));
        }
        record.status = outcome.status;
        record.http_status = http_status;
        record.error_code = outcome.error_code;
        record.trace = self.trace.trace.take();
        if let (Some(trace), Some(capture)) = (&mut record.trace, &self.capture) {
            trace.content = capture.take_content().map(|it| Arc::new(ContentSlot::new(it)));
        }
        tracing::debug!(
            request_id = %record.id,
            model = record.model.as_ref().map(ModelId::as_str),
            status = ?record.status,
            http_status = record.http_status,
            error_code = record.error_code,
            duration_us = record.duration.as_micros(),
            "request ended"
        );
        Some(EndedRecord { record, is_whole, is_drained })
    }

    /// Returns the outcome of a request that is dropped: its client has disconnected, the task has panicked, or
    /// the shutdown has stopped waiting. `None` if it was settled before.
    pub(super) fn outcome_on_drop(&self) -> Option<RequestOutcome> {
        self.record.as_ref()?;
        if std::thread::panicking() {
            return Some(RequestOutcome {
                status: RequestStatus::Failed,
                http_status: Some(500),
                error_code: Some("internal_error".to_owned()),
            });
        }
        let is_abandoned = self.is_abandoned();
        if let Some(outcome) = self.drop_outcome.get().filter(|_| !is_abandoned) {
            return Some(outcome.clone());
        }
        if is_abandoned && self.app.cancellations.is_cancelled(self.id()) {
            return Some(RequestOutcome::cancelled_by_person());
        }
        let is_cut_off = self.app.cut_off.is_cancelled() && !is_abandoned;
        Some(if is_cut_off { RequestOutcome::cut_off() } else { RequestOutcome::cancelled() })
    }

    fn is_abandoned(&self) -> bool {
        self.client_disconnected.as_ref().is_some_and(ClientDisconnected::is_set)
    }

    fn elapsed(&self) -> Duration {
        self.app.clock.monotonic().saturating_sub(self.arrival.monotonic)
    }

    fn record_mut(&mut self) -> &mut RequestRecord {
        self.record.as_mut().expect("only `close` and `drop` take the record")
    }
}

/// Returns the note that names the credential of the deployment that the record names.
fn credential_note(number: u32) -> String {
    format!("credential={number}")
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        if let Some(outcome) = self.outcome_on_drop() {
            self.settle(outcome);
            self.app.flush();
        }
    }
}
