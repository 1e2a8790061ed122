//! The state of a request while it is served.
//!
//! A [`RequestGuard`] is opened for each request of a known key; `settle.rs` settles it when it is closed or
//! dropped.

use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderValue;
use jiff::Timestamp;

use super::AppState;
use super::admit::Admission;
use super::arrival::Arrival;
use super::authenticate::Principal;
use super::count::{self, Produced};
use super::coverage::RunningCounts;
use super::meter::Meter;
use super::outcome::{ClientPresence, HeadSent};
use super::passthrough::ChatPassthrough;
use crate::ledger::journal::Open;
use crate::ledger::{DiskSync, Hold, UsageBound};
use crate::limits::Permit;
use crate::upstream::UpstreamClient;
use domain::endpoint::Endpoint;
use domain::id::{ModelId, RequestId};
use domain::idempotency::IdempotencyDigest;
use domain::limit::LimitStatus;
use domain::model::{Deployment, Model};
use domain::money::Nanos;
use domain::price::Price;
use domain::record::{RequestRecord, RequestStatus, ServedBy};
use domain::refusal::Refusal;
use domain::usage::{Usage, UsageBasis};
use domain::wire::usage::AnswerUsage;

/// The part of an unknown model's name that is recorded, in characters.
const MAX_NAME_CHARS: usize = 128;
/// The text after which the journal is updated, in bytes: what a crash leaves uncharged of a stream.
const JOURNAL_INTERVAL_BYTES: u64 = 2 * 1024;

/// One request in progress. Dropping it settles the request with what is known.
pub struct RequestGuard {
    /// Observes the answer.
    pub meter: Meter,
    pub(super) app: Arc<AppState>,
    pub(super) arrival: Arrival,
    /// Taken when the request is settled.
    pub(super) record: Option<Box<RequestRecord>>,
    pub(super) request_body: Bytes,
    pub(super) permit: Option<Permit>,
    standing: LimitStatus,
    pub(super) hold: Option<Hold>,
    pub(super) price: Price,
    /// An estimate of the tokens of its images, audio and files.
    media_tokens: u64,
    /// The bound on its usage; `None` before admission.
    pub(super) usage_bound: Option<UsageBound>,
    /// Our own count, if the answer needed it.
    pub(super) counted: Option<(Usage, UsageBasis)>,
    /// The running counts.
    pub(super) counts: RunningCounts,
    /// Text of the answer that the client does not get.
    pub(super) withheld: Produced,
    /// The text sent upstream and the text of the answer so far, in bytes.
    input_bytes: u64,
    pub(super) output_bytes: u64,
    /// The part of `output_bytes` that the journal knows of.
    journalled_bytes: u64,
    /// Whether an upstream has begun to answer.
    pub(super) answer_begun: bool,
    /// The client of the upstream that answers.
    pub(super) upstream_client: Option<Arc<UpstreamClient>>,
    commitment: Option<HeadSent>,
    /// Whether the client of a drained request is connected.
    presence: Option<ClientPresence>,
}

impl RequestGuard {
    /// Opens the guard of a request.
    pub fn open(app: Arc<AppState>, arrival: Arrival, who: &Principal, endpoint: Endpoint) -> Self {
        let record = Box::new(RequestRecord {
            id: arrival.id,
            account: who.account.id,
            key: who.key.id.clone(),
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
        });
        Self {
            meter: Meter::default(),
            app,
            arrival,
            record: Some(record),
            request_body: Bytes::new(),
            permit: None,
            standing: LimitStatus::default(),
            hold: None,
            price: Price::default(),
            media_tokens: 0,
            usage_bound: None,
            counted: None,
            counts: RunningCounts::default(),
            withheld: Produced::default(),
            input_bytes: 0,
            output_bytes: 0,
            journalled_bytes: 0,
            answer_begun: false,
            upstream_client: None,
            commitment: None,
            presence: None,
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

    /// Records what the client requested.
    pub fn set_request(&mut self, stream: bool, model: &str) {
        let end = model.char_indices().nth(MAX_NAME_CHARS).map_or(model.len(), |(end, _)| end);
        let record = self.record_mut();
        record.stream = stream;
        record.model = Some(ModelId::new(&model[..end]));
    }

    /// Records the state of the request's limits.
    pub fn set_limit_status(&mut self, standing: LimitStatus) {
        self.standing = standing;
    }

    /// Returns the state of the request's limits at admission or refusal.
    pub fn standing(&self) -> &LimitStatus {
        &self.standing
    }

    /// Records the admission.
    pub fn admitted(&mut self, admission: Admission, model: &Model) {
        self.permit = Some(admission.permit);
        self.hold = admission.hold;
        self.price = model.price;
        self.usage_bound = Some(admission.usage_bound);
        self.media_tokens = admission.media_tokens;
        let record = self.record_mut();
        record.model = Some(model.id.clone());
        record.price_version = Some(model.price.version);
    }

    /// Returns the cap on each choice that the balance and the monthly quota allow, if the client's own is
    /// higher; tokens.
    pub fn output_cap(&self) -> Option<u64> {
        let paid = self.hold.as_ref().and_then(|hold| hold.cap);
        let allowed = self.permit.as_ref().and_then(Permit::cap);
        paid.into_iter().chain(allowed).min()
    }

    /// Records an attempt at a deployment with this chat request; the journal has it before it is sent.
    ///
    /// # Errors
    /// [`Refusal::RecorderBehind`] if the journal cannot be written; the request must not be sent.
    pub fn record_attempt(
        &mut self,
        target: &Deployment,
        chat_body: &Bytes,
    ) -> Result<(), Refusal> {
        self.request_body = chat_body.clone();
        self.input_bytes = count::text_bytes(chat_body);
        let record = self.record_mut();
        record.deployment = Some(ServedBy::from(target));
        let record = RequestRecord {
            status: RequestStatus::Interrupted,
            idempotency: None,
            ..RequestRecord::clone(record)
        };
        let open = Open {
            record,
            price: self.price,
            input_bytes: self.input_bytes,
            output_bytes: self.output_bytes,
        };
        self.app.ledger.begin(open).map_err(|_| Refusal::RecorderBehind)
    }

    /// Records the idempotency digest of the request, which counts once it is answered completely.
    pub fn set_idempotency_digest(&mut self, digest: IdempotencyDigest) {
        self.record_mut().idempotency = Some(digest);
    }

    /// Adds notes on losses in translation to the record.
    pub fn add_notes(&mut self, notes: impl IntoIterator<Item = String>) {
        self.record_mut().notes.extend(notes);
    }

    /// Ready with the usage: the upstream's, as far as it is plausible, or else our own count. An answer must
    /// not end before: its record is written first.
    pub fn poll_used(&mut self, context: &mut Context<'_>) -> Poll<AnswerUsage> {
        let plausible_usage = self.plausible_usage();
        if let Some(used) = plausible_usage.complete() {
            return Poll::Ready(used);
        }
        if let Some((counted, _)) = self.counted {
            return Poll::Ready(plausible_usage.or_counted(&counted));
        }
        let mut counting = self.count_rest();
        let Poll::Ready(counted) = Pin::new(&mut counting).poll(context) else {
            self.keep_count(counting);
            return Poll::Pending;
        };
        let (usage, basis) = if let Some(usage) = counted.ok().flatten() {
            (usage, UsageBasis::Counted)
        } else {
            tracing::error!(request_id = %self.arrival.id, "a request could not be counted");
            (self.bound(), UsageBasis::Bounded)
        };
        self.counted = Some((usage, basis));
        Poll::Ready(plausible_usage.or_counted(&usage))
    }

    /// Returns the usage known so far, without a count.
    pub fn reported_usage(&self) -> Option<AnswerUsage> {
        self.plausible_usage().complete()
    }

    /// Records that an upstream has begun to answer.
    pub fn answer_begun(&mut self) {
        self.answer_begun = true;
    }

    /// Sets the client of the upstream that answers.
    pub(super) fn answered_by(&mut self, upstream_client: Arc<UpstreamClient>) {
        self.upstream_client = Some(upstream_client);
    }

    /// Records that the head of a stream was sent to the client.
    pub fn head_sent(&mut self) {
        self.record_mut().http_status = Some(200);
        self.journal_progress();
    }

    /// Updates the progress of a stream in the journal, once enough text has arrived.
    pub fn update_progress(&mut self) {
        self.output_bytes = self.meter.produced_bytes() as u64;
        if self.output_bytes >= self.journalled_bytes + JOURNAL_INTERVAL_BYTES {
            self.journal_progress();
        }
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
        self.withheld = meter.take_produced();
    }

    /// Returns whether the client does not get the whole text of the answer.
    pub(super) fn has_withheld(&self) -> bool {
        !self.withheld.is_empty()
    }

    /// Writes the progress of a stream to the journal.
    fn journal_progress(&mut self) {
        let output_bytes = self.output_bytes;
        self.journalled_bytes = output_bytes;
        let http_status = self.http_status();
        let ttft = self.record_mut().ttft;
        self.app.ledger.update(self.arrival.id, |open| {
            open.record.http_status = http_status;
            open.record.ttft = ttft;
            open.output_bytes = output_bytes;
        });
    }

    /// Returns the status that the client got, if it is known.
    pub(super) fn http_status(&self) -> Option<u16> {
        let head_sent = self.commitment.as_ref().is_some_and(HeadSent::is_set).then_some(200);
        self.record.as_ref().and_then(|record| record.http_status).or(head_sent)
    }

    /// Returns a handle that records that the head of a stream was sent to the client.
    pub fn commitment(&mut self) -> HeadSent {
        self.commitment.get_or_insert_default().clone()
    }

    /// Returns a handle that records a client disconnect while the request continues.
    pub fn presence(&mut self) -> ClientPresence {
        self.presence.get_or_insert_default().clone()
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.presence.as_ref().is_some_and(ClientPresence::is_over)
    }

    /// Records the time of the first piece of the answer.
    pub fn first_piece(&mut self) {
        if self.record_mut().ttft.is_none() {
            let elapsed = self.elapsed();
            self.record_mut().ttft = Some(elapsed);
        }
    }

    /// Spawns `work` that continues after the request; a shutdown waits for it.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.app.tasks.spawn(work);
    }

    /// Returns the wait between settlement and the end of the answer.
    pub fn syncing(&self) -> Option<DiskSync> {
        self.app.ledger.syncing()
    }

    /// Returns the usage that is charged if nothing can be counted.
    pub(super) fn bound(&self) -> Usage {
        Usage::bounded(self.input_bytes, self.output_bytes)
    }

    /// Returns an estimate of the tokens of the request's images, audio and files.
    pub(super) fn media_tokens(&self) -> u64 {
        self.media_tokens
    }

    /// Returns the text sent upstream, in bytes.
    pub(super) fn input_bytes(&self) -> u64 {
        self.input_bytes
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.app.clock.monotonic().saturating_sub(self.arrival.monotonic)
    }

    fn record_mut(&mut self) -> &mut RequestRecord {
        self.record.as_mut().expect("a guard is not used after it was booked")
    }
}
